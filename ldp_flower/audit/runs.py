"""The runs that an audit records: those that each protocol names, or one's own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from flwr.app import Message
from flwr.clientapp import ClientApp

from ..guarantee.messages import QUERY, Query
from ..guarantee.questions import WireType, wire_types_with
from ..guarantee.users import Users
from ..simulation.grid import InProcessGrid
from .probe import ldp_client_app, quiet

if TYPE_CHECKING:
    from ..clients.statistics import OwnStatistics
    from ..strategies import LdpStrategy

Runs = Callable[[int, float], Iterator[tuple["LdpStrategy[Any]", Users]]]


@cache
def audited_runs() -> dict[str, Runs]:
    """Return what ``ldp-flower audit`` records, by protocol: from features, or items, and epsilon.

    All strategies are imported for it.
    """
    from ..strategies import LdpStrategy
    from ..strategies.catalogue import PROTOCOLS

    def has_runs(protocol: type) -> bool:
        kinds = protocol.mro()[: protocol.mro().index(LdpStrategy)]
        return any("audit_runs" in vars(kind) for kind in kinds)

    return {
        name: protocol.audit_runs
        for name, protocol in PROTOCOLS.items()
        if issubclass(protocol, LdpStrategy) and has_runs(protocol)
    }


class RecordingGrid(InProcessGrid):
    """A grid of one node that keeps the queries, of these forms, that pass through it."""

    def __init__(self, client_app: ClientApp, forms: Mapping[str, WireType]) -> None:
        super().__init__(client_app, num_nodes=1)
        self._forms = forms
        self.queries: list[Query] = []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message at once."""
        messages = list(messages)
        self.queries += [
            Query.from_record_dict(message.content, self._forms)
            for message in messages
            if message.metadata.message_type == f"query.{QUERY}"
        ]
        return super().push_messages(messages)


def recorded_queries(
    strategy: "LdpStrategy[Any]",
    users: Users,
    seed: int = 0,
    *,
    statistics: "OwnStatistics | None" = None,
) -> list[Query]:
    """Run a protocol on users in this process and return the queries that it sent.

    ``statistics`` as of :class:`ldp_flower.clients.LdpClientApp`.
    """
    app = ldp_client_app(lambda _: replace(users, first=0), lambda _: seed, statistics)
    grid = RecordingGrid(app, wire_types_with(statistics or ()))
    with quiet("flwr"):
        strategy.start(grid, timeout=60.0, num_nodes=1, seed=seed)
    return grid.queries
