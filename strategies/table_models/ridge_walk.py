"""The ridge walk: many short steps, each the mean direction of users' own ridge regressions."""

import math
from collections.abc import Generator

import numpy as np

from ldp_flower.guarantee.questions import RidgeStep
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Categories, Schema
from ldp_flower.validation import Floats

from ..runtime.exchange import Ask
from ..runtime.run import Run, TooFewReports

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

    Parameters
    ----------
    run : Run
        Whose users are asked, each with the strategy's ``epsilon``.
    num_users : int
        How many of those not asked yet.
    dim : int
        Number of features; each within about [-2, 2].
    rows_per_user : float or None
        Typical number of a user's rows; None: each user goes by its own.
    row_length : float
        Typical length of a row of features; see :func:`row_length`.
    start : ndarray, shape (dim,)
        Where to begin.

    Raises
    ------
    TooFewReports
        If a step's cohort would be smaller than the strategy's ``min_reports``.
    """
    steps = num_steps(num_users, run.min_reports)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    # In units in which a row of features has about length 1, as its target has.
    unit = 1 / row_length
    signal = math.sqrt(num_users / mechanism.variance)
    length = unit * first_length(signal, steps)
    ridge = RIDGE / unit**2
    pace = 1 + (INTERCEPT - 1) * np.eye(1, dim)[0]
    theta, last = start, np.zeros(dim)
    places = [theta]
    sizes = [num_users // steps + (i < num_users % steps) for i in range(steps)]
    unanswered = False
    for cohort in run.cohorts(sizes):
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
        if _turns_back(answer.mean, last, sigma):
            length *= SHORTER
        theta, last = theta + length * pace * answer.mean, answer.mean
        places.append(theta)
    return np.asarray(np.mean(places[-((steps + 1) // 2) :], axis=0))


def first_length(signal: float, steps: int) -> float:
    """Return the length of a first step, in units in which rows have length 1.

    ``signal`` is the signal to noise ratio of all users together.
    """
    return min(_FARTHEST, min(_MOST, _PER_SIGNAL * signal) / steps)


def num_steps(num_users: int, min_reports: int) -> int:
    """Return how many steps so many users make."""
    return max(1, min(STEPS, num_users // min_reports))


def row_length(schema: Schema) -> float:
    """Return the usual length of a row of features, from what a schema declares.

    Numbers count 1, as within bounds that are not too wide; the indicators of K categories
    together 1 - 1/K.
    """
    kinds = schema.columns.values()
    return math.sqrt(1 + sum(1 - 1 / k.width if isinstance(k, Categories) else 1 for k in kinds))


def _turns_back(direction: Floats, last: Floats, sigma: float) -> bool:
    """Whether users are sent back the way that the last step came, beyond noise."""
    size = float(np.linalg.norm(last))
    return size > 0 and float(direction @ last) / size < -sigma
