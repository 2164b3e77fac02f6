"""What one user computes before it is randomised, and its server undoes: public functions."""
