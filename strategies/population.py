"""Who takes part: the users behind the nodes, and their division into cohorts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldp_flower.keys import HASH_END, NodeKeys


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


@dataclass
class Population:
    """The census of a run, cut into disjoint cohorts of exact sizes as they are needed.

    Parameters
    ----------
    nodes : mapping of int to NodeKeys
        The keys of the users behind every node.
    salt : int
        Public salt of the run; another salt is another random division.
    """

    nodes: Mapping[int, NodeKeys]
    salt: int
    _assigned: int = 0
    _hashes: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        each = [keys.hashes(self.salt) for keys in self.nodes.values()]
        self._hashes = np.sort(np.concatenate(each)) if each else np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def remaining(self) -> int:
        """Number of users in no cohort yet."""
        return len(self) - self._assigned

    def cut(self, sizes: Sequence[int]) -> list[Cohort]:
        """Take the next users, at random, into disjoint cohorts of these sizes.

        Raises
        ------
        ValueError
            If a size is below 1 or there are not enough users left.
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

    def _cut_before(self, rank: int) -> int:
        return HASH_END if rank == len(self) else int(self._hashes[rank])

    def addressed(self, cohort: Cohort) -> dict[int, NDArray[np.int64]]:
        """Return the slots of the cohort's users on every node that has some."""
        slots = {
            node: keys.addressed(self.salt, cohort.low, cohort.high)
            for node, keys in self.nodes.items()
        }
        return {node: found for node, found in slots.items() if len(found)}
