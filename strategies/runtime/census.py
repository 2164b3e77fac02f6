"""Census of a run: the nodes that have connected, and what they declare about their users."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.data.users import SCHEMA
from ldp_flower.guarantee.messages import HASH_END, NUMBERS, NodeKeys
from ldp_flower.presentation.words import counted

_FACTS = ("group", "first", "users", "seeded", "rehearsing", "simulated")
# Facts that a node need not declare, with their default values.
_OPTIONAL = {"features": -1, "exhausted": 0, "records": 0, "owners": 0, "dishonest": -1}
_MAX_NAME_CHARS = 60  # largest length of a column's name in a message; a node may have chosen it
_SHOWN = 3  # largest number of feature counts, or of column names, in an error message
_ROSTER_STILL = 1.0  # seconds without a new node after which a roster of unknown size is complete

# Advice on Flower's own errors: an app has no such function, its function raises an exception
# (those of this library never do), or a mod fails.
_ADVICE = {
    (2, "No train function registered"): "The ClientApp has no train function of this name: "
    'register one by @app.train(), for message_type="train.NAME" by @app.train("NAME").',
    (2, "No query function registered"): "The ClientApp answers no queries: in client_app.py "
    "make it LdpClientApp(load_users), or attach(app, load_users) to it.",
    (2, ""): "This came from a mod before LdpUpdateMod, from a train function without it, or "
    "LdpUpdateMod is passed as a class: put an instance first, ClientApp(mods=[LdpUpdateMod()]).",
    (6, ""): "A mod before ldp-flower's fails at messages without a model: make LdpUpdateMod() "
    "the first of the mods, and remove Flower's own mods that clip or add noise.",
}


def advice(failures: Collection[tuple[int, str]]) -> str:
    """Return the end of an error message on these failures of the census: a hint, or "." if none.

    A failure is an error's code and text. The hint says what to change in the app.
    """
    for (code, words), hint in _ADVICE.items():
        if any(code == own and words in text for own, text in failures):
            return f". {hint}"
    return "."


def wait_for_nodes(grid: Grid, num_nodes: int | None, timeout: float, fewest: int = 1) -> list[int]:
    """Return the ids of all nodes once they have connected.

    Raise TimeoutError if too few connect within ``timeout`` seconds.
    """
    needed = max(num_nodes or 1, fewest)
    start = still_since = time.monotonic()
    known: list[int] = []
    while True:
        nodes = sorted(grid.get_node_ids())
        now = time.monotonic()
        if len(nodes) != len(known):
            known, still_since = nodes, now
        still = now - still_since >= _ROSTER_STILL or not getattr(grid, "late_nodes", True)
        if len(known) >= needed and (num_nodes is not None or still):
            return known
        if now - start > timeout:
            wanted = "any" if needed == 1 else needed
            raise TimeoutError(
                f"Waited {timeout:g} s for {wanted} nodes and found {len(known)}: are the "
                "SuperNodes running and connected to this SuperLink?"
            )
        time.sleep(0.05)


@dataclass(frozen=True)
class Facts:
    """A node's answer to the census."""

    keys: NodeKeys
    seeded: bool  # True if the node draws its reports from a seed
    rehearsing: bool  # True if the node is in rehearsal mode: its reports do not depend on data
    simulated: bool  # True if the node runs in a simulation, where it has no ledger of an operator
    features: int | None = None  # number of features of its users' rows; None: not declared
    # Number of its users who have no budget left for any report; 0 if not declared
    exhausted: int = 0
    records: int = 0  # number of records that it holds and trains on; 0 if not declared
    owners: int = 0  # number of users whom these records are about; 0 if not declared
    dishonest: int | None = None  # number of other nodes that may collude; None: not declared


