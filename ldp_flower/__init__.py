"""Local differential privacy protocols for Flower.

This package holds what clients and strategies agree on. The private half is
:mod:`ldp_flower.clients`, the untrusted half :mod:`ldp_flower.strategies`.
"""

from .budget import PrivacyPolicy
from .generated import GeneratedUsers
from .grid import InProcessGrid
from .items import hash_items
from .schema import Categories, Numeric, Schema
from .simulation import simulate
from .users import Users

__all__ = [
    "Categories",
    "GeneratedUsers",
    "InProcessGrid",
    "Numeric",
    "PrivacyPolicy",
    "Schema",
    "Users",
    "hash_items",
    "simulate",
]
