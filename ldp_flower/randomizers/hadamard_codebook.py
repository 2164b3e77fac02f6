"""A codebook of axes that nobody generates, for a million coordinates; and which one to take."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..randomness import Words
from ..validation import Floats, check_integer, plain_arguments
from .base import Reports
from .codebooks import MOST_CODEWORDS, BallCodebook, Codebook, Places, signs
from .elementwise import hadamard, lift, padded
from .order_statistics import of_axes

_FEWEST, _MOST = 255, (1 << 24) - 1  # coordinates
_ROUNDS = 3
_HADAMARD_ENTRIES = 1 << 18  # of users' rows at a time


@dataclass(frozen=True)
class HadamardCodebook(BallCodebook):
    """Randomiser for vectors of many coordinates in an l2 ball: the index of one of K axes.

    As :class:`Codebook`, but every user has words of its own that nobody has to generate: the
    first ``num_codewords`` axes of a space that signs from its public coin and Hadamard's
    matrix turn, three times. That takes some ``dim log(dim)`` additions, and less memory
    than one codebook. The words are orthogonal, which makes the variance a little smaller.

    Parameters
    ----------
    epsilon, dim, radius
        As of :class:`.OfVector`; 255 to 2**24 - 1 coordinates.
    num_codewords : int (default: 256)
        Number of words, 2 to 4,096, and at most ``dim + 1`` rounded up to a power of two; up
        to 256 a report is one byte.

    Notes
    -----
    Source: Ailon & Chazelle (2009) for turning by signs and Hadamard's matrix. Averaged over
    the coins, the chosen word has mean ``scale`` times the vector up to what three turns lack
    of a random rotation: see docs/randomizers.md for how little that is.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. That of :class:`Codebook`: how many indices are likely does not depend on the
       value, and how good the words are and how well they are ranked moves indices between
       the two sets and nothing else.
    """

    most_coordinates: ClassVar[int | None] = _MOST

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, _FEWEST, _MOST)

    @property
    def _order(self) -> int:
        return padded(self.dim + 1)

    @property
    def _most_codewords(self) -> int:
        return min(MOST_CODEWORDS, self._order)

    @property
    def _order_statistics(self) -> tuple[Floats, Floats]:
        return of_axes(self._order, self.num_codewords)

    def _runs(self, users: int) -> Iterable[slice]:
        step = max(1, _HADAMARD_ENTRIES // self._order)
        return (slice(start, start + step) for start in range(0, users, step))

    def _signs(self, coins: Words) -> Floats:
        """Return the signs of all turns, shape (users, turns, order)."""
        flat = signs(coins, _ROUNDS * self._order)
        return flat.reshape(len(coins), _ROUNDS, self._order)

    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users in self._runs(len(values)):
            lifted = lift(values[users], self.radius)
            turned = np.zeros((len(lifted), self._order))
            turned[:, : self.dim + 1] = lifted
            for turn in np.moveaxis(self._signs(coins[users]), 1, 0):
                turned *= turn
                turned = hadamard(turned)
            yield users, turned[:, : self.num_codewords]

    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users in self._runs(len(reports)):
            indices = reports[users].astype(np.intp)
            words = np.zeros((len(indices), self._order))
            words[np.arange(len(indices)), indices] = 1.0
            for turn in np.moveaxis(self._signs(coins[users]), 1, 0)[::-1]:
                words = hadamard(words)
                words *= turn
            yield users, words


_MANY = 4096  # coordinates, from which generating words costs more than turning axes


@plain_arguments
def ball_codebook(
    epsilon: float, dim: int, radius: float = 1.0, num_codewords: int | None = None
) -> Codebook | HadamardCodebook:
    """Return the codebook for so many coordinates: :class:`HadamardCodebook` from 4,096 on.

    Parameters are those of both. By default there are as many words as epsilon can make use of:
    256, and so one byte a report, up to 4, then 1,024 up to 8 and 4,096 beyond, two bytes.
    """
    words = num_codewords or (256 if epsilon <= 4 else 1024 if epsilon <= 8 else 4096)
    if dim < _MANY:
        return Codebook(epsilon, dim, radius, words)
    return HadamardCodebook(epsilon, dim, radius, words)