def census_content(content: RecordDict) -> bytes:
    """Return a node's answer to the census in the form that the store keeps."""
    facts: dict[str, Any] = {**_OPTIONAL, **content.metric_records["census"]}
    whole = [int(facts[name]) for name in (*_FACTS, *_OPTIONAL)]
    if not all(-HASH_END <= number < 2 * HASH_END for number in whole):
        raise ValueError("Expected numbers of 64 bits.")
    text = " ".join(map(str, whole))
    if NUMBERS not in content:
        return text.encode()
    numbers = np.array(content.metric_records[NUMBERS][NUMBERS], np.int64)
    return text.encode() + b"\n" + numbers.astype("<i8").tobytes()


def census_facts(content: bytes, node: int, max_users: int) -> Facts | None:
    """Return a node's answer to the census.

    Return None if the answer is impossible or claims more than ``max_users`` users.
    """
    text, _, own = content.partition(b"\n")
    try:
        group, first, users, *flags = (int(number) for number in text.split())
        # A store from an older version may lack some of these numbers.
        optional = [*flags[3:], *[*_OPTIONAL.values()][len(flags) - 3 :]]
        features, exhausted, records, owners, dishonest = optional
        seeded, rehearsing, simulated = (bool(each) for each in flags[:3])
        numbers = np.frombuffer(own, "<i8").astype(np.uint64) if own else None
    except ValueError:
        return None
    # Keys have group 0 in a simulation and the node's own id elsewhere.
    possible = group in (0, node % (1 << 64)) and 0 <= first < 1 << 62
    if not possible or not 0 <= exhausted <= users <= max_users or min(records, owners) < 0:
        return None
    known = features if features >= 0 else None
    keys = NodeKeys(group, first, users)
    if numbers is not None:
        # Users with the same number could not be distinguished, nor be put into different cohorts.
        if len(numbers) != users or len(np.unique(numbers)) != users or (numbers >> 63).any():
            return None
        keys = NodeKeys(0, 0, users, numbers)
    said = seeded, rehearsing, simulated
    tolerated = dishonest if dishonest >= 0 else None
    return Facts(keys, *said, known, exhausted, records, owners, tolerated)


def with_features(
    nodes: dict[int, Facts], needed: int | None, name: str, advice: str = ""
) -> dict[int, Facts]:
    """Return the nodes whose users' rows have the number of features that a strategy needs.

    A node that declares no number is assumed to have the right one. A node with another number
    would refuse every question, so it is left out, and the run goes on without it. Raise ValueError
    with the strategy's ``advice`` if no node is left.
    """
    if needed is None:
        return nodes
    fitting = {n: facts for n, facts in nodes.items() if facts.features in (None, needed)}
    if not fitting:
        found = sorted({facts.features for facts in nodes.values() if facts.features is not None})
        theirs = ", ".join(map(str, found[:_SHOWN])) + ", ..." * (len(found) > _SHOWN)
        raise ValueError(
            f"Expected users whose rows have {counted(needed, 'feature')}, as this {name} needs, "
            f"got {theirs}. {advice}Nobody has been asked anything but the census."
        )
    return fitting


def schema_mismatch(content: RecordDict, expected: Mapping[str, int] | None) -> str | None:
    """Return a text on how a node's schema differs from the expected one, or None if it does not.

    Return None too if no schema is expected or the node declares none.
    """
    record = content.get(SCHEMA)
    if expected is None or not isinstance(record, MetricRecord):
        return None
    declared = dict(record)
    if not any(part.startswith("target ") for part in expected):  # any target is accepted
        declared = {part: own for part, own in declared.items() if not part.startswith("target ")}
    if declared == expected:
        return None
    own, found = set(expected), set(declared)
    differences = {
        "it lacks": own - found,
        "it has besides": found - own,
        "it declares otherwise": {part for part in own & found if expected[part] != declared[part]},
    }
    listed = (f"{words} {_listed(parts)}" for words, parts in differences.items() if parts)
    return ", ".join(listed)


def _listed(parts: set[str]) -> str:
    shown = [ascii(part)[1:-1][:_MAX_NAME_CHARS] for part in sorted(parts)]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{', '.join(shown[:_SHOWN])}{more}"
