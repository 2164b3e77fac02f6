"""What users answer whose targets are a linear function of independent features, plus noise."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import (
    Curvature,
    Gradient,
    GradientNorm,
    LassoFeatures,
    ResidualCoefficients,
    RootCurvature,
    TargetScaleBin,
)
from ldp_flower.planning import Expectation, Setting
from ldp_flower.randomizers import Estimate, SubsetSelection

from ..runtime.exchange import Ask
from ..runtime.features import FeatureStrategy
from ..runtime.result import LinearResult
from .answers import answered, log_root, of_bins, of_sets, radius_of
from .ridge_users import RidgeUsers
from .trials import TRIALS, trials

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
R = TypeVar("R", bound=LinearResult)

#: What regressions are judged by; 1 is what returning zero has.
DISTANCE = "distance of the coefficients from the truth, over their length"
_QUALITY = 0.5  # R2 without privacy
_USERS = 1000  # who are drawn, to tell how far gradients go
# Of a Lasso: how much less its coefficients tell than correlations with the same number of rows,
# whose columns are not of one size; and what others that enter cost, as a larger penalty. Fitted to
# the votes of 32 populations (3 to 100 rows, 16 to 128 features, R2 .3 and .9, sets of 1 to 16).
_FEW_ROWS = 0.7
_MORE_PENALTY, _OF_ROWS = 0.05, 0.2


def quality_of(setting: Setting) -> float:
    """Return the R2 without privacy that a plan assumes."""
    return _QUALITY if setting.quality is None else setting.quality


def noise_of(quality: float, length: float) -> float:
    """Return the targets' standard deviation given features, by R2 and length of coefficients."""
    return length * math.sqrt((1 - quality) / quality)


def relative_distance(coef: Floats, truth: Floats) -> float:
    """Return the distance from the truth, over its length."""
    return float(np.linalg.norm(coef - truth) / np.linalg.norm(truth))


def planned_length(radius: float, dim: int) -> float:
    """Return how long coefficients within a ball are assumed to be: as long as its radius.

    A single coefficient is half as long: one at its bound would be found without error.
    """
    return radius if dim > 1 else radius / 2


def equal_coefficients(dim: int, sparsity: int, length: float) -> Floats:
    """Return coefficients of which so many are of one size, and the others zero."""
    coef = np.zeros(dim)
    coef[:sparsity] = length / math.sqrt(sparsity)
    return coef


def assumed(sparsity: int, length: float, feature_variance: float, noise: float) -> str:
    """Return who is assumed to answer, in a sentence."""
    return (
        f"{sparsity} coefficients of one size and of length {length:g} in all, independent "
        f"features of mean 0 and mean square {feature_variance:g}, targets that differ by "
        f"{noise:.2g} (standard deviation) given the features."
    )


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
        question = ask.question
        if isinstance(question, Gradient):
            return self._gradient(question, ask)
        if isinstance(question, ResidualCoefficients):
            return self._coefficients(question, ask)
        if isinstance(question, TargetScaleBin):
            scale = self._residual(np.zeros_like(self.truth))
            return of_bins(ask, math.log(scale), self.rows, self.rng)
        if isinstance(ask.randomizer, SubsetSelection):
            return self._sets(ask)
        if isinstance(question, GradientNorm):
            lengths = self._lengths(question.theta, np.arange(len(self.truth)))[1]
            log = float(np.mean(np.log(lengths / question.prior))) / question.log_range
        elif isinstance(question, RootCurvature):
            log = (log_root(self.rows) - math.log(question.prior)) / question.log_range
        else:
            assert isinstance(question, Curvature)
            log = min(2 / question.cap - 1, 1.0)
        return answered(ask, np.array([log]), 0.0, self.rng)

    @property
    def _standardised(self) -> Floats:
        """Sizes of the coefficients, in units of the targets' scale."""
        return np.abs(self.truth) / self._residual(np.zeros_like(self.truth))

    def _sets(self, ask: Ask) -> Estimate:
        """Return how often features are among those that users' own rows show."""
        scores, least = math.sqrt(self.rows) * self._standardised, 0.0
        if isinstance(ask.question, LassoFeatures):
            scores *= 1 - _FEW_ROWS / self.rows
            penalty = ask.question.penalty + _MORE_PENALTY + _OF_ROWS / math.sqrt(self.rows)
            least = penalty * math.sqrt(2 * math.log(len(scores)))
        return of_sets(ask, scores, self.rng, least)

    def _gradient(self, question: Gradient, ask: Ask) -> Estimate:
        theta, wanted = question.theta, question.coordinates
        wanted = np.arange(len(theta)) if wanted is None else wanted
        if question.residual_bound is not None:
            mean = self._clipped(theta, question.residual_bound)[wanted]
            return answered(ask, mean, 0.0, self.rng)
        mean = (theta - self.truth)[wanted]
        along, lengths = self._lengths(theta, wanted)
        factors = np.minimum(1.0, radius_of(ask) / lengths)
        if mean.any():
            mean = mean * float(np.mean(factors * along) / np.mean(along))
        square = float(np.mean((factors * lengths) ** 2))
        spread = max(square - float(mean @ mean), 0.0) / len(mean)
        return answered(ask, mean, spread, self.rng)

    def _clipped(self, theta: Floats, bound: float) -> Floats:
        """Return the mean gradient with residuals that are clipped, features being signs.

        What other features make of a residual is taken for normal.
        """
        from scipy.special import ndtr

        size = math.sqrt(self.feature_variance)
        own = size * (theta - self.truth)
        others = np.sqrt(np.maximum(self._residual(theta) ** 2 - own**2, 1e-300))
        below, above = (-bound - own) / others, (bound - own) / others
        mean = own * (ndtr(above) - ndtr(below)) + bound * (ndtr(-above) - ndtr(below))
        mean += (
            others * (np.exp(-(below**2) / 2) - np.exp(-(above**2) / 2)) / math.sqrt(2 * math.pi)
        )
        return np.asarray(size * mean)

    def _coefficients(self, question: ResidualCoefficients, ask: Ask) -> Estimate:
        """Return ridge coefficients of residuals in units of their own size."""
        scale = self._residual(np.zeros_like(self.truth))
        users = RidgeUsers(self.truth / scale, scale, self.rows)
        return answered(ask, *users.told(question, radius_of(ask)), self.rng)

    def _residual(self, theta: Floats) -> float:
        """Return the standard deviation of the residuals."""
        off = theta - self.truth
        return math.sqrt(self.feature_variance * float(off @ off) + self.noise**2)

    def _lengths(self, theta: Floats, wanted: Integers) -> tuple[Floats, Floats]:
        """Return users' mean gradients: how far they go where their mean points, and how far."""
        off = float(np.linalg.norm((theta - self.truth)[wanted]))
        noise = math.sqrt(max(self._residual(theta) ** 2 - off**2, 0.0))
        root, cross, rest, across = _draws(float(self.rows), len(wanted))
        towards = off * root + noise * cross
        # Squares are added, so that rounding makes none of them negative.
        along, square = root * towards, towards**2 + noise**2 * rest
        return along, np.sqrt(along**2 + square * across)


