"""Recording of the queries of runs for an audit: the protocols' own runs, or any other run."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from flwr.app import Context

from ..clients.statistics import OwnStatistics
from ..data.users import Users
from ..guarantee.messages import Query
from ..questions import wire_types_with
from ..simulation.grid import silenced
from ..simulation.questions_asked import RecordingGrid
from ..validation import check_seed, plain_arguments
from .probe import ldp_client_app

if TYPE_CHECKING:
    from ..strategies import LdpStrategy

_SHARING = 5  # number of nodes of a run whose noise is shared

Runs = Callable[[int, float], Iterator[tuple["LdpStrategy[Any]", Users]]]


@cache
def audited_runs() -> dict[str, Runs]:
    """Return, for each protocol, the function that yields its runs for the audit.

    The function takes the number of features (or of items) and epsilon, and yields pairs of a
    strategy and users. ``ldp-flower audit`` executes these runs and audits the queries that they
    send. The call imports all strategies.
    """
    from ..strategies import LdpStrategy
    from ..strategies.catalogue import PROTOCOLS

    kinds: Any = PROTOCOLS.items()
    inherited: Any = LdpStrategy.audit_runs
    return {
        name: kind.audit_runs
        for name, kind in kinds
        if issubclass(kind, LdpStrategy) and kind.audit_runs.__func__ is not inherited.__func__
    }


def with_noise_at_node(name: str, dim: int, epsilon: float, noise: str = "node") -> list[Query]:
    """Return the different queries of a protocol with noise at the node, or shared by nodes.

    A plan may ask the same question with the same mechanism in many steps; it is listed once.
    Raise ValueError if the protocol has no noise at the node.
    """
    from ..strategies.runtime.at_node import AtNode

    queries: dict[tuple[object, ...], Query] = {}
    for strategy, users in audited_runs()[name](dim, epsilon):
        if not isinstance(strategy, AtNode):
            raise ValueError(f"Expected a protocol with noise at the node, got {name}.")
        try:
            at_node = _at_node(strategy, noise)
        except ValueError:  # of more than two classes
            continue
        for query in recorded_queries(at_node, users):
            used = query.randomizer
            queries.setdefault((query.statistic, type(used), used.width, used.size), query)
    return list(queries.values())


def _at_node(strategy: Any, noise: str) -> Any:
    """Return the strategy with its noise at the place ``noise``.

    Options that do not allow this place are left at their defaults.
    """
    try:
        return strategy.with_noise(noise)
    except ValueError:
        required = [f.name for f in fields(strategy) if f.init and f.default is MISSING]
        own = {name: getattr(strategy, name) for name in required}
        return type(strategy)(**own, noise=noise)


@plain_arguments
def recorded_queries(
    strategy: "LdpStrategy[Any]",
    users: Users,
    seed: int = 0,
    *,
    statistics: OwnStatistics | None = None,
) -> list[Query]:
    """Run a protocol on users in this process and return the queries that it sent.

    ``statistics`` is the parameter of :class:`ldp_flower.clients.LdpClientApp`.
    """
    check_seed("seed", seed)
    nodes = _SHARING if getattr(strategy, "noise", "user") == "shared" else 1

    def load_users(context: Context) -> Users:
        return replace(users, first=0).partition(int(context.node_config["partition-id"]), nodes)

    app = ldp_client_app(load_users, lambda _: seed, statistics)
    grid = RecordingGrid(app, nodes, wire_types_with(statistics or ()))
    with silenced("flwr"):
        strategy.start(grid, timeout=60.0, num_nodes=nodes, seed=seed)
    return list(grid.sent.values())
