"""What users answer whose mean rows differ from the mean of all by a known amount."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import DistanceBin, Mean
from ldp_flower.randomizers import Estimate, Randomizer

from ..runtime.exchange import Ask
from .scale_bins import bin_shares

Floats = NDArray[np.float64]


@dataclass
class AlikeUsers:
    """Users around a mean, who answer with noise of its usual length, and always the same.

    Attributes
    ----------
    dim : int
        Number of coordinates.
    length : float
        Of the mean.
    spread : float
        Root mean square distance of a user's mean row from that of all.
    """

    dim: int
    length: float
    spread: float
    _rng: np.random.Generator = field(init=False)
    _truth: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._truth = self.length * self._direction()

    def _direction(self) -> Floats:
        direction = self._rng.standard_normal(self.dim)
        return np.asarray(direction / np.linalg.norm(direction))

    def __call__(self, ask: Ask) -> Estimate:
        """Return what a cohort answers."""
        question, count = ask.question, ask.cohort.size
        if isinstance(question, DistanceBin):
            return self._distances(question, count)
        assert isinstance(question, Mean)
        error = math.sqrt((ask.randomizer.variance + self.spread**2 / self.dim) / count)
        noise = error * math.sqrt(self.dim) * self._direction()
        return Estimate(self._truth - question.centre + noise, np.full(self.dim, error), count)

    def _distances(self, question: DistanceBin, count: int) -> Estimate:
        """Return exact shares of the bins of the distances of normal users."""
        from scipy.special import digamma, polygamma

        half = self.dim / 2
        off = self._truth - question.centre
        log = math.log(self.spread**2 + float(off @ off)) - math.log(half)
        mean, spread = (log + float(digamma(half))) / 2, math.sqrt(float(polygamma(1, half))) / 2
        shares = bin_shares(question, mean, spread)
        return Estimate(shares, np.zeros_like(shares), count)
