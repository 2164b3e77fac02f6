"""Mechanisms with real-valued noise, which clients refuse unless their operator allows them."""
