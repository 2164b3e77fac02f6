"""Audit: try to break what a protocol's clients promise.

``handler`` attacks a whole client, ``enumeration`` computes the privacy loss of exact
mechanisms; ``probe`` calls clients, ``distinguish`` tells users apart. With the noise on a
``tape``, ``independence`` looks whose noise it is, ``neighbours`` what neighbouring nodes of a
deployment (``deployed``) show, ``crowded`` what many users on one do, ``settings`` what operators
set, and ``records`` how far a record moves a silo's sum. What is ``entering`` a mechanism is
looked at there and on neighbouring nodes. ``people`` are those on the nodes.
"""

from .enumeration import exact_epsilon, extreme_inputs, worst_epsilon
from .handler import Audit, audit_handler, recorded_queries
from .people import extreme_holders, extreme_silos, extreme_users, extremes

__all__ = [
    "Audit",
    "audit_handler",
    "exact_epsilon",
    "extreme_holders",
    "extreme_inputs",
    "extreme_silos",
    "extreme_users",
    "extremes",
    "recorded_queries",
    "worst_epsilon",
]
