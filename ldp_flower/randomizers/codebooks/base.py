"""What codebooks have in common: a few likely words, the closest to a user's vector.

And how far the best of many random directions point along a vector, by quadrature.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, gammaln, ndtr, roots_legendre

from ...randomness import RandomSource, Words
from ...validation import Floats, check_integer
from ..base import Reports, Summary
from ..domains import OfVector
from ..two_level import OneChoice, TwoLevel

#: Which users, by their row.
Places = slice | NDArray[np.intp]

#: What a client computes for a report grows with it, and a message can ask for it.
MOST_CODEWORDS = 4096

_NODES = 1500  # of the quadrature
_WIDEST = 14.0  # standard deviations of a coordinate


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


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = roots_legendre(_NODES)
    return nodes, weights


def _best(w: Floats, density: Floats, above: Floats, number: int) -> tuple[Floats, Floats]:
    """Return expected sums of w and w**2 over the best r of ``number`` independent ones.

    Entry r - 1 is ``number`` times the integral of w (or w**2) against its density (times
    the quadrature's weights) times the probability that at most r - 1 of the others exceed it.
    """
    others = np.arange(number, dtype=np.float64)[:, None]
    logs = gammaln(number) - gammaln(others + 1) - gammaln(number - others)
    above = np.clip(above, 1e-300, 1 - 1e-16)  # of finite logarithms
    logs = logs + others * np.log(above)
    logs += (number - 1 - others) * np.log1p(-above)
    # Of each number of others that exceed w: the integral, which is added up over numbers.
    exactly = np.exp(logs, out=logs) @ np.stack([density * w, density * w * w], axis=1)
    sums, squares = number * np.cumsum(exactly, axis=0).T
    return sums, squares


@lru_cache(maxsize=256)
def of_directions(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return expected sums of W and W**2 over the best r of ``number`` random directions.

    W is a direction's inner product with a unit vector of R^dim; the directions are
    independent. The quadrature is in the angle w = sin(a), where W's density is
    cos(a)**(dim - 2).
    """
    limit = min(math.pi / 2, _WIDEST / math.sqrt(dim))
    nodes, weights = _quadrature()
    angle = limit * nodes
    w = np.sin(angle)
    log_density = (dim - 2) * np.log(np.cos(angle)) - betaln((dim - 1) / 2, 0.5)
    upper = betainc((dim - 1) / 2, 0.5, np.cos(angle) ** 2) / 2
    above = np.where(w >= 0, upper, 1 - upper)
    return _best(w, limit * weights * np.exp(log_density), above, number)


@lru_cache(maxsize=256)
def of_axes(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return the same for ``number`` of the axes of R^dim, turned at random together.

    A random direction's coordinates are those of a normal vector over its length, which
    does not depend on them; so are the best of them.
    """
    nodes, weights = _quadrature()
    w = _WIDEST * nodes
    density = _WIDEST * weights * np.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    sums, squares = _best(w, density, ndtr(-w), number)
    length = math.sqrt(2) * math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2))
    return sums / length, squares / dim
