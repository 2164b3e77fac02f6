"""Arithmetic over each user's rows whose bits depend on that user alone."""
