"""What users answer whose targets are a linear function of independent features, plus noise."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Curvature, Gradient, GradientNorm, RootCurvature
from ldp_flower.planning import Setting
from ldp_flower.randomizers import Estimate

from ..numerics.attenuation import kept
from ..runtime.exchange import Ask

Floats = NDArray[np.float64]


#: What regressions are judged by; 1 is what returning zero has.
DISTANCE = "distance of the coefficients from the truth, over their length"
_QUALITY = 0.5  # R2 without privacy
_USERS = 1000  # who are drawn, to tell how far gradients go


def quality_of(setting: Setting) -> float:
    """Return the R2 without privacy that a plan assumes."""
    return _QUALITY if setting.quality is None else setting.quality


def noise_of(quality: float, length: float) -> float:
    """Return the targets' standard deviation given features, by R2 and length of coefficients."""
    return length * math.sqrt((1 - quality) / quality)


def relative_distance(coef: Floats, truth: Floats) -> float:
    """Return the distance from the truth, over its length."""
    return float(np.linalg.norm(coef - truth) / np.linalg.norm(truth))


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
        Mean square of a feature; 1 where residuals are not clipped.
    """

    truth: Floats
    noise: float
    rng: np.random.Generator
    rows: float = 1
    feature_variance: float = 1.0

    def __call__(self, ask: Ask) -> Estimate:
        """Return what a cohort answers."""
        question, spread = ask.question, 0.0
        if isinstance(question, Gradient):
            mean = self.feature_variance * (question.theta - self.truth)
            if question.residual_bound is not None:  # residuals are taken for normal
                mean = mean * kept(question.residual_bound / self._residual(question.theta))
            else:
                left, square = self._shortened(question.theta, ask.randomizer.radius)
                mean = left * mean
                spread = max(square - float(mean @ mean), 0.0) / len(mean)
            mean = mean if question.coordinates is None else mean[question.coordinates]
        elif isinstance(question, GradientNorm):
            lengths = self._lengths(question.theta)[1] / question.prior
            mean = np.array([float(np.mean(np.log(lengths))) / question.log_range])
        elif isinstance(question, RootCurvature):
            root = _log_root(self.rows) - math.log(question.prior)
            mean = np.array([root / question.log_range])
        else:
            assert isinstance(question, Curvature)
            mean = np.array([min(2 / question.cap - 1, 1.0)])
        error = math.sqrt((ask.randomizer.variance + spread) / ask.cohort.size)
        noise = error * self.rng.standard_normal(len(mean))
        return Estimate(mean + noise, np.full(len(mean), error), ask.cohort.size)

    def _residual(self, theta: Floats) -> float:
        """Return the standard deviation of the residuals."""
        off = theta - self.truth
        return math.sqrt(self.feature_variance * float(off @ off) + self.noise**2)

    def _lengths(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return users' mean gradients: how far they go where their mean points, and how far."""
        off = float(np.linalg.norm(theta - self.truth))
        x, both, e, across = _draws(float(self.rows), len(theta))
        along = off * x + self.noise * both
        square = off**2 * x + 2 * off * self.noise * both + self.noise**2 * e
        return along, np.sqrt(along**2 + square * across)

    def _shortened(self, theta: Floats, radius: float) -> tuple[float, float]:
        """Return what shortening users' gradients to ``radius`` leaves of their mean.

        And of their mean square length.
        """
        along, lengths = self._lengths(theta)
        factors = np.minimum(1.0, radius / lengths)
        mean = float(np.mean(along))
        left = float(np.mean(factors * along)) / mean if mean else 1.0
        return left, float(np.mean((factors * lengths) ** 2))


@lru_cache
def _draws(rows: float, dim: int) -> tuple[Floats, ...]:
    """Draw what a user's mean gradient is made of, for features and noise that are normal.

    With x the features along the mean gradient and e the noise of a user's targets, that is the
    means of x**2, x e and e**2 over the user's rows, and the squared length of the mean of the
    other features times the residuals, over the residuals' mean square.
    """
    rng = np.random.default_rng(0)
    squares = rng.chisquare(rows, _USERS)
    cross = rng.standard_normal(_USERS)
    rest = rng.chisquare(rows - 1, _USERS) if rows > 1 else np.zeros(_USERS)
    others = rng.chisquare(dim - 1, _USERS) if dim > 1 else np.zeros(_USERS)
    both = np.sqrt(squares) * cross
    return (
        squares / np.mean(squares),
        (both - np.mean(both)) / rows,
        (cross**2 + rest) / rows,
        others / rows,
    )


def _log_root(rows: float) -> float:
    """Return the mean logarithm of the root mean square of so many normal numbers."""
    from scipy.special import digamma

    return float(digamma(rows / 2) - math.log(rows / 2)) / 2
