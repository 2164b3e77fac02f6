"""Which nodes there are, and what they say in the census."""

import time

from flwr.app import RecordDict
from flwr.serverapp import Grid

from ldp_flower.keys import NodeKeys

_MAX_USERS_PER_NODE = 1 << 27
_ROSTER_STILL = 1.0  # seconds without a new node after which a roster of unknown size is complete


def wait_for_nodes(grid: Grid, num_nodes: int | None, timeout: float) -> list[int]:
    """Return the ids of all nodes; in simulation they register one after the other.

    Raises
    ------
    TimeoutError
        If fewer than ``num_nodes`` come (or none, if their number is not known).
    """
    start = still_since = time.monotonic()
    known: list[int] = []
    while True:
        nodes = sorted(grid.get_node_ids())
        now = time.monotonic()
        if len(nodes) != len(known):
            known, still_since = nodes, now
        if num_nodes is None and known and now - still_since >= _ROSTER_STILL:
            return known
        if num_nodes is not None and len(known) >= num_nodes:
            return known
        if now - start > timeout:
            wanted = "any" if num_nodes is None else num_nodes
            raise TimeoutError(
                f"Waited {timeout:g} s for {wanted} nodes and found {len(known)}: are the "
                "SuperNodes running and connected to this SuperLink?"
            )
        time.sleep(0.05)


def census_content(content: RecordDict) -> bytes:
    """Return a node's answer to the census as the store keeps it."""
    facts = content.metric_records["census"]
    numbers = [facts[name] for name in ("group", "first", "users", "seeded")]
    return " ".join(str(int(number)) for number in numbers).encode()  # type: ignore[arg-type]


def census_facts(content: bytes, node: int) -> tuple[NodeKeys, bool] | None:
    """Return a node's keys and whether it is seeded, or None if they cannot be true."""
    try:
        group, first, users, seeded = (int(number) for number in content.split())
    except ValueError:
        return None
    # In a simulation keys have group 0, anywhere else the node's own id.
    possible = group in (0, node % (1 << 64)) and 0 <= first < 1 << 62
    if not possible or not 0 <= users <= _MAX_USERS_PER_NODE:
        return None
    return NodeKeys(group, first, users), bool(seeded)
