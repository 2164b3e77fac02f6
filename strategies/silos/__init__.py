"""Strategies for silos that protect a silo's records or its model, after Wang & Gu (AAAI 2020)."""
