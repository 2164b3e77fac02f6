"""One number about users' squared errors, for an evaluation or as a check of a model."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp_flower.guarantee.questions import SquaredErrors
from ldp_flower.randomizers import Codebook, Estimate, RandomizedResponse, Randomizer
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, LinearResult, Run, TooFewReports

_MOST_RADIUS = 6.0  # of a difference, in units of the baseline


@dataclass(frozen=True)
class LossEstimate:
    """A cohort's estimate: ``weights`` times the mean loss and the mean baseline, added up."""

    weights: tuple[float, float]
    value: float
    std_error: float


def number_randomizer(epsilon: float, radius: float) -> Randomizer:
    """Return the mechanism for a number in ``[-radius, radius]``, whichever is less noisy."""
    candidates = (RandomizedResponse(epsilon, radius), Codebook(epsilon, 1, radius))
    return min(candidates, key=lambda mechanism: mechanism.variance)


def clip_radius(epsilon: float, cohort: Cohort, noise: float, least: float) -> float:
    """Return where to clip differences, in units of the baseline.

    As wide as a standard error of ``noise`` allows, within ``least`` and 6: clipping keeps the sign
    of a difference, and hides how bad a model is for users whom it serves worst.
    """
    per_unit = math.sqrt(number_randomizer(epsilon, 1.0).variance / cohort.size)
    return float(np.clip(noise / per_unit, least, _MOST_RADIUS))


def ask_squared_errors(
    cohort: Cohort,
    coef: Floats,
    randomizer: Randomizer,
    weights: tuple[float, float],
    centre: float,
    offset: float = 0.0,
) -> Generator[Ask, Estimate, LossEstimate]:
    """Ask for a weighted sum of the mean squared residual and that of deviations from the centre.

    Clients clip the sum to ``offset`` plus and minus the randomizer's radius.
    """
    answer = yield Ask(cohort, SquaredErrors(coef, centre, *weights, offset), randomizer)
    return LossEstimate(weights, offset + float(answer.mean[0]), float(answer.std_error[0]))


# Where predictions are far off nearly all users say so: their mean is -1, with this standard error.
_ERROR, _SHARE = 0.2, 0.05  # no more than this share of the users is asked
_SURE = 3.0  # standard errors; of models as good as 0 one in 700 gets a note


def checked(
    run: Run, epsilon: float, protocol: Generator[Ask, Any, Any]
) -> Generator[Ask, Any, LinearResult]:
    """Run a protocol that expects features of unit scale; a note says if they surely are not.

    A cohort that has no part in it reports whether the model's squared error is below that of 0.
    """
    share_of_noise = number_randomizer(epsilon, 1.0).variance
    size = math.ceil(min((share_of_noise + 1) / _ERROR**2, _SHARE * run.num_users))
    if size < run.min_reports:
        unchecked: LinearResult = yield from protocol
        return unchecked
    (cohort,) = run.cohorts([size])
    result: LinearResult = yield from protocol
    if not result.coef.any():
        return result
    # Of features of unit scale, this is the mean square of predictions.
    randomizer = number_randomizer(epsilon, float(result.coef @ result.coef))
    question = SquaredErrors(result.coef, 0.0, -1.0, 1.0, 0.0)
    try:
        answer = yield Ask(cohort, question, randomizer)
    except TooFewReports:  # the estimate does not need them
        return result
    if answer.mean[0] + _SURE * answer.std_error[0] >= 0:
        return result
    note = (
        f"The model is worse than predicting 0, by {answer.count:,} people who had no part in it. "
        "Are features centred and of unit scale? PrivateRegression takes any table whose bounds "
        "are known."
    )
    return replace(result, notes=[*result.notes, note])
