"""Codebook: PrivUnit with finitely many outputs, at one or two bytes a report."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...randomness import Words, derive
from ...validation import check_integer
from ..ball import lift
from ..base import Floats, Reports
from .base import MOST_CODEWORDS, BallCodebook, Places
from .order_statistics import of_directions
from .words import directions, turned, turned_back

_MAX_ENTRIES = 1 << 26  # of a codebook
_MOST_CODEBOOKS = 1 << 40
_SHARING = 256  # users of a cohort who share a codebook
_GROUP = 0  # what a user's coin is used for
_ROWS = 32  # of a product of matrices: its shape must not depend on anything


@dataclass(frozen=True)
class Codebook(BallCodebook):
    """Randomiser for vectors in an l2 ball: the index of one of K public directions.

    A codebook holds ``num_codewords`` random directions, which public coins generate. Every
    user has one, turned in a way of its own. The user ranks the directions by their
    inner product with its vector and sends the index of one of the best with a probability
    raised by exp(epsilon). The server regenerates the direction. The variance is that of
    :class:`PrivUnit` within 2 % up to epsilon 4 (10 % at epsilon 8 with 256
    codewords, 2 % with 1,024).

    Parameters
    ----------
    epsilon, dim, radius
        As of :class:`.OfVector`; at most 2**25 coordinates.
    num_codewords : int (default: 256)
        Size of a codebook, 2 to 4,096, and at most ``2**26 / dim``; up to 256 a
        report is one byte.
    num_codebooks : int (default: 1,024 / dim, but at least 8)
        Number of codebooks, 1 to 2**40; each user's coin names one. Strategies take one for
        256 users of the cohort that they ask.
    coin : int (default: 0)
        Public coin of the codebooks, 0 to 2**63 - 1; strategies draw one for each question.

    Notes
    -----
    Averaged over the coins, the chosen direction V has mean ``scale`` times the vector,
    whatever the vector is; ``scale`` follows from expected order statistics of a uniform
    direction's coordinate (computed by quadrature, not simulated) and from the probabilities
    that are realised. A codebook costs ``num_codewords * dim`` normals, ranking one
    vector as many multiplications.

    Reports of users who share a codebook are not quite independent. A user's own turn (random
    signs and a shift in a circle) undoes it: with 256 users a codebook, all of whom hold the
    same vector, the variance of their mean is up to 1.02 times that of independent reports,
    1.12 at epsilon 8 with 4 coordinates.

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
            object.__setattr__(self, "num_codebooks", max(8, 1024 // self.dim))
        check_integer("num_codebooks", self.num_codebooks, 1, _MOST_CODEBOOKS)
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
        """Return the mechanism with a codebook for 256 of so many users, from this coin."""
        return replace(self, num_codebooks=max(1, -(-num_users // _SHARING)), coin=coin)

    def public_order(self, coins: Words) -> NDArray[np.intp]:
        """Return an order of users in which those who share a codebook stand together."""
        return np.argsort(self._groups(coins), kind="stable")

    def _groups(self, coins: Words) -> Words:
        return derive(coins, _GROUP) % np.uint64(self.num_codebooks)

    def _shared(self, coins: Words) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Yield the users of each codebook, and the codebook."""
        groups = self._groups(coins)
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=np.uint64(self.num_codebooks)))
        for users in np.split(order, starts[1:]):
            group = int(groups[users[0]])
            yield users, directions(self.coin, group, self.num_codewords, self._order)

    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, words in self._shared(coins):
            # As many rows at a time, whoever holds what, the last ones filled up with zeros: in
            # which order a row's products are added up follows from its place alone.
            rows = np.zeros((-(-len(users) // _ROWS) * _ROWS, self._order))
            rows[: len(users)] = turned(lift(values[users], self.radius), coins[users])
            products = rows.reshape(-1, _ROWS, self._order) @ words.T
            yield users, products.reshape(len(rows), -1)[: len(users)]

    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, words in self._shared(coins):
            yield users, turned_back(words[reports[users]], coins[users])
