"""Audit: try to break what a protocol's clients promise.

``handler`` attacks a whole client, ``enumeration`` computes the privacy loss of
mechanisms with few outputs; ``probe`` calls clients, ``distinguish`` tells users apart.
"""

from .enumeration import Enumerable, exact_epsilon
from .handler import Audit, audit_handler, extreme_holders, extreme_users, recorded_queries

__all__ = [
    "Audit",
    "Enumerable",
    "audit_handler",
    "exact_epsilon",
    "extreme_holders",
    "extreme_users",
    "recorded_queries",
]
