"""The public protocols by name, in the order in which all lists show them."""

from types import ModuleType
from typing import Any

from ldp_flower import strategies

# Order of the families; a family that is not named comes last.
_FAMILIES = (
    *("table_models", "sparse", "iht", "user_level", "analytics", "models"),
    *("collect_once", "tables", "recurring", "silos"),
)


def _place(strategy: type) -> tuple[int, str]:
    family = strategy.__module__.split(".")[-2]
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES), strategy.__name__


#: Every public name of the strategies.
PUBLIC: dict[str, Any] = {
    name: each
    for name, each in vars(strategies).items()
    if not name.startswith("_") and not isinstance(each, ModuleType)
}
#: The public strategies, that is, the classes with a card.
PROTOCOLS: dict[str, type[Any]] = {
    each.__name__: each
    for each in sorted((each for each in PUBLIC.values() if hasattr(each, "card")), key=_place)
}
