"""The private half: a node's aircraft."""

from functools import lru_cache
from pathlib import Path

from flwr.app import Context

from ldp_flower import Users, read_table
from ldp_flower.clients import LdpClientApp

from .data import SCHEMA, chosen, in_week, users_of


@lru_cache(maxsize=1)
def _simulated(seed: int, num_users: int, week: int) -> Users:
    rows = chosen(seed, num_users)
    if not week:
        return users_of(rows)
    # All aircraft, also those without flights in this week: each keeps its place.
    return users_of(in_week(rows, week), sorted(rows["tailnum"].unique()))


@lru_cache(maxsize=1)
def _of_files(flights: str, aircraft: str | None) -> Users:
    named = Path(aircraft).read_text("utf-8").split() if aircraft else None
    rows = read_table(flights, [*SCHEMA.columns_read, "tailnum"])
    return SCHEMA.users(rows, "tailnum", named)


def load_users(context: Context) -> Users:
    """Return the node's share in simulation, the operator's files in a deployment."""
    node, run = context.node_config, context.run_config
    if "partition-id" in node:
        users = _simulated(int(run["seed"]), int(run["num-users"]), int(run.get("week", 0)))
        return users.partition(int(node["partition-id"]), int(node["num-partitions"]))
    aircraft = node.get("aircraft-path")
    return _of_files(str(node["data-path"]), None if aircraft is None else str(aircraft))


app = LdpClientApp(load_users, seed="run")
