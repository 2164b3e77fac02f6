"""Population of a run: the nodes, their answers to the census, and cohorts of their users."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.data.users import SCHEMA
from ldp_flower.guarantee.messages import HASH_END, NUMBERS, NodeKeys, Slots
from ldp_flower.presentation.words import counted
from ldp_flower.validation import PlainFields

MAX_USERS_PER_NODE = 1 << 24  # hashes of this many users take some 400 MB
_FACTS = ("group", "first", "users", "seeded", "rehearsing", "simulated")
# Facts that a node need not declare, with their default values.
_OPTIONAL = {"features": -1, "exhausted": 0, "records": 0, "owners": 0, "dishonest": -1}
_SHOWN = 3  # largest number of feature counts, or of column names, in an error message
_ROSTER_STILL = 1.0  # seconds without a new node after which a roster of unknown size is complete

# Advice on Flower's own errors: an app has no such function, its function raises an exception
# (those of this library never do), or a mod fails.
_ADVICE = {
    (2, "No train function registered"): "The ClientApp has no train function of this name: "
    'register one by @app.train(), for message_type="train.NAME" by @app.train("NAME").',
    (2, "No query function registered"): "The ClientApp answers no queries: in client_app.py "
    "make it LdpClientApp(load_users), or attach(app, load_users) to it.",
    (2, "PrivacyPolicy, got Message"): "LdpUpdateMod is passed as a class. Pass an instance: "
    "ClientApp(mods=[LdpUpdateMod()]).",
    (2, ""): "This came from a mod before LdpUpdateMod, or from a train function without it: "
    "put LdpUpdateMod() first in ClientApp(mods=[...]).",
    (6, ""): "A mod before ldp-flower's fails at messages without a model: make LdpUpdateMod() "
    "the first of the mods, and remove Flower's own mods that clip or add noise.",
}


def advice(failures: Collection[tuple[int, str]]) -> str:
    """Return a hint for apps that answer the census with these errors, or "." if none is known."""
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
    facts = content.metric_records["census"]
    others = [facts.get(name, unknown) for name, unknown in _OPTIONAL.items()]
    declared = [*(facts[name] for name in _FACTS), *others]
    whole = [int(number) for number in declared]  # type: ignore[arg-type]
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


_MAX_NAME_CHARS = 60  # largest length of a column's name in a message; a node may have chosen it


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


MAX_USERS = 1 << 40  # largest sufficient number of users that a refusal states
#: Standard deviations by which the number of users between two cuts may fall short of its mean;
#: it falls shorter once in 30,000 times.
RARE = 4.0


@dataclass(frozen=True)
class Cohort(PlainFields):
    """A group of users: those whose hash lies in ``[low, high)``.

    Attributes
    ----------
    low, high : int
        Bounds of the hashes.
    size : int
        Number of users whose hash lies between the bounds.
    """

    low: int
    high: int
    size: int

    def overlaps(self, other: "Cohort") -> bool:
        """Return True if a user can be in both cohorts."""
        return self.low < other.high and other.low < self.high


class Population:
    """The users of a run, as counted in the census.

    Hashes with a public salt cut the users into disjoint random cohorts of exact sizes.
    """

    def __init__(self, nodes: Mapping[int, NodeKeys], salt: int) -> None:
        self.nodes = nodes
        self.salt = salt
        self._assigned = 0
        counts = [keys.count for keys in nodes.values()]
        hashes = [keys.hashes(salt) for keys in nodes.values()]
        whole = np.concatenate([np.empty(0, np.uint64), *hashes])
        order = np.argsort(whole, kind="stable")
        self._hashes = whole[order]
        # For each user, in the order of the hashes: the position of the node, and the slot on it.
        self._node = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)[order]
        slots = (np.arange(count, dtype=np.int32) for count in counts)
        self._slot = np.concatenate([np.empty(0, np.int32), *slots])[order]

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def remaining(self) -> int:
        """Number of users that are not in a cohort yet."""
        return len(self) - self._assigned

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Put the next users, in the random order of their hashes, into disjoint cohorts.

        Raise ValueError if too few users remain.
        """
        if min(sizes, default=1) < 1 or sum(sizes) > self.remaining:
            raise ValueError(
                f"Expected cohorts of at least 1 user and {self.remaining} in all, got {sizes}."
            )
        cohorts = []
        for size in sizes:
            end = self._assigned + size
            cohorts.append(Cohort(self._cut_before(self._assigned), self._cut_before(end), size))
            self._assigned = end
        return cohorts

    def between(self, low: int, high: int) -> Cohort:
        """Return the cohort of all users whose hash lies in ``[low, high)``."""
        start, end = np.searchsorted(self._hashes, np.array([low, high], np.uint64))
        return Cohort(low, high, int(end - start))

    def _cut_before(self, rank: int) -> int:
        return HASH_END if rank == len(self) else int(self._hashes[rank])

    def addressed(self, cohort: Cohort) -> dict[int, Slots]:
        """Return which users are in the cohort, as slots by node."""
        cuts = np.array([cohort.low, cohort.high], np.uint64)
        start, end = np.searchsorted(self._hashes, cuts)
        order = np.lexsort((self._slot[start:end], self._node[start:end]))
        node, slot = self._node[start:end][order], self._slot[start:end][order].astype(np.int64)
        edges = np.flatnonzero(np.diff(node, prepend=-1))
        names = list(self.nodes)
        parts = np.split(slot, edges[1:])
        return {names[node[edge]]: part for edge, part in zip(edges, parts, strict=False)}


