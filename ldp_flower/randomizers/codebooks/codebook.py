"""Codebook: PrivUnit with finitely many outputs, at one or two bytes a report."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...randomness import Words, derive
from ...validation import Floats, check_integer
from ..base import Reports
from ..domains import lift
from .base import MOST_CODEWORDS, BallCodebook, Places, of_directions
from .words import directions, turned, turned_back

# Of a codebook, 128 MB, which a message can make a client generate for every user: just enough
# for 4,096 words of 4,096 coordinates, beyond which HadamardCodebook generates none.
_MAX_ENTRIES = 1 << 24
_MAX_CODEBOOKS = 1 << 40
_SHARING = 512  # users of a cohort who share a codebook
_GROUP = 0  # what a user's coin is used for
_ROWS = 32  # of a product of matrices: its shape must not depend on anything
_CACHED_ENTRIES = 1 << 17  # of users' rows and products
_MADE_ENTRIES = 1 << 20  # of codebooks that are made at a time, if there are several


Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Codebook(BallCodebook):
    """Randomiser for vectors in an l2 ball: the index of one of K public directions.

    A codebook holds ``num_codewords`` random directions, which public coins generate. Every user
    has one, turned in a way of its own. The user ranks the directions by their inner product with
    its vector and sends the index of one of the best with a probability raised by exp(epsilon). The
    server regenerates the direction. The variance is that of :class:`PrivUnit` within 2 % up to
    epsilon 4 (10 % at epsilon 8 with 256 codewords, 2 % with 1,024).

    Parameters
    ----------
    epsilon, dim, radius
        As of :class:`.OfVector`; at most 2**23 coordinates.
    num_codewords : int (default: 256)
        Size of a codebook, 2 to 4,096, and at most ``2**24 / dim``; up to 256 a report is one byte.
    num_codebooks : int (default: 2**15 / (dim + 1)**2, but at least 8)
        Number of codebooks, 1 to 2**40; each user's coin names one. Strategies take one for
        512 users of the cohort that they ask, or for 8 (dim + 1) if that is less.
    coin : int (default: 0)
        Public coin of the codebooks, 0 to 2**63 - 1; strategies draw one for each question.

    Notes
    -----
    Averaged over the coins, the chosen direction V has mean ``scale`` times the vector, whatever
    the vector is; ``scale`` follows from expected order statistics of a uniform direction's
    coordinate (computed by quadrature, not simulated) and from the probabilities that are realised.
    A codebook costs ``num_codewords * dim`` normals, ranking one vector as many multiplications.

    Reports of users who share a codebook are not quite independent. A user's own turn (random
    signs and a shift in a circle) undoes it: in a cohort for which it was made, all of whom hold
    the same vector, the variance of their mean is that of independent reports within 4 %, and
    some 3 % above it at epsilon 8 with 2 or 4 coordinates.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. Which ``num_likely`` indices are likely depends on the value, how many does
       not; :class:`TwoLevel` then bounds the ratio of any index's probabilities for
       any two values by exp(epsilon), rounding included.
    3. How well or badly the directions are generated, turned and ranked (ties, floating
       point, a malicious coin, codebooks that all users share) moves indices between the two
       sets and nothing else, so the guarantee holds for every input and every coin.
    """

    num_codebooks: int = 0
    coin: int = 0

    most_coordinates: ClassVar[int | None] = _MAX_ENTRIES // 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_codebooks == 0:
            most = max(8, (1 << 15) // self._order**2)
            object.__setattr__(self, "num_codebooks", most)
        check_integer("num_codebooks", self.num_codebooks, 1, _MAX_CODEBOOKS)
        check_integer("coin", self.coin, 0, (1 << 63) - 1)

    @property
    def _most_codewords(self) -> int:
        return min(MOST_CODEWORDS, _MAX_ENTRIES // self.dim)

    @property
    def _order(self) -> int:
        return self.dim + 1

    @property
    def _order_statistics(self) -> tuple[Floats, Floats]:
        return of_directions(self._order, self.num_codewords)

    def for_cohort(self, num_users: int, coin: int) -> Self:
        """Return the mechanism with a codebook for 512 of so many users, from this coin.

        For fewer users where there are few coordinates, and turns have little to turn.
        """
        sharing = min(_SHARING, 8 * self._order)
        return replace(self, num_codebooks=max(1, -(-num_users // sharing)), coin=coin)

    def public_order(self, coins: Words) -> Rows:
        """Return an order of users in which those who share a codebook stand together."""
        return np.argsort(self._groups(coins), kind="stable")

    def _groups(self, coins: Words) -> Words:
        return derive(coins, _GROUP) % np.uint64(self.num_codebooks)

    def _codebooks(self, groups: Words) -> Iterator[Floats]:
        """Yield the groups' codebooks in turn: a server may give every user one of its own."""
        at_once = max(1, _MADE_ENTRIES // (self.num_codewords * self._order))
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            yield from directions(self.coin, some, self.num_codewords, self._order)

    def _shared(self, coins: Words) -> Iterator[tuple[Rows, Rows, Iterator[Floats]]]:
        """Yield some users, where those of the next codebook begin, and the codebooks."""
        groups = self._groups(coins)
        order = np.argsort(groups, kind="stable")
        step = max(1, _CACHED_ENTRIES // max(self.num_codewords, self._order))
        for start in range(0, len(order), step):
            users = order[start : start + step]
            present, begins = np.unique(groups[users], return_index=True)
            yield users, begins, self._codebooks(present)

    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, begins, codebooks in self._shared(coins):
            rows = turned(lift(values[users], self.radius), coins[users])
            products = np.empty((len(users), self.num_codewords))
            for words, run in zip(codebooks, _runs(begins, len(users)), strict=True):
                _multiply(rows[run], words, products[run])
            yield users, products

    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, begins, codebooks in self._shared(coins):
            chosen = np.empty((len(users), self._order))
            for words, run in zip(codebooks, _runs(begins, len(users)), strict=True):
                chosen[run] = words[reports[users[run]]]
            yield users, turned_back(chosen, coins[users])


def _runs(begins: Rows, end: int) -> list[slice]:
    return [slice(*pair) for pair in pairwise([*begins.tolist(), end])]


def _multiply(rows: Floats, words: Floats, products: Floats) -> None:
    """Store the rows' inner products with the words, as many rows at a time, filled up with zeros.

    So what a product adds up, in which order, follows from no other row.
    """
    whole, dim = len(rows) // _ROWS * _ROWS, rows.shape[1]
    blocks = products[:whole].reshape(-1, _ROWS, len(words))
    np.matmul(rows[:whole].reshape(-1, _ROWS, dim), words.T, out=blocks)
    if whole < len(rows):
        last = np.zeros((_ROWS, dim))
        last[: len(rows) - whole] = rows[whole:]
        products[whole:] = (last @ words.T)[: len(rows) - whole]
