"""Who takes part: the users behind the nodes, and their division into cohorts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.keys import HASH_END, NodeKeys, Slots

_MAX_USERS = 1 << 40  # of which a refusal says that they would do
#: Standard deviations by which fewer users than usual may lie between two cuts: once in 30,000.
RARE = 4.0


@dataclass(frozen=True)
class Cohort:
    """Users whose hash lies in ``[low, high)``.

    Attributes
    ----------
    low, high : int
        The two cuts.
    size : int
        Number of users between them.
    """

    low: int
    high: int
    size: int

    def overlaps(self, other: "Cohort") -> bool:
        """Whether there may be users in both."""
        return self.low < other.high and other.low < self.high


class Population:
    """The census of a run, cut by a public salt into disjoint random cohorts of exact sizes."""

    def __init__(self, nodes: Mapping[int, NodeKeys], salt: int) -> None:
        self.nodes = nodes
        self.salt = salt
        self._assigned = 0
        counts = [keys.count for keys in nodes.values()]
        hashes = [keys.hashes(salt) for keys in nodes.values()]
        whole = np.concatenate([np.empty(0, np.uint64), *hashes])
        order = np.argsort(whole, kind="stable")
        self._hashes = whole[order]
        # Of the users in order of their hashes: the position of the node, and the slot on it.
        self._node = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)[order]
        slots = (np.arange(count, dtype=np.int32) for count in counts)
        self._slot = np.concatenate([np.empty(0, np.int32), *slots])[order]

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def remaining(self) -> int:
        """Number of users in no cohort yet."""
        return len(self) - self._assigned

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Take the next users, at random, into disjoint cohorts; raise ValueError if too few."""
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
        """Return all users whose hash lies in ``[low, high)``."""
        start, end = np.searchsorted(self._hashes, np.array([low, high], np.uint64))
        return Cohort(low, high, int(end - start))

    def _cut_before(self, rank: int) -> int:
        return HASH_END if rank == len(self) else int(self._hashes[rank])

    def addressed(self, cohort: Cohort) -> dict[int, Slots]:
        """Return the slots of the cohort's users on every node that has some."""
        cuts = np.array([cohort.low, cohort.high], np.uint64)
        start, end = np.searchsorted(self._hashes, cuts)
        order = np.lexsort((self._slot[start:end], self._node[start:end]))
        node, slot = self._node[start:end][order], self._slot[start:end][order].astype(np.int64)
        edges = np.flatnonzero(np.diff(node, prepend=-1))
        names = list(self.nodes)
        parts = np.split(slot, edges[1:])
        return {names[node[edge]]: part for edge, part in zip(edges, parts, strict=False)}


class Panel(Population):
    """The users of a population whose hash lies in ``[low, high)``, and nobody beyond.

    The cuts are public, and the same whoever is in the census.
    """

    def __init__(self, nodes: Mapping[int, NodeKeys], salt: int, low: int, high: int) -> None:
        super().__init__(nodes, salt)
        start, end = np.searchsorted(self._hashes, np.array([low, high], np.uint64))
        self._hashes, self._node = self._hashes[start:end], self._node[start:end]
        self._slot, self._low, self._high = self._slot[start:end], low, high

    @classmethod
    def of(cls, nodes: Mapping[int, NodeKeys], salt: int, number: int, panels: int) -> Self:
        """Return one of so many equal panels, by its number from 1."""
        low, high = (HASH_END * each // panels for each in (number - 1, number))
        return cls(nodes, salt, low, high)

    def _cut_before(self, rank: int) -> int:
        if rank == len(self):
            return self._high
        return int(self._hashes[rank]) if rank else self._low


def panel_sizes(nodes: Mapping[int, NodeKeys], salt: int, panels: int) -> NDArray[np.int64]:
    """Return how many users each of so many equal panels has."""
    cuts = np.array([HASH_END * each // panels for each in range(1, panels)], np.uint64)
    hashes = np.concatenate([keys.hashes(salt) for keys in nodes.values()])
    places = np.searchsorted(cuts, hashes, side="right")
    return np.asarray(np.bincount(places, minlength=panels))


class SizeOnlyPopulation(Population):
    """So many users of whom nothing else is known: cohorts have sizes and no members."""

    def __init__(self, num_users: int) -> None:
        super().__init__({}, 0)
        self._size = num_users

    def __len__(self) -> int:
        return self._size

    def between(self, low: int, high: int) -> Cohort:
        """Return as many users as there are at least, as good as surely."""
        usual = self._size * (high - low) / HASH_END
        return Cohort(low, high, max(0, int(usual - RARE * usual**0.5)))

    def _cut_before(self, rank: int) -> int:
        return rank


def fewest_users(refused: Callable[[int], object], num_users: int) -> int | None:
    """Return a number, if any, above a refused one, that is not refused though one less is."""
    few, many = num_users, 2 * max(num_users, 1)
    while refused(many):
        few, many = many, 2 * many
        if many > _MAX_USERS:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if refused(middle) else (few, middle)
    return many


class Part(Population):
    """So many of a population's users, taken as they are needed, for a protocol within another."""

    def __init__(self, whole: Population, size: int) -> None:
        self.nodes, self.salt = whole.nodes, whole.salt
        self._whole, self._size, self._assigned = whole, size, 0

    def __len__(self) -> int:
        return self._size

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Take the next users, as of :class:`Population`."""
        if sum(sizes) > self.remaining:
            raise ValueError(f"Expected cohorts of {self.remaining} users in all, got {sizes}.")
        self._assigned += sum(sizes)
        return self._whole.cut(sizes)

    def addressed(self, cohort: Cohort) -> dict[int, Slots]:
        """Return the slots of the cohort's users on every node that has some."""
        return self._whole.addressed(cohort)
