"""Descent along the directions of users' ridge regressions, for users with several records."""

import math
from collections.abc import Generator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import RidgeStep
from ldp_flower.questions.sparse import keep_largest, project_on_ball
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, LinearResult, Run, TooFewReports

# Of 20, 35 and 50 steps, planned lengths of 1 to 2 signals, penalties of .3 and 1 and clips of 1 to
# 4, no other was better throughout (7 designs, epsilon 1 to 4); a scale off by 2 costs little.
_RIDGE_STEPS = 50  # largest number of steps
_RIDGE_CLIP = 2.0  # bound at which residuals are clipped, in units of the targets' scale
_LONGEST = 4.0  # longest step, in units in which a row of features has about length 1

# Errors are .9 to 1.5 times the noise of the steps at epsilon 1 and .2 to .6 times at 4, and 1.2 to
# 4.9 times the noise of the zero: most of the error is bias (three designs, six runs each).
_NO_STANDARD_ERRORS = (
    "Standard errors are not known with several records per user: coefficients are too small since "
    "steps end too early and residuals are clipped, and this bias is larger than the noise."
)


def ridge_descent(
    run: Run, dim: int, rows: int, scale: float, sparsity: int | None, radius: float | None
) -> Generator[Ask, Estimate, LinearResult]:
    """Follow the users' mean direction of descent and return the coefficients.

    A user reports the direction, a vector of length 1, of a ridge regression of its own residuals.
    The lengths of the steps are fitted, see :class:`~..numerics.step_sizes.NoisyDescent`, so that
    neither a scale nor a curvature must be known. The mean directions are taken as a linear
    function of the positions at which they were reported. The estimate is the zero of this
    function. With a given sparsity only the largest coefficients are kept. Standard errors are NaN,
    since most of the error is bias. Raise TooFewReports if the first cohort does not answer.
    """
    users = run.num_unasked
    cohorts = run.equal_cohorts(users, _RIDGE_STEPS)
    mechanism = ball_codebook(run.epsilon, dim, 1.0)
    planned = min(_LONGEST, math.sqrt(users / mechanism.variance) / len(cohorts))
    descent = NoisyDescent(np.zeros(dim), [planned] * len(cohorts), _LONGEST, fitted=True)
    unit = math.sqrt(dim)  # length of a row of features
    positions: list[Floats] = []
    directions: list[Floats] = []
    counts: list[int] = []
    unanswered = False
    for cohort in cohorts:
        question = RidgeStep(descent.position / unit, unit**2, _RIDGE_CLIP, 0.0, scale, rows)
        try:
            answer = yield Ask(cohort, question, mechanism)
        except TooFewReports:
            if not counts:
                raise
            if unanswered:  # the second failure in a row: nodes are lost
                break
            unanswered = True
            continue  # the next cohort gets the question
        unanswered = False
        positions.append(descent.position)
        directions.append(answer.mean)
        counts.append(answer.count)
        descent.follow(answer.mean, math.sqrt(mechanism.variance / answer.count), answer.mean)
    estimate = _zero_of(
        np.array(positions), np.array(directions), np.array(counts), sum(descent.steps)
    )
    coef = scale / unit * estimate
    if sparsity is not None:
        coef = keep_largest(coef, sparsity)
    noise = np.where(coef != 0, scale / unit * descent.noise, 0.0)
    if radius is not None:
        coef = project_on_ball(coef, radius)
    result = LinearResult(coef=coef, std_error=noise).with_significance_note()
    return replace(
        result, std_error=np.full(dim, np.nan), notes=[*result.notes, _NO_STANDARD_ERRORS]
    )


def _zero_of(
    positions: Floats, directions: Floats, counts: NDArray[np.int64], longest: float
) -> Floats:
    """Return the position at which the mean directions are zero, by least squares.

    ``positions`` and ``directions`` have the shape (steps, dim). The model of a direction is
    ``slope * (zero - position)`` plus noise. The weight of a step is proportional to its number,
    since near the zero slopes are steeper and fewer residuals are clipped. The result is at most
    ``longest`` times the mean direction away from the mean position.
    """
    weights = counts * np.arange(1, len(counts) + 1)
    weights = weights / weights.sum()
    centre, direction = weights @ positions, weights @ directions
    moved = positions - centre
    turned = -float(weights @ np.sum(moved * directions, axis=1))
    square = float(weights @ np.sum(moved**2, axis=1))
    reach = min(square / turned, longest) if turned > 0 else longest
    return np.asarray(centre + reach * direction)
