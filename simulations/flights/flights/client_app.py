"""The private half: a node's aircraft."""

from functools import lru_cache
from pathlib import Path

import pandas as pd
from flwr.app import Context

from ldp_flower import Users, read_table
from ldp_flower.clients import LdpClientApp

from .data import training_users, users_of
from .design import SOURCES
from .protocols import PROTOCOLS


@lru_cache(maxsize=1)
def _users_of_files(flights: str, aircraft: str | None, protocol: str) -> Users:
    named = Path(aircraft).read_text("utf-8").split() if aircraft else None
    # As objects: an entry stays what it is by itself.
    rows = pd.DataFrame(read_table(flights, [*SOURCES, "tailnum"]), dtype=object)
    return users_of(rows, PROTOCOLS[protocol].schema, named)


def load_users(context: Context) -> Users:
    """Return the node's share in simulation, the operator's files in a deployment."""
    node, run = context.node_config, context.run_config
    protocol = str(run.get("protocol", "PrivateRegression"))  # a node that checks itself has no run
    if "partition-id" in node:
        declared = PROTOCOLS[protocol].declared
        users = training_users(int(run["seed"]), int(run["num-users"]), declared)
        return users.partition(int(node["partition-id"]), int(node["num-partitions"]))
    aircraft = node.get("aircraft-path")
    return _users_of_files(
        str(node["data-path"]), None if aircraft is None else str(aircraft), protocol
    )


app = LdpClientApp(load_users, seed="run")
