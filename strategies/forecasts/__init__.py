"""What plans are made of: synthetic populations, dry runs, and formulas for errors."""
