"""Strategies that estimate statistics of the users' data."""
