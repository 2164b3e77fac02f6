"""Silos whose records, or models, are protected, after Wang & Gu (AAAI 2020)."""
