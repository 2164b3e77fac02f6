"""Sparse regressions and means by a set vote, waves and one posterior."""
