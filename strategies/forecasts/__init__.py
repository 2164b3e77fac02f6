"""Parts of plans: synthetic populations, dry runs, and formulas for errors."""
