"""Codebooks: mechanisms that report a vector in a ball as the index of a public direction.

The unit vectors of a codebook are its codewords, or words for short. The likely words are the few
that are closest to the user's vector. This is PrivUnit with finitely many outputs, at one or two
bytes per report. In :class:`Codebook`, users share generated words; for many coordinates see
:mod:`.hadamard_codebook`.

Every user turns the shared codebook in a different way. For one user, a turned codebook of
independent uniform directions has the same distribution as before. For two users who share a
codebook, the turns make their reports of the same vector almost independent: if the codebook
favours an axis, it favours a different axis for every user.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..randomness import RandomSource, Words, derive
from ..validation import Floats, check_integer
from .base import OfVector, Reports
from .codewords import codewords, turned, turned_back
from .elementwise import lift
from .estimates import Summary
from .order_statistics import of_directions
from .two_level import OneChoice, TwoLevel

Rows = NDArray[np.intp]
#: Row numbers of some of the users.
Places = slice | Rows

#: Limit on the codewords that a message can request: a client's work per report grows with them.
MOST_CODEWORDS = 4096


@dataclass(frozen=True)
class BallCodebook(OneChoice, OfVector):
    """Base class of mechanisms that report a vector in an l2 ball as the index of a unit vector.

    Vectors are lifted to the sphere in one more dimension, so that one rule serves all lengths.
    The server drops the added coordinate.
    """

    num_codewords: int = 256

    @property
    @abstractmethod
    def _order(self) -> int:
        """Number of coordinates of a codeword; it exceeds ``dim``, since vectors are lifted."""

    @property
    @abstractmethod
    def _order_statistics(self) -> tuple[Floats, Floats]:
        """Expected sums of a unit vector's products with its closest codewords, and of the squares.

        Entry r - 1 is the sum over the r closest codewords.
        """

    @abstractmethod
    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        """Yield some users at a time, with the products of their lifted values and all codewords.

        A user's products, and so their ranking, are bit by bit independent of other users' values.
        """

    @abstractmethod
    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        """Yield pairs: the indices of some users, and the codewords of their reports.

        Codewords have the shape (users, order).
        """

    @cached_property
    def _design(self) -> tuple[TwoLevel, float, float]:
        """Return the choice, E <V, u> and E [<V, u>**2], for the best number of likely codewords.

        V is the reported codeword, and u is the user's lifted direction.
        """
        total = self.num_codewords
        sums, squares = self._order_statistics
        likely = np.arange(1, total // 2 + 1)
        tilt = math.expm1(self.epsilon) / (likely * math.exp(self.epsilon) + total - likely)
        r = int(likely[np.argmax(tilt * sums[: len(likely)])])
        choice = TwoLevel(self.epsilon, r, total - r)
        inside, outside = choice.probability / r, (1 - choice.probability) / (total - r)
        first = (inside - outside) * sums[r - 1] + outside * sums[-1]
        second = inside * squares[r - 1] + outside * (squares[-1] - squares[r - 1])
        return choice, float(first), float(second)

    @property
    def _choice(self) -> TwoLevel:
        return self._design[0]

    @property
    def num_likely(self) -> int:
        """Number of codewords that are likely for a user: those closest to its vector."""
        return self._choice.num_likely

    @property
    def scale(self) -> float:
        """Mean ``E <V, u>`` of the reported codeword V along the user's lifted direction u."""
        return self._design[1]

    @property
    def variance(self) -> float:
        """The larger of the variances at the centre of the ball and on its sphere.

        V has unit length. The mean square of its product with u is E [<V, u>**2]. The rest of its
        squared length is spread evenly over the other coordinates, including those that the
        server drops. At the centre, the server drops the coordinate of u itself. Between centre
        and sphere, the variance is linear in the square of the value's length.
        """
        squared = self._design[2]
        each = (1 - squared) / (self._order - 1)
        centre = self.bound**2 * self.dim * each
        sphere = self.bound**2 * (squared + (self.dim - 1) * each) - self.radius**2
        return max(centre, sphere) / self.dim

    @property
    def bound(self) -> float:
        """Largest absolute value of a coordinate of a debiased report: ``radius / scale``."""
        return self.radius / self.scale

    @property
    def length(self) -> float:
        """Largest Euclidean length of a debiased report: ``radius / scale``."""
        return self.bound

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        likely, index = self._choice.draw(rng, len(values))
        reports = np.empty(len(values), self.report_dtype)
        for users, products in self._products(values, coins):
            drawn = likely[users, None]
            # Each row has exactly as many words in the drawn set as that set has members.
            places = np.flatnonzero(self._close(products) == drawn)
            sizes = np.where(drawn[:, 0], self.num_likely, self.num_codewords - self.num_likely)
            first = np.cumsum(sizes) - sizes
            reports[users] = places[first + index[users].astype(np.intp)] % self.num_codewords
        return reports

    def _close(self, products: Floats) -> NDArray[np.bool_]:
        """Return a mask of the likely codewords: the ``num_likely`` largest products of each row.

        Each row has exactly ``num_likely`` likely codewords, even with ties and with NaN.
        """
        unlikely = self.num_codewords - self.num_likely
        close = products >= np.partition(products, unlikely, axis=1)[:, unlikely, None]
        wrong = np.flatnonzero(np.count_nonzero(close, axis=1) != self.num_likely)
        if len(wrong):
            order = np.argpartition(products[wrong], unlikely, axis=1)
            ranked = np.ones(order.shape, np.bool_)
            np.put_along_axis(ranked, order[:, :unlikely], False, axis=1)
            close[wrong] = ranked
        return close

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return one pair: the probability 1, and all reports by rank; no value is rounded."""
        ((_, products),) = self._products(value[None], coin)
        close = self._close(products)[0]
        order = np.concatenate([np.flatnonzero(close), np.flatnonzero(~close)])
        return [(Fraction(1), order.astype(self.report_dtype))]

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        values = np.empty((len(reports), self.dim))
        for users, words in self._chosen(reports, coins):
            values[users] = words[:, : self.dim]
        values *= self.bound
        return values

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        total, squares = np.zeros(self.dim), np.zeros(self.dim)
        for _, words in self._chosen(reports, coins):
            values = self._addable(words[:, : self.dim] * self.bound)
            total += values.sum(axis=0)
            squares += np.einsum("ij,ij->j", values, values)
        return Summary(len(reports), total, squares)


# Largest number of entries of a codebook (128 MB), since a message can make a client generate one
# for every user. It is just enough for 4,096 words of 4,096 coordinates; for more coordinates
# there is HadamardCodebook, which generates no words.
_MAX_ENTRIES = 1 << 24
_MAX_CODEBOOKS = 1 << 40
_SHARING = 512  # users of a cohort who share a codebook
_GROUP = 0  # purpose of a user's coin, beside those of :mod:`.codewords`
_ROWS = 32  # rows in one matrix product, a constant, so that results do not depend on other rows
_CACHED_ENTRIES = 1 << 17  # entries of users' rows and products at a time
_MADE_ENTRIES = 1 << 20  # entries of codebooks that are generated at a time, if there are several


@dataclass(frozen=True)
class Codebook(BallCodebook):
    """Randomiser for vectors in an l2 ball: the index of one of K public directions.

    A codebook holds ``num_codewords`` random directions, which are generated from public coins.
    Every user turns its codebook in a different way. The user ranks the directions by their inner
    product with its vector, and each of the best indices has a probability that is exp(epsilon)
    times that of the others. The server regenerates the direction. The variance is that of PrivUnit
    within 2 % up to epsilon 4 (10 % at epsilon 8 with 256 codewords, 2 % with 1,024).

    Parameters
    ----------
    epsilon, dim, radius
        See :class:`.OfVector`; at most 2**23 coordinates.
    num_codewords : int (default: 256)
        Size of a codebook, 2 to 4,096, and at most ``2**24 / dim``. Up to 256, a report is one
        byte.
    num_codebooks : int (default: 2**15 / (dim + 1)**2, but at least 8)
        Number of codebooks, 1 to 2**40. Each user's coin selects one. Strategies use one codebook
        for every 512 users of a cohort, or for every 8 (dim + 1) users if that is less.
    coin : int (default: 0)
        Public coin of the codebooks, 0 to 2**63 - 1. Strategies draw one for each question.

    Notes
    -----
    Averaged over the coins, the chosen direction V has mean ``scale`` times the vector, for every
    vector. ``scale`` follows from expected order statistics of a uniform direction's coordinate
    (computed by quadrature, not simulated) and from the realised probabilities. A codebook costs
    ``num_codewords * dim`` normals, and ranking one vector costs as many multiplications.

    Reports of users who share a codebook are not quite independent. Each user's turn (random
    signs and a cyclic shift) removes most of the dependence. In a cohort for which the mechanism
    was made (:meth:`for_cohort`), and in which all users hold the same vector, the variance of
    their mean is that of independent reports within 4 %, and some 3 % above it at epsilon 8 with
    2 or 4 coordinates.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. The value determines the set of likely indices, but not its size ``num_likely``.
       :class:`TwoLevel` therefore bounds the ratio of any index's probabilities for
       any two values by exp(epsilon), rounding included.
    3. The quality of the generation, turns and ranking of the directions (ties, floating
       point, a malicious coin, codebooks that all users share) only moves indices between
       the two sets, so the guarantee holds for every input and every coin.
    """

    num_codebooks: int = 0
    coin: int = 0

    most_coordinates: ClassVar[int | None] = _MAX_ENTRIES // 2

    def __post_init__(self) -> None:
        super().__post_init__()
        most = min(MOST_CODEWORDS, _MAX_ENTRIES // self.dim)
        check_integer("num_codewords", self.num_codewords, 2, most)
        if self.num_codebooks == 0:
            object.__setattr__(self, "num_codebooks", max(8, (1 << 15) // self._order**2))
        check_integer("num_codebooks", self.num_codebooks, 1, _MAX_CODEBOOKS)
        check_integer("coin", self.coin, 0, (1 << 63) - 1)

    @property
    def _order(self) -> int:
        return self.dim + 1

    @property
    def _order_statistics(self) -> tuple[Floats, Floats]:
        return of_directions(self._order, self.num_codewords)

    def for_cohort(self, num_users: int, coin: int) -> Self:
        """Return the mechanism with one codebook for every 512 of the users, from this coin.

        With few coordinates, fewer users share a codebook, since turns then change little.
        """
        sharing = min(_SHARING, 8 * self._order)
        return replace(self, num_codebooks=max(1, -(-num_users // sharing)), coin=coin)

    def public_order(self, coins: Words) -> Rows:
        """Return the indices of the users in an order that groups users of one codebook."""
        return np.argsort(self._groups(coins), kind="stable")

    def _groups(self, coins: Words) -> Words:
        return derive(coins, _GROUP) % np.uint64(self.num_codebooks)

    def _codebooks(self, groups: Words) -> Iterator[Floats]:
        """Yield the groups' codebooks in turn.

        A server may give every user a different codebook, so only a few are made at a time.
        """
        at_once = max(1, _MADE_ENTRIES // (self.num_codewords * self._order))
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            yield from codewords(self.coin, some, self.num_codewords, self._order)

    def _shared(self, coins: Words) -> Iterator[tuple[Rows, Iterator[tuple[slice, Floats]]]]:
        """Yield some users at a time: their indices, sorted by codebook, and their codebooks.

        Each codebook comes with the slice of those of the users who have it.
        """
        groups = self._groups(coins)
        order = np.argsort(groups, kind="stable")
        step = max(1, _CACHED_ENTRIES // max(self.num_codewords, self._order))
        for start in range(0, len(order), step):
            users = order[start : start + step]
            present, begins = np.unique(groups[users], return_index=True)
            runs = map(slice, begins, [*begins[1:], len(users)])
            yield users, zip(runs, self._codebooks(present), strict=True)

    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, codebooks in self._shared(coins):
            rows = turned(lift(values[users], self.radius), coins[users])
            products = np.empty((len(users), self.num_codewords))
            for run, words in codebooks:
                _multiply(rows[run], words, products[run])
            yield users, products

    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        for users, codebooks in self._shared(coins):
            chosen = np.empty((len(users), self._order))
            for run, words in codebooks:
                chosen[run] = words[reports[users[run]]]
            yield users, turned_back(chosen, coins[users])


def _multiply(rows: Floats, words: Floats, products: Floats) -> None:
    """Store the inner products of rows and words in ``products``.

    Each matrix product has ``_ROWS`` rows; the last one is filled up with zeros. The terms of a
    product, and the order of their addition, then do not depend on other rows.
    """
    whole, dim = len(rows) // _ROWS * _ROWS, rows.shape[1]
    blocks = products[:whole].reshape(-1, _ROWS, len(words))
    np.matmul(rows[:whole].reshape(-1, _ROWS, dim), words.T, out=blocks)
    if whole < len(rows):
        last = np.zeros((_ROWS, dim))
        last[: len(rows) - whole] = rows[whole:]
        products[whole:] = (last @ words.T)[: len(rows) - whole]
