"""Sparse regressions and means from a vote for sets, waves of reports and one posterior."""
