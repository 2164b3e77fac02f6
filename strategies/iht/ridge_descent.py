"""Regression by the directions of users' own ridge steps, for users with several records each."""

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
_RIDGE_STEPS = 50  # at most
_RIDGE_CLIP = 2.0  # of residuals, in units of the targets' scale
_LONGEST = 4.0  # of one step, in units in which a row of features has about length 1

# Errors are .9 to 1.5 times the noise of the steps at epsilon 1 and .2 to .6 times at 4, and 1.2 to
# 4.9 times that of the zero: most of them are bias (three designs, six runs each).
_NO_STANDARD_ERRORS = (
    "Standard errors are not known with several records per user: coefficients are too small, by "
    "steps that end too early and by clipping, more than noise changes them."
)


def ridge_descent(
    run: Run, dim: int, rows: int, scale: float, sparsity: int | None, radius: float | None
) -> Generator[Ask, Estimate, LinearResult]:
    """Follow the mean direction, of length 1, in which users' own ridge regressions point.

    The steps are fitted, see :class:`~..numerics.step_sizes.NoisyDescent`: directions have no scale
    that would have to be known, and curvature none that would have to be asked for. The estimate is
    where the mean directions, as a linear function of the positions that they were asked at, are
    zero. With a given sparsity its largest coefficients are kept. Standard errors are not a number,
    for most of the error is bias. Raise TooFewReports if the first cohort does not answer.
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
            if unanswered:  # twice in a row: nodes are lost
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
    result = LinearResult(coef=coef, std_error=noise).doubted()
    return replace(
        result, std_error=np.full(dim, np.nan), notes=[*result.notes, _NO_STANDARD_ERRORS]
    )


def _zero_of(
    positions: Floats, directions: Floats, counts: NDArray[np.int64], longest: float
) -> Floats:
    """Return where mean directions, shape (steps, dim), are zero, by least squares.

    They are taken for ``slope * (zero - position)`` plus noise. Later ones count more, in
    proportion to their number: where little is left to explain, slopes are steeper and residuals
    clipped less. The ``longest`` multiple of a direction is gone along at most.
    """
    weights = counts * np.arange(1, len(counts) + 1)
    weights = weights / weights.sum()
    centre, direction = weights @ positions, weights @ directions
    moved = positions - centre
    turned = -float(weights @ np.sum(moved * directions, axis=1))
    square = float(weights @ np.sum(moved**2, axis=1))
    reach = min(square / turned, longest) if turned > 0 else longest
    return np.asarray(centre + reach * direction)
