"""The command ``ldp-flower``."""
