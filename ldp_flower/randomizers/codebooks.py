"""Codebooks: a vector in a ball as the number of one of finitely many public directions.

A few likely words are the closest to the user's vector: PrivUnit with finitely many outputs, at one
or two bytes a report. :class:`Codebook` shares generated words, :class:`HadamardCodebook` generates
none, for a million coordinates, and :func:`ball_codebook` says which one to take.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..randomness import RandomSource, Words, derive
from ..validation import Floats, check_integer
from .base import OfVector, Reports, Summary
from .codewords import directions, of_axes, of_directions, signs, turned, turned_back
from .elementwise import hadamard, lift, padded
from .two_level import OneChoice, TwoLevel

Rows = NDArray[np.intp]
#: Which users, by their row.
Places = slice | Rows

#: What a client computes for a report grows with it, and a message can ask for it.
MOST_CODEWORDS = 4096


@dataclass(frozen=True)
class BallCodebook(OneChoice, OfVector):
    """Base class: a vector in an l2 ball, reported as the number of one of K unit vectors.

    Vectors are lifted to the sphere of one dimension more, so that one rule serves all
    lengths; the server drops the added coordinate.
    """

    num_codewords: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_codewords", self.num_codewords, 2, self._most_codewords)

    @property
    @abstractmethod
    def _most_codewords(self) -> int:
        """Largest size of a codebook."""

    @property
    @abstractmethod
    def _order(self) -> int:
        """Number of coordinates of a word, more than ``dim``."""

    @property
    @abstractmethod
    def _order_statistics(self) -> tuple[Floats, Floats]:
        """Expected sums over the closest r words of their products with a unit vector."""

    @abstractmethod
    def _products(self, values: Floats, coins: Words) -> Iterable[tuple[Places, Floats]]:
        """Yield some users at a time and their lifted values' inner products with their words.

        A user's products, and so their ranking, are the same bits whatever the others hold.
        """

    @abstractmethod
    def _chosen(self, reports: Reports, coins: Words) -> Iterable[tuple[Places, Floats]]:
        """Yield some users at a time and the codewords of their reports, (users, order)."""

    @cached_property
    def _design(self) -> tuple[TwoLevel, float, float]:
        """Return the choice, E <V, u> and E <V, u>**2, for the best number of likely words."""
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
        """Number of indices that the user's vector makes likely."""
        return self._choice.num_likely

    @property
    def scale(self) -> float:
        """``E <V, u>`` for the user's (lifted) direction u."""
        return self._design[1]

    @property
    def variance(self) -> float:
        """The larger of the variances at the centre of the ball and on its sphere.

        V has unit length. Its product with u has the mean square E<V,u>**2, the rest of its
        squared length is spread evenly, also over the coordinates that the server drops: u's
        own, at the centre. In between the variance is linear in the square of the value's length.
        """
        squared = self._design[2]
        each = (1 - squared) / (self._order - 1)
        centre = self.bound**2 * self.dim * each
        sphere = self.bound**2 * (squared + (self.dim - 1) * each) - self.radius**2
        return max(centre, sphere) / self.dim

    @property
    def bound(self) -> float:
        """``radius / scale``."""
        return self.radius / self.scale

    @property
    def length(self) -> float:
        """``bound``."""
        return self.bound

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        likely, index = self._choice.draw(rng, len(values))
        reports = np.empty(len(values), self.report_dtype)
        for users, products in self._products(values, coins):
            drawn = likely[users, None]
            # Each row has as many words in the set that was drawn as the set is large.
            places = np.flatnonzero(self._close(products) == drawn)
            sizes = np.where(drawn[:, 0], self.num_likely, self.num_codewords - self.num_likely)
            first = np.cumsum(sizes) - sizes
            reports[users] = places[first + index[users].astype(np.intp)] % self.num_codewords
        return reports

    def _close(self, products: Floats) -> NDArray[np.bool_]:
        """Return which words are likely: the ``num_likely`` of each row's largest products.

        Exactly so many in each row, also among equals and where products are no numbers.
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
        """Return the only rounding of one value, its chance and the reports by rank."""
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


# Of a codebook, 128 MB, which a message can make a client generate for every user: just enough
# for 4,096 words of 4,096 coordinates, beyond which HadamardCodebook generates none.
_MAX_ENTRIES = 1 << 24
_MAX_CODEBOOKS = 1 << 40
_SHARING = 512  # users of a cohort who share a codebook
_GROUP = 0  # what a user's coin is used for
_ROWS = 32  # of a product of matrices: its shape must not depend on anything
_CACHED_ENTRIES = 1 << 17  # of users' rows and products
_MADE_ENTRIES = 1 << 20  # of codebooks that are made at a time, if there are several


@dataclass(frozen=True)
class Codebook(BallCodebook):
    """Randomiser for vectors in an l2 ball: the index of one of K public directions.

    A codebook holds ``num_codewords`` random directions, which public coins generate. Every user
    has one, turned in a way of its own. The user ranks the directions by their inner product with
    its vector and sends the index of one of the best with a probability raised by exp(epsilon). The
    server regenerates the direction. The variance is that of PrivUnit within 2 % up to
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
