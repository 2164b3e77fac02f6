"""Descent of a regression: each step follows the mean of the steps that users propose."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.questions import RidgeShift, RidgeShiftOctave
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Cohort, Run, ask_on
from ..runtime.population import fewest_users
from ..subprotocols.scales import enough_for_norm
from ..subprotocols.size_histogram import ask_histogram
from .holdout import held_out

STEPS = 20  # largest number of steps
# Ridge penalty, over a user's number of rows and in units of a row's mean square norm: it counts
# like one more row.
RIDGE = 1.0
RESIDUAL_BOUND = 4.0  # largest possible distance between two targets
# Largest length of one step, and of all steps together, in units in which rows have norm 1. A
# target is within 2 of the middle.
_MAX_STEP, _MAX_PATH = 4.0, 100.0
_PER_SIGNAL = 0.5  # length of all steps over the signal-to-noise ratio of the mean of all users
_LONGER = 2.0  # factor of planned steps, since fitted steps begin with half of the plan
INTERCEPT = 2.0  # factor of the intercept's step over that of slopes
# Shares of the users who report the length of their own steps, at first and again later, and the
# part of the steps after which the second group reports.
_SIZES, _LATE_SIZES, _LATE = 0.02, 0.02, 2 / 3
_USUAL_LENGTH = 0.35  # expected length of users' steps, in units of the targets
# Weight of the squared loss of length by shortening, against the noise. It is small, since a part
# of this loss only makes all slopes smaller, which the line search undoes.
_SHORTENED = 0.1


class RidgeDescent:
    """Descent whose steps follow the mean change that users' own ridge regressions propose.

    Each user's change of the coefficients is shortened to a radius that few changes exceed. Their
    mean is the direction of the next step. ``num_users`` of the users not asked yet answer.
    Features, shape (rows, dim), are each within about [-2, 2], and a row typically has length
    ``row_length``, see :func:`row_length`. Every user counts as having ``rows_per_user`` rows, or
    its own number if that is None. The descent begins at ``start``, shape (dim,). ``present`` is
    the share of the users who have a row.
    """

    def __init__(
        self,
        run: Run,
        num_users: int,
        dim: int,
        rows_per_user: float | None,
        *,
        row_length: float,
        start: Floats,
        present: float = 1.0,
    ) -> None:
        self._epsilon, self._dim, self._rows = run.epsilon, dim, rows_per_user
        self._present = present
        self._unit = unit = 1 / row_length  # in this unit a row has about length 1, like its target
        shares = [_SIZES * num_users, _LATE_SIZES * num_users]
        self._askers = run.cohorts([max(math.ceil(each), run.min_reports) for each in shares])
        self._users = num_users - sum(cohort.size for cohort in self._askers)
        self._cohorts = run.equal_cohorts(self._users, STEPS)
        self._late = round(_LATE * len(self._cohorts))
        self._variance = ball_codebook(run.epsilon, dim, 1.0).variance
        signal = math.sqrt(self._users / self._variance)  # signal to noise ratio of all users
        planned = unit * min(_MAX_STEP, min(_MAX_PATH, _PER_SIGNAL * signal) / len(self._cohorts))
        steps = [_LONGER * planned] * len(self._cohorts)
        self._descent = NoisyDescent(start, steps, _MAX_STEP * unit, fitted=True)
        self._usual, self._radius = _USUAL_LENGTH * unit, 0.0

    def steps(self) -> Generator[Ask, Any, None]:
        """Ask a cohort for the mean of its users' proposed steps, take that step, and repeat.

        Raise TooFewReports if a step's cohort would be smaller than ``min_reports``.
        """
        pace, answered = 1 + (INTERCEPT - 1) * np.eye(1, self._dim)[0], True
        for number, cohort in enumerate(self._cohorts):
            if number in (0, self._late):
                yield from self._shorten(self._askers[bool(number)])
            mechanism = ball_codebook(self._epsilon, self._dim, self._radius)
            shift = RidgeShift(self._descent.position, *self._arguments)
            # Without answers the next cohort gets the question. Twice in a row means lost nodes.
            answer = yield from ask_on(Ask(cohort, shift, mechanism), answered)
            answered = answer is not None
            if answered:
                mean = answer.mean / self._radius
                self._descent.follow(mean, math.sqrt(self._variance / answer.count), pace * mean)

    @property
    def _arguments(self) -> tuple[float, float, float, float, float | None]:
        return RIDGE / self._unit**2, RESIDUAL_BOUND, 0.0, 1.0, self._rows

    def _shorten(self, cohort: Cohort) -> Generator[Ask, Estimate, None]:
        """Ask a cohort, and set the length to which users shorten the steps that they report.

        It balances the noise and the loss of length.
        """
        octave = RidgeShiftOctave(self._descent.position, *self._arguments)
        law = yield from ask_histogram(cohort, octave, self._epsilon, self._usual, self._present)
        self._usual = law.root_mean_square
        noise = self._variance * self._dim / self._users
        self._radius = law.shortening(noise, _SHORTENED)

    @property
    def theta(self) -> Floats:
        """Estimated coefficients: the steps' average, in which late steps weigh more."""
        return self._descent.estimate


