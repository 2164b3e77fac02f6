"""R2 of a model on held-out users, who took no part in estimating it."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.optimize import brentq

from ldp_flower.questions import ResidualOctave, ResidualSquares
from ldp_flower.questions.links import LINKS
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.denoising import clipped_square
from ..runtime import Ask, LinearResult, Run, TooFewReports
from .octaves import ask_size, size_askers

Linear = TypeVar("Linear", bound=LinearResult)

_HELD_OUT_SHARE = 0.05  # share of the users who are held out
# Candidate bounds of residuals, in units of their size. A larger bound clips less and adds noise.
_BOUNDS = (2.0, 3.0, 4.0, 6.0)
_ONE_SIDED_95 = 1.645  # 95 % quantile of a normal distribution
# Largest ratio of a size to the expected one. If the ratio is larger, a few users hold most of the
# squares.
_MAX_SIZE_RATIO = 2.0
# Smallest and largest clipped mean square, over the squared bound, from which a size is computed.
_MIN_SQUARE, _MAX_SQUARE = 0.005, 0.9
# Largest error of the logarithm of the unexplained share; R2 is then not known at all.
_MOST_OF_LOG = 5.0
_STEP = 0.05  # relative step of a numerical derivative


@dataclass(frozen=True)
class R2:
    """Share of the targets' variance that a model explains, with its standard error.

    ``target_size`` is the square root of that variance.
    """

    value: float
    error: float
    target_size: float

    @property
    def is_positive(self) -> bool:
        """True if the model is significantly better than the mean target (95 %, one-sided)."""
        return self.value > _ONE_SIDED_95 * self.error

    @property
    def is_negative(self) -> bool:
        """True if the model is significantly worse than the mean (95 %, one-sided).

        The test uses the logarithm of the unexplained share.
        """
        left = 1 - self.value
        return left > 1 and math.log(left) > _ONE_SIDED_95 * math.log1p(2 * self.error / left) / 2


_UNKNOWN = R2(math.nan, math.nan, math.nan)
FEW_CARRY = (
    "How much the model explains is not known: few users have most of the squared residuals, or "
    "held-out users did not answer. The errors of its coefficients are not known either."
)
_WORSE = (
    "On held-out users the model is worse than the targets' mean (R2 {:.2f}, give or take {:.2f}): "
    "the errors of its coefficients are not known. Are features centred and of unit scale? "
    "PrivateRegression takes any table whose bounds are known."
)


class R2HoldOut:
    """Held-out users, who are asked for the residuals of a model with a link function."""

    def __init__(self, run: Run, link: str = "identity", rows_per_user: int = 1) -> None:
        self._epsilon, self._link, self._rows = run.epsilon, link, rows_per_user
        self._largest = LINKS[link].largest_score
        users = max(math.ceil(_HELD_OUT_SHARE * run.num_users), 2 * run.min_reports)
        askers = min(size_askers(run.epsilon), users // 2) if self._largest == math.inf else 0
        *self._askers, self._others = run.cohorts([askers, users - askers] if askers else [users])

    def r2(
        self, theta: Floats, offset: float, mean: float, target_size: float
    ) -> Generator[Ask, Estimate, R2]:
        """Ask the held-out users and return R2, from residuals of a model and of the targets' mean.

        First some users report the octave of the model's residuals. Then each of the others reports
        the squares of both residuals, clipped at the bound that minimises noise and bias of
        clipping together. The sizes are computed from the clipped means as if residuals were
        normal. The standard error includes the bias that clipping would have for a Laplace
        distribution. Residuals of classes are at most 1 and clipped there. R2 is NaN if a few users
        hold most of the squares, or if too few users answer.

        Parameters
        ----------
        theta, offset
            Coefficients and intercept of the model.
        mean, target_size : float
            Mean of the targets, and their root mean square around it.
        """
        try:
            return (yield from self._asked(theta, offset, mean, target_size))
        except TooFewReports:
            return _UNKNOWN

    def with_r2(
        self, result: Linear, mean: float, target_size: float
    ) -> Generator[Ask, Estimate, Linear]:
        """Return the result with R2.

        If R2 is significantly below 0, or NaN, the result has a note and no standard errors. If too
        few users answer, the result is returned unchanged. Other parameters are those of
        :meth:`r2`.
        """
        try:
            r2 = yield from self._asked(result.coef, result.intercept, mean, target_size)
        except TooFewReports:
            return result
        result = replace(result, r2=r2.value, r2_error=r2.error)
        if math.isfinite(r2.value) and not r2.is_negative:
            return result
        known = math.isfinite(r2.value)
        note = _WORSE.format(r2.value, 2 * r2.error) if known else FEW_CARRY
        notes = [*result.notes, note]
        return replace(result, std_error=np.full(len(result.coef), np.nan), notes=notes)

    def _asked(
        self, theta: Floats, offset: float, mean: float, target_size: float
    ) -> Generator[Ask, Estimate, R2]:
        mechanism = ball_codebook(self._epsilon, 2, math.sqrt(0.5))
        expected, bound = np.full(2, self._largest), 1.0
        for cohort in self._askers:
            octave = ResidualOctave(theta, offset, self._link)
            size = yield from ask_size(cohort, octave, self._epsilon, self._rows)
            expected = np.array([size.value, target_size])
            noise = math.sqrt(mechanism.variance / self._others.size)
            bound = min(_BOUNDS, key=lambda bound: math.hypot(bound**2 * noise, _excess(bound)))
        constant = predictor(mean, self._link)
        largest, most = (float(bound * size) for size in expected)
        question = ResidualSquares(theta, offset, constant, largest, most, self._link)
        answer = yield Ask(self._others, question, mechanism)
        squares = np.clip(answer.mean + 0.5, _MIN_SQUARE, _MAX_SQUARE)
        logs, law, steepness = np.log(squares) / 2, 0.0, 1 / (2 * squares)
        if self._askers:
            steps = squares * _STEP
            above, logs, below = (
                np.array([_log_size(square) for square in squares + step])
                for step in (steps, 0.0, -steps)
            )
            law, steepness = _excess(bound) / 2, (above - below) / (2 * steps)
            surely = np.clip(squares - 2 * answer.std_error, _MIN_SQUARE, _MAX_SQUARE)
            if max(map(_log_size, surely)) > math.log(_MAX_SIZE_RATIO / bound):
                return _UNKNOWN
        logs += np.log(expected)
        left = math.exp(2 * float(logs[0] - logs[1]))
        # If nothing is explained, both residuals have the same distribution, and its bias cancels.
        errors = np.hypot(steepness * answer.std_error, min(abs(1 - left), 1.0) * law)
        # The unexplained share has a relative error. Two of these errors upwards count as two
        # standard errors of R2.
        of_log = min(2 * float(np.linalg.norm(errors)), _MOST_OF_LOG)
        error = left * math.expm1(2 * of_log) / 2
        return R2(1 - left, error, math.exp(float(logs[1])))


def predictor(mean: float, link: str) -> float:
    """Return the linear predictor u for which the link's mean of targets is ``mean``."""
    # No mean is further from its predictor, and no mean of classes is nearer 0 or 1.
    far = abs(mean) + 40.0
    of_mean = LINKS[link].mean
    return float(brentq(lambda u: float(of_mean(np.array(u))) - mean, -far, far))


def _excess(bound: float) -> float:
    """Return how much more of the mean square clipping removes for Laplace than for normal numbers.

    Both have mean square 1 before clipping.
    """
    far = math.sqrt(2) * bound
    return math.exp(-far) * (1 + far) - (1 - bound**2 * clipped_square(bound))


def _log_size(clipped: float) -> float:
    """Return the log of the root mean square of normal numbers over the bound that clips them.

    ``clipped`` is the mean of the clipped squares over the squared bound.
    """
    return -math.log(float(brentq(lambda bound: clipped_square(bound) - clipped, 1e-3, 30.0)))
