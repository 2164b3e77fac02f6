"""Regression on real tables: what comes before a fit and after it."""
