"""Keys: everything random about a user hangs on its key, not on the node that hosts it.

A key is (group, index): in simulation (0, index among all users), in a deployment
(node id, slot on the node). Server and clients hash it the same way, so the server
can cut users into cohorts of exact sizes by naming two hash values, and both can
generate a user's public coin. In a series (of panels or of permanent answers) a deployed
user's key is (0, a number from its ledger), which stays where users join, leave or move.

A simulation is Flower's engine (a Ray actor) or :class:`InProcessGrid`, recognised as such. What a
node's configuration looks like says nothing: everywhere else a client insists on its operator's
policy and ledger and refuses to be seeded.
"""

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..randomness import Words, derive

Slots = NDArray[np.int64]

#: Hashes lie in [0, HASH_END); 63 bits, so that bounds fit Flower's integers.
HASH_END = 1 << 63

_COHORT, _COIN, _PRIVATE, _TRAINING, _ROWS = 1, 2, 3, 4, 5
_RUN = 1 << 15  # users that are hashed at a time

in_process_grid: ContextVar[bool] = ContextVar("in_process_grid", default=False)


def in_simulation() -> bool:
    """Whether the calling code runs in the in-process grid or in a Ray actor."""
    if in_process_grid.get():
        return True
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


@dataclass(frozen=True)
class NodeKeys:
    """The keys of one node's users: (``group``, ``first`` + i) for slot i of ``count``.

    ``numbers``, if there are any, are second parts that stay the users', whatever their slots;
    below 2**63.
    """

    group: int
    first: int
    count: int
    numbers: Words | None = field(default=None, compare=False)

    def _derive(self, seed: int, purpose: int, step: int, slots: Slots) -> Words:
        if self.numbers is None:
            index = slots.astype(np.uint64) + np.uint64(self.first)
        else:
            index = self.numbers[slots]
        return derive(seed, purpose, step, self.group, index)

    def hashes(self, salt: int) -> Words:
        """Return the position of every user in [0, HASH_END), for cutting cohorts."""
        hashes = np.empty(self.count, np.uint64)
        for start, run in self._runs(salt):
            hashes[start : start + len(run)] = run
        return hashes

    def addressed(self, salt: int, low: int, high: int) -> Slots:
        """Return the slots of the users whose hash lies in ``[low, high)``."""
        found = [np.empty(0, np.int64)]
        for start, run in self._runs(salt):
            inside = (run >= np.uint64(low)) & (run < np.uint64(high))
            found.append(start + np.flatnonzero(inside))
        return np.concatenate(found)

    def _runs(self, salt: int) -> Iterator[tuple[int, Words]]:
        """Yield first slots and hashes of runs of users that stay in the cache."""
        for start in range(0, self.count, _RUN):
            slots = np.arange(start, min(start + _RUN, self.count))
            yield start, self._derive(salt, _COHORT, 0, slots) >> np.uint64(1)

    def coins(self, salt: int, step: int, slots: Slots) -> Words:
        """Return the users' public coins for one step."""
        return self._derive(salt, _COIN, step, slots)

    def private_states(self, seed: int, step: int, slots: Slots) -> Words:
        """Return the states of the users' private streams; simulation only."""
        return self._derive(seed, _PRIVATE, step, slots)

    def training_states(self, seed: int, step: int, slots: Slots) -> Words:
        """Return what the users' training draws from, beside their private streams."""
        return self._derive(seed, _TRAINING, step, slots)

    def row_states(self, seed: int, step: int, slots: Slots) -> Words:
        """Return what the users draw rows from, beside their private streams."""
        return self._derive(seed, _ROWS, step, slots)
