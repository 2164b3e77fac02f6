"""Presentation of results: words, numbers, charts, and pages made of them."""
