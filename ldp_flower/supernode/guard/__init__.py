"""A run's own training, run on the operator's node as a stranger's code."""
