"""Descent of a regression: each step follows the mean of the steps that users propose."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.questions import RidgeShift, RidgeShiftOctave
from ldp_flower.randomizers import ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Run, ask_on
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


def table_descent(
    run: Run,
    dim: int,
    rows_per_user: float | None,
    *,
    row_length: float,
    start: Floats,
    present: float = 1.0,
) -> Generator[Ask, Any, Floats]:
    """Ask all users not asked yet how a model should change, in steps; return its coefficients.

    Each user's proposal is the change of the coefficients by its own ridge regression, shortened to
    a radius that few changes exceed. Their mean is the direction of the next step. The estimate is
    an average of the steps, in which late steps weigh more. Raise TooFewReports if a step's cohort
    would be smaller than ``min_reports``, or if two in a row do not answer.

    rows_per_user: Number of rows that every user counts as having; None means its own number.
    row_length: Typical length of a row of features, see :func:`row_length`.
    start: Coefficients to begin with, shape (dim,).
    present: Share of the users who have a row.
    """
    epsilon, unit = run.epsilon, 1 / row_length  # in this unit a row has about length 1
    num_users = run.num_unasked
    shares = [_SIZES * num_users, _LATE_SIZES * num_users]
    askers = run.cohorts([max(math.ceil(each), run.min_reports) for each in shares])
    users = run.num_unasked
    cohorts = run.equal_cohorts(users, STEPS)
    late = round(_LATE * len(cohorts))
    variance = ball_codebook(epsilon, dim, 1.0).variance
    signal = math.sqrt(users / variance)  # signal to noise ratio of all users
    planned = unit * min(_MAX_STEP, min(_MAX_PATH, _PER_SIGNAL * signal) / len(cohorts))
    steps = [_LONGER * planned] * len(cohorts)
    descent = NoisyDescent(start, steps, _MAX_STEP * unit, fitted=True)
    arguments = RIDGE / unit**2, RESIDUAL_BOUND, 0.0, 1.0, rows_per_user
    pace = 1 + (INTERCEPT - 1) * np.eye(1, dim)[0]
    usual, radius, answered = _USUAL_LENGTH * unit, 0.0, True
    for number, cohort in enumerate(cohorts):
        if number in (0, late):
            # Users report how long their changes are. The radius balances noise and loss of length.
            octave = RidgeShiftOctave(descent.position, *arguments)
            law = yield from ask_histogram(askers[bool(number)], octave, epsilon, usual, present)
            usual = law.root_mean_square
            radius = law.shortening(variance * dim / users, _SHORTENED)
        ask = Ask(
            cohort, RidgeShift(descent.position, *arguments), ball_codebook(epsilon, dim, radius)
        )
        # Without answers the next cohort gets the question. Twice in a row means lost nodes.
        answer = yield from ask_on(ask, answered)
        answered = answer is not None
        if answered:
            mean = answer.mean / radius
            descent.follow(mean, math.sqrt(variance / answer.count), pace * mean)
    return descent.estimate


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
    """Return the variance that noise causes in a column's centre, estimated for two stages.

    It is in units in which a column's bounds are -2 and 2.
    """
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
    """Return True if enough users are left for the descent after centres and scales are known."""
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