def row_length(schema: Schema) -> float:
    """Return the usual length of a row of features, from a schema's declarations.

    In the squared length a numeric column counts 1, which fits bounds that are not too wide. The
    indicators of K categories together count 1 - 1/K.
    """
    kinds = schema.columns.values()
    return math.sqrt(1 + sum(1 - 1 / k.width if isinstance(k, Categories) else 1 for k in kinds))


_COLUMNS = 0.05  # share of the users who report all centres at first
# Largest variance of a useful estimate of a centre: that of a column within its bounds.
_MAX_CENTRE_VARIANCE = 0.25
_TWO_STAGE_USERS = 1000  # smallest number of users for two stages
_COHORTS = 50  # largest number of cohorts, of min_reports users each, that two stages may need
FOR_COLUMNS = 0.2  # largest share of the users who report centres and scales
_DESCENT = 0.1  # smallest share of the users that is left for the descent
METHODS = ("auto", "one-stage", "two-stage")


def noise_of_centres(num_users: int, dim: int, epsilon: float) -> float:
    """Return the variance that noise causes in a column's estimated centre, in bounds' units."""
    return ball_codebook(epsilon, dim, 1.0).variance * dim / (_COLUMNS * num_users)


def better_method(num_users: int, dim: int, epsilon: float, min_reports: int) -> str:
    """Return the better method, from public numbers alone.

    For the table cps with bounds ten times too wide, one stage explains .20 and .24 of the variance
    at epsilon 4 and 8, and two stages .30 and .32 (medians of five splits).
    """
    known = noise_of_centres(num_users, dim, epsilon) <= _MAX_CENTRE_VARIANCE
    enough = num_users >= _TWO_STAGE_USERS and enough_for_two_stages(
        num_users, epsilon, min_reports
    )
    return "two-stage" if known and enough else "one-stage"


def enough_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> bool:
    """Return True if two stages are possible: enough users are left for the second one."""
    left = (1 - FOR_COLUMNS - _DESCENT) * num_users - enough_for_norm(epsilon)
    left -= held_out(num_users, epsilon)
    return left >= 0 and num_users >= _COHORTS * min_reports


def too_few_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> TooFew | None:
    """Return a TooFew if ``num_users`` users are too few for two stages, or None."""

    def refused(users: int) -> bool:
        return not enough_for_two_stages(users, epsilon, min_reports)

    if not refused(num_users):
        return None
    return TooFew(
        f"{num_users:,} users are too few for two stages at epsilon {epsilon:g}: too few would be "
        "left for the second one.",
        "cohorts",
        fewest_users(refused, num_users),
        advice='method="one-stage" needs fewer.',
    )
