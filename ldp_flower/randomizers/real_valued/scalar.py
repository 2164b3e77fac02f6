"""Piecewise and hybrid mechanisms: a number in an interval is reported as a real number."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...randomness import RandomSource, Words, drawable
from ...validation import Floats
from ..base import OfNumber, Reports
from . import RealValued


@dataclass(frozen=True)
class _Scalar(RealValued, OfNumber):
    """Base class of mechanisms that report a number as a real number; epsilon is at most 30."""

    #: Probabilities of unlikely reports are multiples of 2**-52, too coarse from epsilon 37 on.
    largest_epsilon: ClassVar[float] = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > self.largest_epsilon:
            raise ValueError(f"Expected epsilon <= {self.largest_epsilon:g}, got {self.epsilon}.")

    @abstractmethod
    def _draw(self, t: Floats, rng: RandomSource) -> Floats:
        """Return a randomised number for each number t in [-1, 1], with t as its expectation."""

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        t = np.clip(values[:, 0] / self.radius, -1, 1)
        return self._on_grid(self._draw(t, rng) * self.radius)


@dataclass(frozen=True)
class PiecewiseMechanism(_Scalar):
    """Randomiser whose report has a high density near the value and a low density elsewhere.

    Parameters are those of :class:`.OfNumber`; epsilon is at most 30.

    Notes
    -----
    Source: Wang et al. (2019), piecewise mechanism. With h = e^(eps/2) and C = (h + 1)
    / (h - 1), the report of t is uniform on an interval of length C - 1 around (C + 1) t
    / 2 with probability h / (h + 1), and otherwise uniform on the rest of [-C, C]. Its
    variance is t^2 / (h - 1) + (h + 3) / (3 (h - 1)^2).

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon`` in real arithmetic.
    2. The density takes two values, h / ((h + 1)(C - 1)) and 1 / ((h + 1)(C + 1)); the
       lengths do not depend on the value. The ratio of the two densities is
       h (C + 1) / (C - 1) = h^2.
    3. Values are clipped first and values that are not finite become 0, so the
       guarantee holds for every input.
    """

    @property
    def _h(self) -> float:
        return math.exp(self.epsilon / 2)

    @property
    def variance(self) -> float:
        """Variance at the ends of the interval, where it is largest."""
        return self.radius**2 * self.variance_at(1.0)

    def variance_at(self, t: float) -> float:
        """Return the variance for the value ``t * radius``, in units of ``radius**2``."""
        excess = math.expm1(self.epsilon / 2)
        return t * t / excess + (self._h + 3) / (3 * excess**2)

    @property
    def bound(self) -> float:
        """Largest absolute value of a report: ``C radius``, with C as in the notes."""
        return self.radius * (self._h + 1) / math.expm1(self.epsilon / 2)

    def _draw(self, t: Floats, rng: RandomSource) -> Floats:
        c = (self._h + 1) / math.expm1(self.epsilon / 2)
        near, place = rng.uniforms((len(t), 2)).T
        left = (c + 1) / 2 * t - (c - 1) / 2
        right = left + c - 1
        # The rest of [-C, C] has length C + 1. Positions run over its left part, then its right.
        position = place * (c + 1)
        elsewhere = np.where(position < left + c, position - c, right + position - (left + c))
        inside = near < 1 - drawable(1 / (self._h + 1))
        return np.asarray(np.where(inside, left + place * (c - 1), elsewhere))


@dataclass(frozen=True)
class HybridMechanism(_Scalar):
    """Randomiser that mixes the piecewise mechanism with randomized response.

    Its average variance is less than that of either mechanism, and above epsilon 0.61 its
    variance does not depend on the value. It is the default for numbers if inexact mechanisms
    are allowed.
    Parameters are those of :class:`.OfNumber`; epsilon is at most 30.

    Notes
    -----
    Source: Wang et al. (2019), hybrid mechanism: the piecewise mechanism with probability
    a = 1 - e^(-eps/2), otherwise Duchi's randomized response. Up to epsilon 0.61, a is 0 and
    randomized response is used alone. The variance is a times that of
    :class:`PiecewiseMechanism` plus 1 - a times that of :class:`.RandomizedResponse`.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon`` in real arithmetic.
    2. The choice of the mechanism does not depend on the value, and both are epsilon-LDP.
    3. Values are clipped first and values that are not finite become 0, so the
       guarantee holds for every input.
    """

    @property
    def _share(self) -> float:
        return -math.expm1(-self.epsilon / 2) if self.epsilon > 0.61 else 0.0

    @cached_property
    def _piecewise(self) -> PiecewiseMechanism:
        return PiecewiseMechanism(self.epsilon)

    @property
    def _response(self) -> float:
        return 1 / math.tanh(self.epsilon / 2)

    @property
    def variance(self) -> float:
        """Variance at the centre, where it is largest (constant above epsilon 0.61)."""
        return self.radius**2 * self.variance_at(0.0)

    def variance_at(self, t: float) -> float:
        """Return the variance for the value ``t * radius``, in units of ``radius**2``."""
        response = self._response**2 - t * t
        return self._share * self._piecewise.variance_at(t) + (1 - self._share) * response

    @property
    def bound(self) -> float:
        """Largest absolute value of a report: the larger bound of the two mechanisms in use."""
        return self.radius * max(self._response, self._piecewise.bound if self._share else 0.0)

    def _draw(self, t: Floats, rng: RandomSource) -> Floats:
        which, sign = rng.uniforms((len(t), 2)).T
        piecewise = self._piecewise._draw(t, rng)
        # Probability of the less likely sign, computed without cancellation.
        less = drawable((1 - np.abs(t)) / 2 + np.abs(t) / (math.exp(self.epsilon) + 1))
        positive = sign < np.where(t < 0, less, 1 - less)
        response = np.where(positive, self._response, -self._response)
        return np.asarray(np.where(which < self._share, piecewise, response))