class Panel(Population):
    """The users of one of ``panels`` panels, which a series asks in one of its collections.

    Panels are numbered from 1. Each has an equal share of the range of hashes. The bounds of a
    panel are public and do not depend on the census.

    Attributes
    ----------
    sizes : ndarray of int64, shape (panels,)
        Number of users in each panel.
    """

    def __init__(self, nodes: Mapping[int, NodeKeys], salt: int, number: int, panels: int) -> None:
        super().__init__(nodes, salt)
        bounds = [HASH_END * each // panels for each in range(panels + 1)]
        cuts = np.searchsorted(self._hashes, np.array(bounds, np.uint64))
        self.sizes = np.diff(cuts)
        self._low, self._high = bounds[number - 1], bounds[number]
        own = slice(cuts[number - 1], cuts[number])
        self._hashes, self._node, self._slot = self._hashes[own], self._node[own], self._slot[own]

    def _cut_before(self, rank: int) -> int:
        if rank == len(self):
            return self._high
        return int(self._hashes[rank]) if rank else self._low


class SizeOnlyPopulation(Population):
    """A population of which only the numbers of users and nodes are known.

    Its cohorts have sizes and no members.
    """

    def __init__(self, num_users: int, num_nodes: int = 1) -> None:
        super().__init__({}, 0)
        self._size, self._num_nodes = num_users, num_nodes

    def __len__(self) -> int:
        return self._size

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._num_nodes

    def between(self, low: int, high: int) -> Cohort:
        """Return the cohort of hashes in ``[low, high)``, with a low estimate of its size.

        The size is ``RARE`` standard deviations below the expected number, and at least 0.
        """
        usual = self._size * (high - low) / HASH_END
        return Cohort(low, high, max(0, int(usual - RARE * usual**0.5)))

    def _cut_before(self, rank: int) -> int:
        return rank


def fewest_users(refused: Callable[[int], object], num_users: int) -> int | None:
    """Return the smallest sufficient number of users, or None above ``MAX_USERS``.

    ``num_users`` is a number that is refused. The search doubles it until a number is accepted,
    then bisects: the returned number is accepted and one less is refused.
    """
    few, many = num_users, 2 * max(num_users, 1)
    while refused(many):
        few, many = many, 2 * many
        if many > MAX_USERS:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if refused(middle) else (few, middle)
    return many


class Part(Population):
    """A part of a population, for a protocol that runs within another.

    It has ``size`` users, which are taken from the whole population as they are needed.
    """

    def __init__(self, whole: Population, size: int) -> None:
        self.nodes, self.salt = whole.nodes, whole.salt
        self._whole, self._size, self._assigned = whole, size, 0

    def __len__(self) -> int:
        return self._size

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Return new cohorts of these sizes, made of the next users, as :meth:`Population.cut`."""
        if sum(sizes) > self.remaining:
            raise ValueError(f"Expected cohorts of {self.remaining} users in all, got {sizes}.")
        self._assigned += sum(sizes)
        return self._whole.cut(sizes)

    def addressed(self, cohort: Cohort) -> dict[int, Slots]:
        """Return which users are in the cohort, as slots by node."""
        return self._whole.addressed(cohort)
