"""The public protocols by name, in the order of every list of them."""

from typing import Any

from ldp_flower import strategies

# A family that is not named comes last.
_FAMILIES = (
    *("table_models", "sparse", "iht", "user_level", "analytics", "models"),
    *("collect_once", "tables", "recurring", "silos"),
)


def _place(strategy: type) -> tuple[int, str]:
    family = strategy.__module__.split(".")[-2]
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES), strategy.__name__


_NAMED: list[Any] = [getattr(strategies, name) for name in strategies.__all__]
_PUBLIC = [each for each in _NAMED if isinstance(each, type) and hasattr(each, "card")]
#: Subclasses of LdpStrategy.
PROTOCOLS: dict[str, type[Any]] = {each.__name__: each for each in sorted(_PUBLIC, key=_place)}
