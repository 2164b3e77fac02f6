"""The runs that ``ldp-flower audit`` records: those that each protocol names."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..guarantee.users import Users
from ..strategies import LdpStrategy
from ..strategies.catalogue import PROTOCOLS

#: By protocol, from a number of features, or of items, and epsilon.
AUDITED: Mapping[str, Callable[[int, float], Iterator[tuple[LdpStrategy[Any], Users]]]] = {
    name: protocol.audit_runs
    for name, protocol in PROTOCOLS.items()
    if issubclass(protocol, LdpStrategy)
    and any(
        "audit_runs" in vars(kind) for kind in protocol.mro()[: protocol.mro().index(LdpStrategy)]
    )
}
