"""A hold-out cohort that reports whether a linear model errs more than predicting 0 does."""

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from ldp_flower.guarantee.questions import SquaredErrors

from ..runtime.exchange import Ask
from ..runtime.result import LinearResult
from ..runtime.run import Run, TooFewReports
from .squared_errors import number_randomizer

# Where predictions are far off nearly all users say so: their mean is -1, with this standard error.
_ERROR, _SHARE = 0.2, 0.05  # no more than this share of the users is asked
_SURE = 3.0  # standard errors; of models as good as 0 one in 700 gets a note


def checked(
    run: Run, epsilon: float, protocol: Generator[Ask, Any, Any]
) -> Generator[Ask, Any, LinearResult]:
    """Run a protocol that expects features of unit scale; a note says if they surely are not.

    A cohort has no part in the protocol, and reports whether the model's squared error is less
    than that of predicting 0.
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
