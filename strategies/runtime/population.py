"""Population of a run: the users of its nodes, and disjoint cohorts of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Slots
from ldp_flower.validation import PlainFields

MAX_USERS_PER_NODE = 1 << 24  # hashes of this many users take some 400 MB
MAX_USERS = 1 << 40  # largest sufficient number of users that a refusal states
#: Standard deviations by which the number of users between two cuts may fall short of its mean;
#: it falls shorter once in 30,000 times.
RARE = 4.0


@dataclass(frozen=True)
class Cohort(PlainFields):
    """A group of users: those whose hash, with the run's public salt, lies in ``[low, high)``.

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
        """Number of users that are not in a cohort yet, and can still be asked."""
        return len(self) - self._assigned

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Put the next users, in the random order of their hashes, into disjoint cohorts.

        Raise ValueError if too few users remain.
        """
        if min(sizes, default=1) < 1 or sum(sizes) > self.remaining:
            raise ValueError(
                f"Expected cohorts of at least 1 user, {self.remaining} in all, got {sizes}."
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
        """Return the users in the cohort: their slots (numbers on their node), by the node's id."""
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
            raise ValueError(f"Expected cohorts of at most {self.remaining} in all, got {sizes}.")
        self._assigned += sum(sizes)
        return self._whole.cut(sizes)

    def addressed(self, cohort: Cohort) -> dict[int, Slots]:
        """Return the users in the cohort, as slots by node."""
        return self._whole.addressed(cohort)
