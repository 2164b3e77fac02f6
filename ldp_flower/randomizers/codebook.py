"""Codebook: PrivUnit with finitely many outputs, at one or two bytes a report."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, roots_legendre

from ..randomness import KeyedRandom, RandomSource, Words
from ..validation import check_integer
from .ball import lift
from .base import Floats, Reports
from .domains import OfVector
from .elementwise import row_dots, row_norms
from .enumerable import OneChoice
from .two_level import TwoLevel

# What a client computes for a report grows with these, and a message can ask for it.
_MAX_CODEWORDS, _MAX_ENTRIES = 4096, 1 << 26
_CHUNK_ENTRIES = 1 << 21  # codebook entries held in memory at a time


@lru_cache(maxsize=1)
def _quadrature(num_nodes: int) -> tuple[Floats, Floats]:
    nodes, weights = roots_legendre(num_nodes)
    return nodes, weights


@lru_cache(maxsize=64)
def _order_statistics(dim: int, num_codewords: int) -> tuple[Floats, Floats]:
    """Return expected sums of W and W**2 over the best r of K random directions of R^dim.

    W is a direction's inner product with a unit vector. Entry r - 1 of each array
    is K times the integral of w (or w**2) against the density of W times the
    probability that at most r - 1 of the other K - 1 exceed w, by Gauss-Legendre
    quadrature in the angle w = sin(a), where the density is cos(a)**(dim - 2).
    """
    limit = min(math.pi / 2, 14 / math.sqrt(dim))
    nodes, weights = _quadrature(1500)
    angle, weights = limit * nodes, limit * weights
    w = np.sin(angle)
    log_density = (dim - 2) * np.log(np.cos(angle)) - betaln((dim - 1) / 2, 0.5)
    density = weights * np.exp(log_density) * num_codewords
    upper = betainc((dim - 1) / 2, 0.5, np.cos(angle) ** 2) / 2
    above = np.where(w >= 0, upper, 1 - upper)
    ranks = np.arange(1, num_codewords + 1, dtype=np.float64)[:, None]
    # P(Binomial(K - 1, above) <= r - 1) is the regularised I_{1 - above}(K - r, r).
    included = np.ones((num_codewords, len(w)))
    included[:-1] = betainc(num_codewords - ranks[:-1], ranks[:-1], 1 - above)
    return included @ (density * w), included @ (density * w * w)


@dataclass(frozen=True)
class Codebook(OneChoice, OfVector):
    """Randomiser for vectors in an l2 ball: the index of one of K public directions.

    Every user has a codebook of its own, ``num_codewords`` random directions that
    its public coin generates. The user ranks them by their inner product with its
    vector and sends the index of one of the best with a probability raised by
    exp(epsilon). The server regenerates the direction. The variance is that of
    :class:`PrivUnit` within 2 % up to epsilon 4 (10 % at epsilon 8 with 256
    codewords, 2 % with 1,024).

    Parameters
    ----------
    epsilon, dim, radius
        As of :class:`.OfVector`; at most 2**25 coordinates.
    num_codewords : int (default: 256)
        Size of each user's codebook, 2 to 4,096, and at most ``2**26 / dim``; up to 256 a
        report is one byte.

    Notes
    -----
    Vectors inside the ball are lifted to the sphere of one dimension more, so that
    one rule serves all lengths; the server drops the added coordinate. Averaged
    over the coin, the chosen direction V has mean ``scale`` times the vector, where
    ``scale`` follows from expected order statistics of a uniform direction's
    coordinate (computed by quadrature, not simulated) and from the probabilities
    that are realised. Randomising costs ``num_codewords * dim`` normals per user.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. Which ``num_likely`` indices are likely depends on the value, how many does
       not; :class:`TwoLevel` then bounds the ratio of any index's probabilities for
       any two values by exp(epsilon), rounding included.
    3. How well or badly the directions are generated and ranked (ties, floating
       point, a malicious coin) moves indices between the two sets and nothing
       else, so the guarantee holds for every input and every coin.
    """

    num_codewords: int = 256

    most_coordinates: ClassVar[int | None] = _MAX_ENTRIES // 2

    def __post_init__(self) -> None:
        super().__post_init__()
        most = min(_MAX_CODEWORDS, _MAX_ENTRIES // self.dim)
        check_integer("num_codewords", self.num_codewords, 2, most)

    @cached_property
    def _design(self) -> tuple[TwoLevel, float, float]:
        """Return the choice, E <V, u> and E <V, u>**2, for the best number of likely words."""
        total = self.num_codewords
        sums, squares = _order_statistics(self.dim + 1, total)
        likely = np.arange(1, total // 2 + 1)
        tilt = math.expm1(self.epsilon) / (likely * math.exp(self.epsilon) + total - likely)
        r = int(likely[np.argmax(tilt * sums[: len(likely)])])
        choice = TwoLevel(self.epsilon, r, total - r)
        inside, outside = choice.probability / r, (1 - choice.probability) / (total - r)
        first = (inside - outside) * sums[r - 1]
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
        """The larger of the exact variances at the centre of the ball and on its sphere.

        V has unit length, less its added coordinate, whose square is E<V,u>**2 on
        average at the centre and (1 - E<V,u>**2) / dim on the sphere. In between the
        variance is linear in the square of the value's length.
        """
        rest = 1 - self._design[2]
        centre = self.bound**2 * rest
        sphere = self.bound**2 * (1 - rest / self.dim) - self.radius**2
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
        users = len(values)
        likely, index = self._choice.draw(rng, users)
        rank = np.where(likely, index, index + np.uint64(self.num_likely)).astype(np.int64)
        lifted = lift(values, self.radius)
        reports = np.empty(users, self.report_dtype)
        step = max(1, _CHUNK_ENTRIES // (self.num_codewords * (self.dim + 1)))
        for start in range(0, users, step):
            chunk = slice(start, start + step)
            order = self._order(lifted[chunk], coins[chunk])
            chosen = np.take_along_axis(order, rank[chunk, None], axis=1)
            reports[chunk] = chosen[:, 0]
        return reports

    def _order(self, lifted: Floats, coins: Words) -> NDArray[np.int64]:
        """Return the indices of each user's codewords, the closest to its vector first."""
        return np.argsort(-self._products(lifted, coins), axis=1, kind="stable")

    def _products(self, lifted: Floats, coins: Words) -> Floats:
        """Return each vector's inner products with its user's codewords.

        One user's are added up in an order that follows from ``dim`` alone, which a product
        of matrices would not keep to: colluders could lay their vectors on near ties.
        """
        random, products = KeyedRandom(coins), np.empty((len(coins), self.num_codewords))
        at_once = max(1, _CHUNK_ENTRIES // (len(coins) * (self.dim + 1)))
        for start in range(0, self.num_codewords, at_once):
            block = products[:, start : start + at_once]
            words = random.normals((*block.shape, self.dim + 1))
            block[:] = row_dots(words, lifted[:, None])
            block /= row_norms(words)
        return products

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return the only rounding of one value, its chance and the reports by rank."""
        order = self._order(lift(value[None], self.radius), coin)[0]
        return [(Fraction(1), order.astype(self.report_dtype))]

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        first = reports.astype(np.uint64) * np.uint64(self.dim + 1)
        words = KeyedRandom(coins).skip(first).normals((len(reports), self.dim + 1))
        words *= (self.bound / row_norms(words))[:, None]
        return words[:, :-1]
