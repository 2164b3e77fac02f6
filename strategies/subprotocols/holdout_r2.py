"""R2 of a model, by users who had no part in it."""

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

_SHARE = 0.05  # of the users
# Bounds of a residual, in units of its size: the larger, the noisier, and the less is clipped.
_BOUNDS = (2.0, 3.0, 4.0, 6.0)
_TWICE = 2.0  # what was expected: few users carry the squares of a size that is more
_LEAST, _MOST = 0.005, 0.9  # clipped mean squares, over the bound's, that a size is read off
_MOST_OF_LOG = 5.0  # error of the logarithm of what is left; nothing is known then
_STEP = 0.05  # relative, of a numerical derivative


@dataclass(frozen=True)
class R2:
    """What share of the targets' variance a model explains, with its standard error.

    ``target_size`` is the root of that variance.
    """

    value: float
    error: float
    target_size: float

    @property
    def is_positive(self) -> bool:
        """Whether the model is better than the mean, beyond noise (95 %, one-sided)."""
        return self.value > 1.645 * self.error

    @property
    def is_negative(self) -> bool:
        """Whether it is worse, likewise, by the logarithm of what it leaves."""
        left = 1 - self.value
        return left > 1 and math.log(left) > 1.645 * math.log1p(2 * self.error / left) / 2


_UNKNOWN = R2(math.nan, math.nan, math.nan)
FEW_CARRY = (
    "How much the model explains is not known: few users carry most of it, or users who had no "
    "part in it did not answer. How far its coefficients are off is not known either."
)
_WORSE = (
    "By users who had no part in it the model is worse than the targets' mean (R2 {:.2f}, give or "
    "take {:.2f}): how far its coefficients are off is not known. Are features centred and of unit "
    "scale? PrivateRegression takes any table whose bounds are known."
)


class HoldOut:
    """Users who have no part in a model of a link, and are asked what it leaves."""

    def __init__(self, run: Run, link: str = "identity", rows_per_user: int = 1) -> None:
        self._epsilon, self._link, self._rows = run.epsilon, link, rows_per_user
        self._largest = LINKS[link].largest_score
        users = max(math.ceil(_SHARE * run.num_users), 2 * run.min_reports)
        askers = min(size_askers(run.epsilon), users // 2) if self._largest == math.inf else 0
        *self._askers, self._others = run.cohorts([askers, users - askers] if askers else [users])

    def r2(
        self, theta: Floats, offset: float, mean: float, target_size: float
    ) -> Generator[Ask, Estimate, R2]:
        """Ask how large a model's residuals are, and those of the targets' mean alone.

        First some users tell the octave of the model's, then each of the others both squares,
        clipped where noise and what clipping may hide are least together. Sizes are read off the
        clipped means as those of normal numbers; what clipping hides of Laplace's is in the error.
        Residuals of classes are at most 1, and clipped there. R2 is NaN where few users carry most
        of the squares, or too few answer.

        Parameters
        ----------
        theta, offset
            The model.
        mean, target_size : float
            Of the targets, and how large they are without it.
        """
        try:
            return (yield from self._asked(theta, offset, mean, target_size))
        except TooFewReports:
            return _UNKNOWN

    def judged(
        self, result: Linear, mean: float, target_size: float
    ) -> Generator[Ask, Estimate, Linear]:
        """Return a result with R2; with a note, and no standard errors, if it is below 0 or NaN.

        Unchanged, if too few answer. Parameters are those of :meth:`r2`.
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
            bound = min(_BOUNDS, key=lambda bound: math.hypot(bound**2 * noise, _hidden(bound)))
        constant = predictor(mean, self._link)
        largest, most = (float(bound * size) for size in expected)
        question = ResidualSquares(theta, offset, constant, largest, most, self._link)
        answer = yield Ask(self._others, question, mechanism)
        squares = np.clip(answer.mean + 0.5, _LEAST, _MOST)
        logs, law, steepness = np.log(squares) / 2, 0.0, 1 / (2 * squares)
        if self._askers:
            steps = squares * _STEP
            above, logs, below = (
                np.array([_log_size(square) for square in squares + step])
                for step in (steps, 0.0, -steps)
            )
            law, steepness = _hidden(bound) / 2, (above - below) / (2 * steps)
            surely = np.clip(squares - 2 * answer.std_error, _LEAST, _MOST)
            if max(map(_log_size, surely)) > math.log(_TWICE / bound):
                return _UNKNOWN
        logs += np.log(expected)
        left = math.exp(2 * float(logs[0] - logs[1]))
        # Where nothing is explained, both follow one law, and its share in both cancels.
        errors = np.hypot(steepness * answer.std_error, min(abs(1 - left), 1.0) * law)
        # What is left is known to a factor: two errors of that, upwards, are two of R2.
        of_log = min(2 * float(np.linalg.norm(errors)), _MOST_OF_LOG)
        error = left * math.expm1(2 * of_log) / 2
        return R2(1 - left, error, math.exp(float(logs[1])))


def predictor(mean: float, link: str) -> float:
    """Return the linear predictor of this mean of the targets."""
    far = abs(mean) + 40.0  # no mean is further from its predictor, and no class is nearer 0 or 1
    of_mean = LINKS[link].mean
    return float(brentq(lambda u: float(of_mean(np.array(u))) - mean, -far, far))


def _hidden(bound: float) -> float:
    """Return what clipping hides of the mean square of Laplace's numbers, and not of normal ones.

    They are of mean square 1.
    """
    far = math.sqrt(2) * bound
    return math.exp(-far) * (1 + far) - (1 - bound**2 * clipped_square(bound))


def _log_size(clipped: float) -> float:
    """Return the logarithm of a normal number's size, over its bound, given its clipped square."""
    return -math.log(float(brentq(lambda bound: clipped_square(bound) - clipped, 1e-3, 30.0)))
