"""What a node holds: tables, columns and their entries, and the users they become."""
