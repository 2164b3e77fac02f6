"""Noise of replies: where it is the same twice, what shape it has, and what it is worth."""
