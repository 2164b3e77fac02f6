"""Functions of a class or module that are others for a while: how the audit looks inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def replaced(owner: type | ModuleType, **methods: Callable[..., Any]) -> Iterator[None]:
    """Give a class or a module these functions for as long as the block runs."""
    own = {name: vars(owner)[name] for name in methods if name in vars(owner)}
    for name, method in methods.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for name in methods:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)
