"""What users answer whose mean rows lie around one mean."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import DistanceBin, Mean, OutstandingFeatures, WeightedMean
from ldp_flower.randomizers import Estimate

from ..runtime.exchange import Ask
from .answers import answered, of_bins, of_sets, radius_of, shortening

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MeanUsers:
    """Users whose mean rows are normal, and alike in all directions.

    Attributes
    ----------
    truth : ndarray of float64, shape (dim,)
        Their mean.
    spread : float
        Root mean square distance of a user's mean row from it.
    rng : numpy.random.Generator
        Of the noise.
    """

    truth: Floats
    spread: float
    rng: np.random.Generator

    def __call__(self, ask: Ask) -> Estimate:
        """Return what a cohort answers."""
        question, dim = ask.question, len(self.truth)
        each = self.spread**2 / dim
        if isinstance(question, DistanceBin):
            off = self.truth - question.centre
            square = float(off @ off) + self.spread**2
            return of_bins(ask, math.log(square) / 2, dim)
        if isinstance(question, OutstandingFeatures):
            return of_sets(ask, np.abs(self.truth) / math.sqrt(each), self.rng)
        if isinstance(question, Mean):
            return answered(ask, self.truth - question.centre, each, self.rng)
        assert isinstance(question, WeightedMean)
        wanted = question.coordinates
        off, variance = self.truth - question.centre, each * question.weights**2
        mean = question.weights * (off if wanted is None else off[wanted])
        total = float(variance.sum())
        degrees = total**2 / float(variance @ variance)
        left = shortening(float(mean @ mean), total, degrees, radius_of(ask))
        return answered(ask, left * mean, left**2 * variance, self.rng)
