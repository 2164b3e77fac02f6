"""Local differential privacy protocols for Flower.

This package holds what clients and strategies agree on. The private half is
:mod:`ldp_flower.clients`, the untrusted half :mod:`ldp_flower.strategies`.
"""

from .guarantee.budget import PrivacyPolicy
from .guarantee.users import Users
from .planning import plan
from .schema import Categories, Numeric, Schema
from .simulation.generated import GeneratedUsers
from .simulation.grid import InProcessGrid
from .simulation.simulate import simulate
from .values.items import hash_items

__all__ = [
    "Categories",
    "GeneratedUsers",
    "InProcessGrid",
    "Numeric",
    "PrivacyPolicy",
    "Schema",
    "Users",
    "hash_items",
    "plan",
    "simulate",
]
