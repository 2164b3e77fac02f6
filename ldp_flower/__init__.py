"""Local differential privacy protocols for Flower.

This package holds the code that clients and strategies share. The private half is
:mod:`ldp_flower.clients`, and the untrusted half is :mod:`ldp_flower.strategies`.
"""

# ruff: noqa: F403, F405 -- the module public has the imports

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# In an installed package, the two halves lie in this folder; in a checkout, they lie beside it.
# A checkout then uses its own halves even if another version, whose halves would not fit, is
# installed.
_HERE = Path(__file__).parent
if not (_HERE / "clients").is_dir():
    __path__ = [str(_HERE), str(_HERE.parent)]

if TYPE_CHECKING:
    from .public import *

__all__ = [
    "Categories",
    "GeneratedUsers",
    "InProcessGrid",
    "Numeric",
    "PrivacyPolicy",
    "Schema",
    "Users",
    "assigned_arms",
    "hash_items",
    "plan",
    "read_table",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Return a public name, importing it on first use, so that commands start sooner."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.public"), name)


def __dir__() -> list[str]:
    """Return the names of the module with all public names, for completion in notebooks."""
    return sorted({*globals(), *__all__})
