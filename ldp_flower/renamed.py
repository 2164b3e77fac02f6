"""Renamed modules: an old name works for one version, with a warning."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def now_in(new: str, old: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that was renamed from ``old`` to ``new``."""

    def attribute(name: str) -> Any:
        if not name.startswith("__"):
            warnings.warn(f"{old} is now {new}.", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(new), name)

    return attribute
