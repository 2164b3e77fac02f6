"""Models of tables with noise at the user and with noise at the node."""
