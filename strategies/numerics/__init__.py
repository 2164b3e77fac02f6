"""Pure functions of the server's estimates, which ask nobody."""
