"""Randomized response: a number in an interval, as one bit."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from ..randomness import RandomSource, Words
from ..validation import Floats
from .base import Reports
from .domains import OfNumber
from .enumerable import OneChoice
from .two_level import TwoLevel


@dataclass(frozen=True)
class RandomizedResponse(OneChoice, OfNumber):
    """Randomiser for one number, at one bit (sent as a byte).

    Parameters are those of :class:`.OfNumber`.

    Notes
    -----
    Source: Duchi, Jordan & Wainwright (2018), one dimension. Variance of a
    debiased report: ``radius**2 * (B**2 - t**2)`` for the value ``t * radius``,
    ``B = (e^eps + 1) / (e^eps - 1)``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The value is rounded to a random sign, of which the value is the mean. The
       sign is kept with the probability of :class:`TwoLevel` (one likely output,
       one unlikely), so the probabilities of either bit differ by at most
       exp(epsilon) for the two signs, hence for any mixtures of them.
    3. Clipping happens first and what is not finite becomes 0, so the guarantee
       holds for every input.
    """

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, 1)

    @property
    def variance(self) -> float:
        """``bound**2``, exact at the centre of the interval."""
        return self.bound**2

    @property
    def bound(self) -> float:
        """``radius / (2 p - 1)``, p the realised probability of keeping the sign."""
        return self.radius / (2 * self._choice.probability - 1)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        positive = rng.uniforms((len(values), 1)) < self._chance(values)
        kept, _ = self._choice.draw(rng, len(values))
        return np.asarray((positive[:, 0] == kept).astype(np.uint8))

    def _chance(self, values: Floats) -> Floats:
        """Return the probabilities with which values are rounded to positive signs."""
        return np.asarray((1 + np.clip(values / self.radius, -1, 1)) / 2)

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return, for each rounding of one value, its chance and the reports by rank."""
        positive = Fraction(float(self._chance(value)[0]))
        bits = np.array([1, 0], np.uint8)
        return [(positive, bits), (1 - positive, bits[::-1])]

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return (reports.astype(np.float64) * 2 - 1)[:, None] * self.bound
