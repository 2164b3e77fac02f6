"""Strategies with one message from each user, after Zheng, Mou & Wang (ICML 2017)."""
