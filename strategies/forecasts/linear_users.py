"""What users answer whose targets are a linear function of independent features, plus noise."""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import (
    Gradient,
    LassoFeatures,
    ResidualCoefficients,
    RidgeStep,
    TargetScaleBin,
)
from ldp_flower.planning import Expectation, Setting
from ldp_flower.randomizers import Estimate, SubsetSelection

from ..runtime.exchange import Ask
from ..runtime.features import FeatureStrategy
from ..runtime.result import LinearResult
from .answers import answered, of_bins, of_sets, radius_of
from .ridge_users import RidgeUsers
from .trials import TRIALS, trials

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
R = TypeVar("R", bound=LinearResult)

#: What regressions are judged by; 1 is what returning zero has.
DISTANCE = "distance of the coefficients from the truth, over their length"
_QUALITY = 0.5  # R2 without privacy
_USERS = 50  # who are drawn for a step, to tell where ridge steps point
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
        assert isinstance(question, RidgeStep)
        return answered(ask, self._direction(question), 0.0, self.rng)

    def _direction(self, question: RidgeStep) -> Floats:
        """Return the mean direction of some users' ridge steps, of normal features and noise."""
        shape = (_USERS, round(self.rows))
        features = self.rng.standard_normal((*shape, len(self.truth)))
        targets = features @ self.truth + self.noise * self.rng.standard_normal(shape)
        residual = targets / question.scale - features @ question.theta
        residual = np.clip(residual, -question.residual_bound, question.residual_bound)
        inner = features @ features.transpose(0, 2, 1) + question.ridge * np.eye(shape[1])
        steps = np.einsum(
            "urd,ur->ud", features, np.linalg.solve(inner, residual[..., None])[..., 0]
        )
        lengths = np.maximum(np.linalg.norm(steps, axis=1), np.finfo(float).tiny)
        return np.asarray(np.mean(steps / lengths[:, None], axis=0))

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
        assert question.residual_bound is not None
        mean = self._clipped(theta, question.residual_bound)[wanted]
        return answered(ask, mean, 0.0, self.rng)

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
