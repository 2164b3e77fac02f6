"""Replay the same random bytes instead of the system's, except for chosen users.

With it the audit asks a client again with the same noise and other data, or with the same data
and other noise of some users.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from .entering import replaced

_OTHER = 1  # what distinguishes a row's second take from its first


@dataclass
class RecordedRandomness:
    """Bytes for every row of every draw, and what has been drawn.

    Attributes
    ----------
    seed : int
        Decides the bytes.
    redrawn : ndarray of bool, shape (users,)
        The users, by their row in a draw, whose bytes are others; by default nobody's.
    from_draw, to_draw : int
        The draws whose bytes are others; by default all.
    draws : list of tuple of int
        The shapes that were drawn so far.
    behind : int (default: 0)
        How many users come before the one of a draw's first row.
    """

    seed: int
    redrawn: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    from_draw: int = 0
    to_draw: int = 1 << 62
    draws: list[tuple[int, ...]] = field(default_factory=list)
    behind: int = 0

    def words(self, first: int, shape: tuple[int, ...]) -> Words:
        """Return the next words for users ``first`` and behind."""
        draw, rows = len(self.draws), self.behind + np.arange(first, first + shape[0])
        self.draws.append(shape)
        states = derive(self.seed, 0, draw, rows)
        if self.from_draw <= draw < self.to_draw and len(self.redrawn):
            others = self.redrawn[np.minimum(rows, len(self.redrawn) - 1)]
            states = np.where(others, derive(self.seed, _OTHER, draw, rows), states)
        return KeyedRandom(states).words(shape)


class _Played(RandomSource):
    """The part of a tape that begins with a user."""

    def __init__(self, tape: RecordedRandomness, first: int) -> None:
        self._tape, self._first = tape, first

    def words(self, shape: tuple[int, ...]) -> Words:
        """Return words of the tape."""
        return self._tape.words(self._first, shape)


@contextmanager
def replaying(tape: RecordedRandomness) -> Iterator[RecordedRandomness]:
    """Let every :class:`SystemRandom` of this process read the tape."""

    def words(source: SystemRandom, shape: tuple[int, ...]) -> Words:
        return tape.words(0, shape)

    def blocks(source: SystemRandom, users: int, size: int) -> Iterator[tuple[slice, RandomSource]]:
        for start in range(0, users, size):
            yield slice(start, min(start + size, users)), _Played(tape, start)

    with replaced(SystemRandom, words=words, blocks=blocks):
        yield tape
