"""A node's data: tables, columns and their entries, and the users made from them."""
