"""Local differential privacy protocols for Flower.

This package holds the code that clients and strategies share. The private half is
:mod:`ldp_flower.clients`, and the untrusted half is :mod:`ldp_flower.strategies`.
"""

# ruff: noqa: E402 -- the paths of the two halves must be known before anything is imported

from pathlib import Path

__version__ = "0.2.0"

# In an installed package, the two halves lie in this folder; in a checkout, they lie beside it.
# A checkout then uses its own halves even if another version, whose halves would not fit, is
# installed.
_HERE = Path(__file__).parent
if not (_HERE / "clients").is_dir():
    __path__ = [str(_HERE), str(_HERE.parent)]

from .data.items import hash_items
from .data.schema import Categories, Numeric, Schema
from .data.table_file import read_table
from .data.users import Users
from .guarantee.budget import PrivacyPolicy
from .planning import plan
from .simulation.grid import GeneratedUsers, InProcessGrid, simulate

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
    "read_table",
    "simulate",
]
