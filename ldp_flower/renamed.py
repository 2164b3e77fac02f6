"""Renamed modules: an old name works for one version, with a warning."""

import importlib
import warnings
from collections.abc import Callable, Collection
from typing import Any


def now_in(new: str, old: str, names: Collection[str] = ()) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of module ``old``, whose names are now those of module ``new``.

    If only some ``names`` have moved, other names raise AttributeError, as in any module.
    """

    def attribute(name: str) -> Any:
        if names and name not in names:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        if not name.startswith("__"):
            text = f"{old}.{name} is now {new}.{name}."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(new), name)

    return attribute
