"""What errors to expect of protocols: formulas in public numbers, which ask nobody."""
