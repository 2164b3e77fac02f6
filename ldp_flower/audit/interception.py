"""What the audit puts in the place of a client's parts: replayed randomness, noted mechanisms.

With the same random bytes a client is asked again with the same noise and other data, or with the
same data and other noise of some users.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..randomizers import Randomizer, RecordMechanism
from ..randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ..validation import Floats

_OTHER = 1  # what distinguishes a row's second take from its first

#: A block of values, what it comes with, and the reports that it becomes.
Block = tuple[Floats, object, NDArray[Any]]


@contextmanager
def replaced(owner: type | ModuleType, **methods: Callable[..., Any]) -> Iterator[None]:
    """Give a class or a module these functions for as long as the block runs."""
    own = {name: vars(owner)[name] for name in methods if name in vars(owner)}
    for name, method in methods.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for name in methods:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)


@contextmanager
def entering(mechanism: Randomizer) -> Iterator[list[Block]]:
    """Note every block that mechanisms of this type randomise, what it comes with and becomes.

    Of a mechanism for records the sums over records are noted, before they are rounded, with the
    numbers of records; of others the values, with the block's layout and type.
    """
    kind: Any = type(mechanism)
    name = "report" if isinstance(mechanism, RecordMechanism) else "_randomize"
    honest = getattr(kind, name)
    noted: list[Block] = []

    def noting(self: Randomizer, values: Floats, *rest: Any, **named: Any) -> Any:
        if isinstance(self, RecordMechanism):
            about: object = np.asarray(rest[0]).tolist()
        else:
            about = (values.dtype.str, values.flags.c_contiguous)
        block = np.array(values, np.float64)  # as it comes
        reports = honest(self, values, *rest, **named)
        noted.append((block, about, np.array(reports)))
        return reports

    with replaced(kind, **{name: noting}):
        yield noted


@dataclass
class RecordedRandomness:
    """Bytes for every row of every draw, by a seed, and the shapes that have been drawn.

    The bytes of ``redrawn`` users, by their row in a draw, are others from draw ``from_draw`` to
    ``to_draw``; by default nobody's. ``behind`` users come before the one of a draw's first row.
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
