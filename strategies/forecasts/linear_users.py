"""What users answer whose targets are a linear function of independent features, plus noise."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Curvature, Gradient, GradientNorm, RootCurvature
from ldp_flower.randomizers import Estimate

from ..numerics.attenuation import kept
from ..runtime.exchange import Ask

Floats = NDArray[np.float64]


def equal_coefficients(dim: int, sparsity: int, length: float) -> Floats:
    """Return coefficients of which so many are of one size, and the others zero."""
    coef = np.zeros(dim)
    coef[:sparsity] = length / math.sqrt(sparsity)
    return coef


@dataclass(frozen=True)
class LinearUsers:
    """Users whose rows all obey one linear model, and who answer with the mechanism's noise.

    Attributes
    ----------
    truth : ndarray of float64, shape (dim,)
        The coefficients.
    noise : float
        Standard deviation of the targets given the features.
    rng : numpy.random.Generator
        Of the noise.
    rows : float (default: 1)
        Rows of a user.
    feature_variance : float (default: 1.0)
        Mean square of a feature.
    """

    truth: Floats
    noise: float
    rng: np.random.Generator
    rows: float = 1
    feature_variance: float = 1.0

    def __call__(self, ask: Ask) -> Estimate:
        """Return what a cohort answers."""
        question = ask.question
        if isinstance(question, Gradient):
            mean = self._gradient(question, ask)
        elif isinstance(question, GradientNorm):
            mean = np.array([self._log_norm(question.theta) - math.log(question.prior)])
            mean = mean / question.log_range
        elif isinstance(question, RootCurvature):
            root = math.log(self.feature_variance) / 2 + self._log_shortfall(self.rows)
            mean = np.array([(root - math.log(question.prior)) / question.log_range])
        else:
            assert isinstance(question, Curvature)
            mean = np.array([min(2 * self.feature_variance / question.cap - 1, 1.0)])
        error = math.sqrt(ask.randomizer.variance / ask.cohort.size)
        noise = error * self.rng.standard_normal(len(mean))
        return Estimate(mean + noise, np.full(len(mean), error), ask.cohort.size)

    def _residual(self, theta: Floats) -> float:
        """Return the standard deviation of the residuals."""
        off = theta - self.truth
        return math.sqrt(self.feature_variance * float(off @ off) + self.noise**2)

    def _gradient(self, question: Gradient, ask: Ask) -> Floats:
        gradient = self.feature_variance * (question.theta - self.truth)
        if question.residual_bound is not None:  # residuals are clipped, taken for normal
            gradient = gradient * kept(question.residual_bound / self._residual(question.theta))
        else:
            gradient = gradient * self._left(question.theta, ask.randomizer.radius)
        return gradient if question.coordinates is None else gradient[question.coordinates]

    def _log_norm(self, theta: Floats) -> float:
        """Return the mean logarithm of the lengths of users' mean gradients."""
        dim = len(theta)
        gradient = self.feature_variance * (theta - self.truth)
        noise = self.feature_variance * self._residual(theta) ** 2 * dim / self.rows
        square = float(gradient @ gradient) + noise
        rest = noise / square  # of the squared length, that varies
        return math.log(square) / 2 + rest * (
            self._log_shortfall(dim) + self._log_shortfall(self.rows)
        )

    @staticmethod
    def _log_shortfall(degrees: float) -> float:
        """Return the mean logarithm of the root of a chi-square over its degrees of freedom."""
        from scipy.special import digamma

        return float(digamma(degrees / 2) - math.log(degrees / 2)) / 2

    def _left(self, theta: Floats, radius: float) -> float:
        """Return what shortening users' gradients to ``radius`` leaves of their mean.

        The lengths are taken for lognormal, and for independent of how long the part is that
        points where the mean does.
        """
        from scipy.special import ndtr, polygamma

        spread = math.sqrt(
            float(polygamma(1, len(theta) / 2) + polygamma(1, self.rows / 2)) / 4
        )
        longer = (self._log_norm(theta) - math.log(radius)) / spread
        shortened = math.exp(spread**2 / 2 - longer * spread) * ndtr(longer - spread)
        return float(ndtr(-longer) + shortened)
