"""Strategies for users with many records each, after Ma, Jia & Yang (ICML 2024)."""
