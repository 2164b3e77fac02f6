"""PrivUnit: a vector in a Euclidean ball, as a vector of constant length."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln

from ..randomness import RandomSource, Words
from ..validation import check_integer, check_positive
from .ball import directions, norms
from .base import Floats, Randomizer, Reports


def _cap_mass(gamma: ArrayLike, dim: int) -> Floats:
    """P(W >= gamma) for a coordinate W of a uniform direction, gamma >= 0."""
    gamma = np.asarray(gamma, np.float64)
    if dim == 1:
        return np.full_like(gamma, 0.5)
    return np.asarray(betainc((dim - 1) / 2, 0.5, (1 - gamma) * (1 + gamma)) / 2)


def _scale(gamma: ArrayLike, dim: int, epsilon: float) -> Floats:
    """E <V, u> when the density of the cap {W >= gamma} is exp(epsilon) times the rest's.

    It is E[W; W >= gamma] under the uniform law, (1 - gamma**2)**((d-1)/2)
    B(d/2, 1/2) / (2 pi), times the difference of the two density levels.
    """
    mass = _cap_mass(gamma, dim)
    log_moment = (dim - 1) / 2 * np.log1p(-np.square(gamma)) + betaln(dim / 2, 0.5)
    levels = -math.expm1(-epsilon) / (mass + (1 - mass) * math.exp(-epsilon))
    return np.asarray(np.exp(log_moment) / (2 * math.pi) * levels)


@lru_cache(maxsize=256)
def best_cap(epsilon: float, dim: int) -> float:
    """Return the height gamma of the cap that maximises the scale."""
    if dim == 1:
        return 0.0
    grid = np.linspace(0.0, min(1.0, 20 * math.sqrt((1 + epsilon) / dim)), 4002)[:-1]
    scales = _scale(grid, dim, epsilon)
    best = int(np.argmax(scales))
    found = minimize_scalar(
        lambda gamma: -float(_scale(gamma, dim, epsilon)),
        bounds=(grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]),
        method="bounded",
    )
    return float(found.x) if -found.fun > scales[best] else float(grid[best])


@dataclass(frozen=True)
class PrivUnit(Randomizer):
    """Randomiser for vectors in an l2 ball; the least known variance.

    A uniform direction is drawn from a cap around the user's direction with a
    probability raised by exp(epsilon), from the rest of the sphere otherwise, and
    scaled to be unbiased. Vectors inside the ball pick the sign of their direction
    at random, which costs no variance because reports have a constant length.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    dim : int
        Number of coordinates.
    radius : float (default: 1.0)
        The domain is the ball of this radius; longer vectors are shortened to it.

    Notes
    -----
    Source: Bhowmick et al. (2018), with the cap optimised as in Asi, Feldman &
    Talwar (2022). Sampling is exact inversion, O(dim) per user; a report is
    ``dim`` 4-byte floats (rounded after sampling, which is post-processing).
    ``exact`` is False: the output is real-valued, so the guarantee is that of the
    mechanism in real arithmetic. :class:`Codebook` is its finite form.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon`` in real arithmetic.
    2. For a direction u the report's density on the sphere takes two values, p / c
       inside the cap around u and (1 - p) / (1 - c) outside, c being the cap's mass.
       p = e^eps c / (e^eps c + 1 - c), rounded down, makes their ratio e^eps.
    3. u is a randomised function of the value, and mixing keeps the bound;
       shortening happens first, and a row that is not finite becomes 0. The
       guarantee therefore holds for every input.
    """

    dim: int
    radius: float = 1.0

    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 1)
        check_positive("radius", self.radius)

    @cached_property
    def cap_mass(self) -> float:
        """Mass ``c`` of the cap under the uniform distribution."""
        return float(_cap_mass(best_cap(self.epsilon, self.dim), self.dim))

    @cached_property
    def outside_probability(self) -> float:
        """Probability ``1 - p`` of the cap's complement, on the grid of the uniforms.

        Rounded up to the grid, after a rise that absorbs the error of ``c``, so that
        the ratio of the densities is at most e^eps.
        """
        odds = (1 - self.cap_mass) / self.cap_mass * math.exp(-self.epsilon)
        return math.ceil(odds / (1 + odds) * (1 + 1e-12) * 2**53) * 2.0**-53

    @cached_property
    def scale(self) -> float:
        """``m = E <V, u>``: a report is ``radius / m`` long."""
        return float(_scale(best_cap(self.epsilon, self.dim), self.dim, self.epsilon))

    @property
    def width(self) -> int:
        """Number of coordinates of a value."""
        return self.dim

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """Four-byte floats."""
        return np.dtype(np.float32)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """The report is a vector."""
        return (self.dim,)

    @property
    def variance(self) -> float:
        """``bound**2 / dim``: the squared length is constant (exact at the centre)."""
        return self.bound**2 / self.dim

    @property
    def bound(self) -> float:
        """``radius / m``, the length of every report."""
        return self.radius / self.scale

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        users, dim = values.shape
        uniforms = rng.uniforms((users, 3))
        normals = rng.normals((users, dim))
        # A vector inside the ball takes its own direction or the opposite one.
        unit, length = directions(values)
        fraction = np.minimum(length / self.radius, 1.0)
        unit[uniforms[:, 0] >= (1 + fraction) / 2] *= -1
        along = self._along(uniforms[:, 1], uniforms[:, 2])
        if dim == 1:
            return (unit * (along * self.bound)[:, None]).astype(np.float32)
        normals -= np.einsum("ij,ij->i", normals, unit)[:, None] * unit
        normals *= (np.sqrt((1 - along) * (1 + along)) / norms(normals))[:, None]
        unit *= along[:, None]
        unit += normals
        unit *= self.bound
        return unit.astype(np.float32)

    def _along(self, choice: Floats, position: Floats) -> Floats:
        """Draw W = <V, u> by inverting its two-piece law from the nearer tail."""
        c = self.cap_mass
        outside = choice < self.outside_probability
        tail = np.where(outside, c + (1 - c) * position, c * position)
        if self.dim == 1:
            return np.where(tail <= 0.5, 1.0, -1.0)
        nearer = np.minimum(2 * tail, 2 * (1 - tail))
        along = np.sqrt(1 - betaincinv((self.dim - 1) / 2, 0.5, nearer))
        return np.asarray(np.where(tail <= 0.5, along, -along))

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return reports.astype(np.float64)

    def contains(self, reports: Reports) -> bool:
        """Whether every report has the one possible length (to float32 rounding)."""
        lengths = norms(reports.astype(np.float64))
        return bool(np.allclose(lengths, self.bound, rtol=1e-5, atol=0))
