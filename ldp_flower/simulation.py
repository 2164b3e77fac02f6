"""Strategy and client in one process: the shortest way to try a protocol.

The one module of this package that brings the two halves together.
"""

import logging
from typing import TYPE_CHECKING, TypeVar

from flwr.app import Context

from .budget import PrivacyPolicy
from .generated import GeneratedUsers
from .grid import InProcessGrid
from .users import Users

if TYPE_CHECKING:
    from .strategies import LdpStrategy, Result

R = TypeVar("R", bound="Result")


def simulate(
    strategy: "LdpStrategy[R]",
    users: Users | GeneratedUsers,
    *,
    seed: int | None = None,
    num_nodes: int = 1,
    policy: PrivacyPolicy | None = None,
) -> R:
    """Run a protocol on users in this process.

    Parameters
    ----------
    strategy : LdpStrategy
        The protocol.
    users : Users or GeneratedUsers
        All users; they are split over the nodes in order.
    seed : int, optional
        Makes the run reproducible, whatever the number of nodes. By default the
        system's randomness, as in a deployment.
    num_nodes : int (default: 1)
        Number of simulated nodes.
    policy : PrivacyPolicy, optional
        What the clients allow; by default anything.

    Returns
    -------
    Result
        What the strategy returns, see :class:`ldp_flower.strategies.Result`.
    """
    from .clients import LdpClientApp

    def load_users(context: Context) -> Users | GeneratedUsers:
        return users.partition(int(context.node_config["partition-id"]), num_nodes)

    client_app = LdpClientApp(load_users, policy, seed)
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))  # Flower's log of a run is for long ones
    try:
        grid = InProcessGrid(client_app, num_nodes)
        return strategy.start(grid, timeout=60.0, num_nodes=num_nodes, seed=seed)
    finally:
        logger.setLevel(level)
