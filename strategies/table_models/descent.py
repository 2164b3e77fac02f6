"""The descent of a regression: steps in the mean direction of users' own, in one stage or two."""

import math
from bisect import bisect_left
from collections.abc import Generator
from typing import Any

import numpy as np

from ldp_flower.guarantee.questions import RidgeStep
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Categories, Schema
from ldp_flower.validation import Floats

from ..runtime import Ask, Run, TooFewReports
from ..subprotocols.one_number import enough_for_norm
from ..tables.standardisation import estimate_standardisation, with_standardisation
from .holdout import ask_line, ask_scales, held_out, hold_out

STEPS = 20  # at most
RIDGE = 1.0  # over a user's number of rows, in units of a row's mean square norm: as one row more
RESIDUAL_BOUND = 1.0  # half of the farthest from the middle that a target can be
# Of one step and of all, in units in which rows have norm 1: a target is within 2 of the middle.
_FARTHEST, _MOST = 4.0, 100.0
# Mean R2 against these, of 14 tables of simulations/studies/unseen_tables/chosen_on.txt at epsilon
# 1 and 4, seed 6300, standard errors about .01: _PER_SIGNAL .25 -.03, 1 -.02; INTERCEPT 1 and 4
# -.01; SHORTER .5 -.02, 1 +.02 (of few tables; the median is the same); 40 steps -.02, 10 the same.
_PER_SIGNAL = 0.5  # size of all steps, over the signal to noise ratio of all users together
INTERCEPT = 2.0  # how many times as far as slopes the intercept moves
SHORTER = 0.7  # what steps are multiplied by once one turns back


