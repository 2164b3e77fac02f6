"""What models of made-up tables are told, and lose."""