@lru_cache
def _draws(rows: float, dim: int) -> tuple[Floats, ...]:
    """Draw what a user's mean gradient is made of, for features and noise that are normal.

    With x the features along the mean gradient and e the noise of a user's targets, over the
    root of its rows, that is the length of x, the part of e along x, the square of the rest of
    e, and the squared length of the mean of the other features times the residuals, over the
    residuals' mean square. Users come in pairs whose noise has opposite signs, which leaves the
    mean gradient as it is.
    """
    rng = default_rng(0)
    squares = np.repeat(rng.chisquare(rows, _USERS // 2), 2)
    cross = np.repeat(rng.standard_normal(_USERS // 2), 2)
    cross[1::2] *= -1
    rest = rng.chisquare(rows - 1, _USERS) if rows > 1 else np.zeros(_USERS)
    others = rng.chisquare(dim - 1, _USERS) if dim > 1 else np.zeros(_USERS)
    return (
        np.sqrt(squares / np.mean(squares)),
        cross / math.sqrt(rows),
        rest / rows,
        others / rows,
    )


def expected_of_linear(
    strategy: FeatureStrategy[R],
    num_users: int,
    sparsity: int,
    rows: float,
    scale: float | None,
    quality: float,
    number: int = TRIALS,
) -> Expectation:
    """Return what a protocol makes of targets that a linear model explains to this R2.

    Parameters
    ----------
    strategy : FeatureStrategy
        For a linear model whose features have mean square 1.
    num_users, rows : float
        How many users there are, and rows of each.
    sparsity : int
        Number of coefficients, all of one size.
    scale : float, optional
        Root mean square of the targets; by default any.
    quality : float
        R2 without privacy.
    number : int (default: 33)
        How often the protocol is tried.
    """
    truth = equal_coefficients(strategy.dim, sparsity, math.sqrt(quality))
    noise = math.sqrt(1 - quality)

    def users(rng: np.random.Generator) -> LinearUsers:
        unit = 2 ** rng.uniform() if scale is None else scale  # anywhere in an octave's bins
        return LinearUsers(unit * truth, unit * noise, rng, rows)

    found = trials(
        strategy,
        num_users,
        users,
        lambda result, users: relative_distance(result.coef, users.truth),
        number,
    )
    return found.expectation(
        DISTANCE,
        assumes=(
            f"{sparsity} coefficients of one size, which explain {quality:.0%} of the targets' "
            "variance, and independent features of mean 0 and variance 1.",
        ),
    )
