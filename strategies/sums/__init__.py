"""Noise at the node: the same estimates from exact sums over a node's users, with noise once."""
