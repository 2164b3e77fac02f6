"""Spherical caps: the two-valued densities that the mechanisms for an l2 ball draw from."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln

from ...randomness import RandomSource, drawable
from ...validation import Floats
from ..elementwise import row_dots, row_norms


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