def ridge_walk(
    run: Run,
    num_users: int,
    dim: int,
    rows_per_user: float | None,
    *,
    row_length: float,
    start: Floats,
) -> Generator[Ask, Estimate, Floats]:
    """Return coefficients of the features: where a walk leads, in the mean of its second half.

    Every step's cohort is asked for the direction, of length 1, in which each user's own ridge
    regression would move the current coefficients. The mean of these is the next step. There is
    no scale to learn: only directions are reported.

    So many of the users who are not asked yet answer. Features, shape (rows, dim), are each within
    about [-2, 2]; a row of them is typically ``row_length`` long, see :func:`row_length`. A user's
    number of rows is taken for ``rows_per_user``; None: for what it is. The walk begins at
    ``start``, shape (dim,). Raise TooFewReports if a step's cohort would be smaller than
    ``min_reports``.
    """
    cohorts = run.equal_cohorts(num_users, STEPS)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    # In units in which a row of features has about length 1, as its target has.
    unit = 1 / row_length
    signal = math.sqrt(num_users / mechanism.variance)  # over noise, of all users together
    length = unit * min(_FARTHEST, min(_MOST, _PER_SIGNAL * signal) / len(cohorts))
    ridge = RIDGE / unit**2
    pace = 1 + (INTERCEPT - 1) * np.eye(1, dim)[0]
    theta, last = start, np.zeros(dim)
    places = [theta]
    unanswered = False
    for cohort in cohorts:
        question = RidgeStep(theta, ridge, RESIDUAL_BOUND, 0.0, 1.0, rows_per_user)
        try:
            answer = yield Ask(cohort, question, mechanism)
        except TooFewReports:
            if unanswered:  # twice in a row: nodes are lost, and the run can be started again
                raise
            unanswered = True
            continue  # the next cohort gets the question
        unanswered = False
        sigma = math.sqrt(mechanism.variance / answer.count)
        size = float(np.linalg.norm(last))
        if size > 0 and float(answer.mean @ last) / size < -sigma:
            length *= SHORTER  # beyond noise, users are sent back the way that the last step came
        theta, last = theta + length * pace * answer.mean, answer.mean
        places.append(theta)
    return np.asarray(np.mean(places[-((len(cohorts) + 1) // 2) :], axis=0))


def row_length(schema: Schema) -> float:
    """Return the usual length of a row of features, from what a schema declares.

    Numbers count 1, as within bounds that are not too wide; the indicators of K categories
    together 1 - 1/K.
    """
    kinds = schema.columns.values()
    return math.sqrt(1 + sum(1 - 1 / k.width if isinstance(k, Categories) else 1 for k in kinds))


FIRST = 0.2  # share of the users who walk before columns' centres and scales are known
_COLUMNS = 0.05  # share of the users who report all centres at first
_WORTH = 0.25  # variance of a centre up to which it helps: that of a column within its bounds
_FEWEST = 1000  # users of two stages
_COHORTS = 50  # of min_reports users each, that all questions of two stages may take
FOR_COLUMNS = 0.3  # share of the users that report centres and scales at most
_SECOND = 0.1  # share of the users that is left for the second stage at least
PRIOR_STEP = 0.7, 0.4  # from the first stage's end to the second's, and how that varies
METHODS = ("auto", "walk", "two-stage")


def noise_of_centres(num_users: int, dim: int, epsilon: float) -> float:
    """Return the variance of a column's estimated centre, in units of its bounds."""
    return ball_codebook(epsilon, dim, 1.0).variance * dim / (_COLUMNS * num_users)


def chosen(num_users: int, dim: int, epsilon: float, min_reports: int) -> str:
    """Return the better method by public numbers alone.

    Of the table cps with bounds ten times too wide the walk alone explains .20 and .24 of the
    variance at epsilon 4 and 8, two stages .30 and .32 (medians of five splits).
    """
    known = noise_of_centres(num_users, dim, epsilon) <= _WORTH
    enough = num_users >= _FEWEST and enough_for_two_stages(num_users, epsilon, min_reports)
    return "two-stage" if known and enough else "walk"


def enough_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> bool:
    """Whether enough users are left for the second stage."""
    kept = held_out(num_users, epsilon, two_stages=True)
    left = (1 - FIRST - FOR_COLUMNS - _SECOND) * num_users - enough_for_norm(epsilon) - kept
    return left >= 0 and num_users >= _COHORTS * min_reports


def too_few_for_two_stages(num_users: int, epsilon: float, min_reports: int) -> str:
    """Return why so many users are too few for two stages; nothing if they are not."""
    if enough_for_two_stages(num_users, epsilon, min_reports):
        return ""
    most = 2 * num_users
    while not enough_for_two_stages(most, epsilon, min_reports):
        most *= 2
    each = range(num_users, most)
    needed = each[
        bisect_left(each, True, key=lambda n: enough_for_two_stages(n, epsilon, min_reports))
    ]
    return (
        f"{num_users:,} users are too few for two stages at epsilon {epsilon:g}: the second would "
        f"lack them. At least {needed:,} users are needed, "
        'or method="walk".'
    )


def two_stages(
    run: Run, schema: Schema, rows_per_user: float | None, start: Floats
) -> Generator[Ask, Any, Floats]:
    """Return coefficients of the schema's features, from all users not asked yet.

    The first stage walks within the bounds. Then columns' centres and scales are estimated, and
    the second stage goes on in units of these: where bounds are much wider than what columns
    hold, the first one gets nowhere. A hold-out cohort estimates the step along the second.
    """
    dim, epsilon = schema.num_features, run.epsilon
    (scale_users,), (line,) = hold_out(run, "stage scales"), hold_out(run, "stage moments")
    length, walkers = row_length(schema), int(FIRST * run.num_users)
    first = yield from ridge_walk(run, walkers, dim, rows_per_user, row_length=length, start=start)
    columns = yield from estimate_standardisation(run, schema)
    start = columns.moved(first)
    walk = ridge_walk(run, run.num_unasked, dim, rows_per_user, row_length=length, start=start)
    second = yield from with_standardisation(walk, columns)
    direction = columns.restored(second) - first
    scales = yield from ask_scales(scale_users, epsilon, first, direction)
    moments = yield from ask_line(line, epsilon, first, direction, scales)
    step = float(np.clip(moments.best_step(*PRIOR_STEP), 0.0, 1.0))
    return np.asarray(first + step * direction)
