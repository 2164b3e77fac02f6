"""Iterative hard thresholding, after Wang & Xu (ICML 2019)."""
