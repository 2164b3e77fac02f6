"""The command ``ldp-flower``."""

from .app import app

__all__ = ["app"]
