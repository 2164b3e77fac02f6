"""PrivUnit, its lifted form and Duchi's sampler: vectors in an l2 ball as vectors.

All draw from spherical caps, by two-valued densities. The library's codebooks are compared with
them; no message can name them.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln

from ldp_flower.randomizers.base import Reports
from ldp_flower.randomizers.elementwise import directions, lift, row_dots, row_norms
from ldp_flower.randomizers.real_valued import RealVector
from ldp_flower.randomness import RandomSource, Words, drawable
from ldp_flower.validation import Floats


def _mass(height: ArrayLike, dim: int) -> Floats:
    """P(W >= height) for a coordinate W of a uniform direction, height >= 0."""
    height = np.asarray(height, np.float64)
    if dim == 1:
        return np.full_like(height, 0.5)
    # From the nearer end: next to a low cap 1 - height**2 has lost the height.
    half = (dim - 1) / 2
    between = betainc(0.5, half, np.square(height))
    beyond = betainc(half, 0.5, (1 - height) * (1 + height))
    return np.asarray(np.where(between < 0.5, 1 - between, beyond) / 2)


def _scale(height: ArrayLike, dim: int, epsilon: float) -> Floats:
    """E <V, u> when the density of the cap {W >= height} is exp(epsilon) times the rest's.

    It is E[W; W >= height] under the uniform law, (1 - height**2)**((d-1)/2)
    B(d/2, 1/2) / (2 pi), times the difference of the two density levels.
    """
    mass = _mass(height, dim)
    log_moment = (dim - 1) / 2 * np.log1p(-np.square(height)) + betaln(dim / 2, 0.5)
    levels = -math.expm1(-epsilon) / (mass + (1 - mass) * math.exp(-epsilon))
    return np.asarray(np.exp(log_moment) / (2 * math.pi) * levels)


@lru_cache(maxsize=256)
def best_height(epsilon: float, dim: int) -> float:
    """Return the height of the cap that maximises the scale."""
    if dim == 1:
        return 0.0
    grid = np.linspace(0.0, min(1.0, 20 * math.sqrt((1 + epsilon) / dim)), 4002)[:-1]
    scales = _scale(grid, dim, epsilon)
    best = int(np.argmax(scales))
    found = minimize_scalar(
        lambda height: -float(_scale(height, dim, epsilon)),
        bounds=(grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]),
        method="bounded",
    )
    return float(found.x) if -found.fun > scales[best] else float(grid[best])


@dataclass(frozen=True)
class Cap:
    """A direction V whose density is exp(epsilon) times higher on the cap {<V, u> >= height}.

    V lies on the unit sphere of R^dim; the height is in [0, 1).
    """

    epsilon: float
    dim: int
    height: float

    @cached_property
    def mass(self) -> float:
        """Mass ``c`` of the cap under the uniform distribution."""
        return float(_mass(self.height, self.dim))

    @cached_property
    def outside_probability(self) -> float:
        """Probability ``1 - p`` of the cap's complement, on the grid of the uniforms.

        Rounded up to the grid, after a rise that absorbs the error of ``c``, so that
        the ratio of the densities is at most e^eps. That error grows with the dimension,
        whose half is the power of ``1 - height**2`` that ``c`` is about.
        """
        odds = (1 - self.mass) / self.mass * math.exp(-self.epsilon)
        rise = 1e-12 + 4e-16 * self.dim
        return float(drawable(odds / (1 + odds) * (1 + rise)))

    @cached_property
    def scale(self) -> float:
        """``m = E <V, u>``."""
        return float(_scale(self.height, self.dim, self.epsilon))

    def draw(self, unit: Floats, rng: RandomSource) -> Floats:
        """Draw one direction for each unit vector, by inverting the law of <V, u>."""
        users, dim = unit.shape
        below, above = rng.sides((users, 2))
        normals = rng.normals((users, dim))
        outside = below[:, 0] < self.outside_probability
        if dim == 1:
            return unit * np.where(outside, -1.0, 1.0)[:, None]
        along, across = self._law(outside, below[:, 1], above[:, 1])
        normals -= row_dots(normals, unit)[:, None] * unit
        normals *= (across / row_norms(normals))[:, None]
        normals += along[:, None] * unit
        return normals

    def _law(
        self, outside: NDArray[np.bool_], below: Floats, above: Floats
    ) -> tuple[Floats, Floats]:
        """Return <V, u> and the length of V less <V, u> u, for uniforms and what they lack to 1.

        Their squares come from the nearest of both tails of the two-piece law and its
        middle, so that each keeps its relative precision where it is small.
        """
        c, half = self.mass, (self.dim - 1) / 2
        tail = np.where(outside, c + (1 - c) * below, c * below)
        rest = np.where(outside, (1 - c) * above, 1 - tail)
        nearer = 2 * np.minimum(tail, rest)
        far = nearer <= 0.5
        squares = np.empty((2, len(nearer)))
        squares[1, far] = betaincinv(half, 0.5, nearer[far])
        squares[0, ~far] = betaincinv(0.5, half, 1 - nearer[~far])
        squares[0, far], squares[1, ~far] = 1 - squares[1, far], 1 - squares[0, ~far]
        along, across = np.sqrt(squares)
        return np.where(tail <= 0.5, along, -along), across


@dataclass(frozen=True)
class _BallSampler(RealVector):
    """What the three have in common: a report is a direction drawn from a :class:`Cap`."""

    @property
    @abstractmethod
    def cap(self) -> Cap:
        """The cap that directions are drawn from."""

    @property
    def variance(self) -> float:
        """``bound**2 / dim``: a report's squared length is at most ``bound**2``."""
        return self.bound**2 / self.dim

    @property
    def bound(self) -> float:
        """``radius / m``, the length of a report."""
        return self.radius / self.cap.scale

    @property
    def length(self) -> float:
        """``bound`` (to float32 rounding)."""
        return self.bound * (1 + 1e-6)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        # A vector inside the ball takes its own direction or the opposite one; reports
        # have one length, so that this randomness costs no variance.
        unit, length = directions(values)
        fraction = np.minimum(length / self.radius, 1.0)
        unit[rng.uniforms((len(unit), 1))[:, 0] >= (1 + fraction) / 2] *= -1
        return self._on_grid(self.cap.draw(unit, rng) * self.bound)

    def contains(self, reports: Reports) -> bool:
        """Whether every report has the one possible length (to float32 rounding)."""
        lengths = row_norms(reports.astype(np.float64))
        return bool(np.allclose(lengths, self.bound, rtol=1e-5, atol=0))


