"""Audit: try to break what a protocol's clients promise.

``handler`` attacks a whole client, ``enumeration`` computes the privacy loss of exact
mechanisms; ``probe`` calls clients, ``distinguish`` tells users apart.
"""

from .enumeration import exact_epsilon, extreme_inputs, worst_epsilon
from .handler import Audit, audit_handler, extreme_holders, extreme_users, recorded_queries

__all__ = [
    "Audit",
    "audit_handler",
    "exact_epsilon",
    "extreme_holders",
    "extreme_inputs",
    "extreme_users",
    "recorded_queries",
    "worst_epsilon",
]
