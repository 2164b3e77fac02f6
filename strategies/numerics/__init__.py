"""Pure functions for the server's estimates, which query no users."""