@dataclass(frozen=True)
class PrivUnit(_BallSampler):
    """Randomiser for vectors in an l2 ball; the least known variance.

    A uniform direction is drawn from a cap around the user's direction with a
    probability raised by exp(epsilon), from the rest of the sphere otherwise, and
    scaled to be unbiased. Vectors inside the ball pick the sign of their direction
    at random, which costs no variance because reports have a constant length.
    Parameters are those of :class:`~ldp_flower.randomizers.base.OfVector`.

    Notes
    -----
    Source: Bhowmick et al. (2018), with the cap optimised as in Asi, Feldman &
    Talwar (2022). Sampling is exact inversion, O(dim) per user; a report is
    ``dim`` 4-byte floats. :class:`~ldp_flower.randomizers.Codebook` is its finite form.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon`` in real arithmetic.
    2. For a direction u the report's density on the sphere takes two values, p / c
       inside the cap around u and (1 - p) / (1 - c) outside, c being the cap's mass.
       p = e^eps c / (e^eps c + 1 - c) makes their ratio e^eps; it is rounded down, by what
       a computed c may err and to what uniforms draw exactly, so the ratio is at most that.
    3. u is a randomised function of the value, and mixing keeps the bound;
       shortening happens first, and a row that is not finite becomes 0. The
       guarantee therefore holds for every input.
    """

    @cached_property
    def cap(self) -> Cap:
        """The cap of the least variance."""
        return Cap(self.epsilon, self.dim, best_height(self.epsilon, self.dim))


@dataclass(frozen=True)
class DuchiBall(_BallSampler):
    """Randomiser for vectors in an l2 ball that draws from a half-sphere.

    Parameters are those of :class:`~ldp_flower.randomizers.base.OfVector`.

    Notes
    -----
    Source: Duchi, Jordan & Wainwright (2018). It is :class:`PrivUnit` with a cap of
    height 0, kept for comparisons: at epsilon 4 and 64 dimensions its variance is 3.8
    times as large.

    Guarantee
    ---------
    As that of :class:`PrivUnit`. The boundary of the half-sphere has measure zero, so
    that open or closed makes no difference here.
    """

    @cached_property
    def cap(self) -> Cap:
        """The half-sphere."""
        return Cap(self.epsilon, self.dim, 0.0)


@dataclass(frozen=True)
class LiftedPrivUnit(_BallSampler):
    """PrivUnit on the sphere of one dimension more, for vectors well inside the ball.

    A vector is lifted to the unit sphere of R^(dim + 1), drawn for there, and the
    added coordinate dropped. Its variance is that of :class:`PrivUnit` in one
    dimension more, less what the dropped coordinate takes: a little smaller for
    vectors inside the ball and large epsilon, the same otherwise.
    Parameters are those of :class:`~ldp_flower.randomizers.base.OfVector`.

    Guarantee
    ---------
    As that of :class:`PrivUnit`; lifting is a function of the value, dropping a
    coordinate is post-processing.
    """

    @cached_property
    def cap(self) -> Cap:
        """The cap of the least variance on the lifted sphere."""
        return Cap(self.epsilon, self.dim + 1, best_height(self.epsilon, self.dim + 1))

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        drawn = self.cap.draw(lift(values, self.radius), rng)[:, :-1]
        return self._on_grid(drawn * self.bound)

    def contains(self, reports: Reports) -> bool:
        """Whether no report is longer than possible (to float32 rounding)."""
        return bool((row_norms(reports.astype(np.float64)) <= self.bound * (1 + 1e-5)).all())
