"""Codebook of turned axes for up to millions of coordinates, and the choice between codebooks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..randomness import Words
from ..validation import Floats, check_integer, plain_arguments
from .base import Reports
from .codebooks import MOST_CODEWORDS, BallCodebook, Codebook, Places
from .codewords import signs
from .elementwise import hadamard, lift, padded_size
from .order_statistics import of_axes

_MIN_DIM, _MAX_DIM = 255, (1 << 24) - 1  # coordinates
_ROUNDS = 3
_HADAMARD_ENTRIES = 1 << 18  # entries of users' rows at a time


@dataclass(frozen=True)
class HadamardCodebook(BallCodebook):
    """Randomiser for vectors of many coordinates in an l2 ball: the index of one of K axes.

    It works as :class:`Codebook`, but every user has different codewords (words), and these need
    not be generated. The words are the first ``num_codewords`` axes of a space that is turned three
    times by signs from the user's public coin and Hadamard's matrix. This takes some
    ``dim log(dim)`` additions and less memory than one codebook. The words are orthogonal, which
    makes the variance a little smaller.

    Parameters
    ----------
    epsilon, dim, radius
        See :class:`.OfVector`; 255 to 2**24 - 1 coordinates.
    num_codewords : int (default: 256)
        Number of words, 2 to 4,096, and at most ``dim + 1`` rounded up to a power of two. Up
        to 256, a report is one byte.

    Notes
    -----
    Source: Ailon & Chazelle (2009) for turning by signs and Hadamard's matrix. Averaged over
    the coins, the chosen word has mean ``scale`` times the vector, up to the small difference
    between three turns and a random rotation; see docs/randomizers.md for its size.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. The argument is that of :class:`Codebook`: the number of likely indices does not depend
       on the value, and the quality of the words and of their ranking only moves indices
       between the two sets.
    """

    most_coordinates: ClassVar[int | None] = _MAX_DIM

    def __post_init__(self) -> None:
        super().__post_init__()
        most = min(MOST_CODEWORDS, self._order)
        check_integer("num_codewords", self.num_codewords, 2, most)
        check_integer("dim", self.dim, _MIN_DIM, _MAX_DIM)

    @property
    def _order(self) -> int:
        return padded_size(self.dim + 1)

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


_MANY = 4096  # coordinates from which on generating words costs more than turning axes


@plain_arguments
def ball_codebook(
    epsilon: float, dim: int, radius: float = 1.0, num_codewords: int | None = None
) -> Codebook | HadamardCodebook:
    """Return :class:`HadamardCodebook` from 4,096 coordinates on, and :class:`Codebook` below.

    The parameters are those of both classes. The default number of words grows with epsilon: 256
    words (one byte a report) up to epsilon 4, then two bytes a report, with 1,024 words up to
    epsilon 8 and 4,096 beyond.
    """
    words = num_codewords or (256 if epsilon <= 4 else 1024 if epsilon <= 8 else 4096)
    if dim < _MANY:
        return Codebook(epsilon, dim, radius, words)
    return HadamardCodebook(epsilon, dim, radius, words)
