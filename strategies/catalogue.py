"""The public protocols by name, in the order of every list of them."""

from typing import Any

from ldp_flower import strategies

from .runtime.base import LdpStrategy

# A family that is not named comes last.
_FAMILIES = (
    *("table_models", "sparse", "iht", "user_level", "analytics", "models"),
    *("collect_once", "tables", "recurring", "silos"),
)


def _place(strategy: type) -> tuple[int, str]:
    family = strategy.__module__.split(".")[-2]
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES), strategy.__name__


def _public() -> list[type[LdpStrategy[Any]]]:
    named = (getattr(strategies, name) for name in strategies.__all__)
    kinds = [each for each in named if isinstance(each, type) and issubclass(each, LdpStrategy)]
    return [each for each in kinds if each is not LdpStrategy]


PROTOCOLS = {each.__name__: each for each in sorted(_public(), key=_place)}
