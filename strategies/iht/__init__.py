"""Sparse regression by iterative hard thresholding, after Wang & Xu (ICML 2019)."""
