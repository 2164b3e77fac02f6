"""Exact mechanisms for items, and for sets of them: frequency oracles and prefix trees."""
