"""The typical norm of users' vectors, estimated from a small cohort."""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from ldp_flower.guarantee.questions import Question
from ldp_flower.randomizers import Estimate

from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.run import Run
from .squared_errors import number_randomizer

_LOG_RANGE = math.log(16)  # a norm lies within this factor of its prior
_USERS_VARIANCE = 0.5  # of the logarithms of users' norms
_ERROR = 0.4  # wanted standard deviation of the logarithm
_MOST_SHARE = 0.12  # of all users


@dataclass(frozen=True)
class Norm:
    """The geometric mean of users' norms and the standard error of its logarithm."""

    value: float
    log_error: float


def norm_askers(run: Run, epsilon: float) -> int:
    """Return how many of a strategy's users to ask for a norm."""
    most = int(_MOST_SHARE * run.num_users)
    return max(min(most, enough_for_norm(epsilon)), run.min_reports)


def enough_for_norm(epsilon: float) -> int:
    """Return how many users estimate a norm well enough."""
    variance = _LOG_RANGE**2 * number_randomizer(epsilon, 1.0).variance + _USERS_VARIANCE
    return math.ceil(variance / _ERROR**2)


def estimate_norm(
    cohort: Cohort, epsilon: float, question: Callable[[float, float], Question], prior: float
) -> Generator[Ask, Estimate, Norm]:
    """Ask a cohort for the typical norm of its users' vectors.

    ``question`` asks for log(norm / prior) / log_range, given these two; ``prior`` is the norm
    that is expected, and what is returned if nobody answers.
    """
    randomizer = number_randomizer(epsilon, 1.0)
    answer = yield Ask(cohort, question(prior, _LOG_RANGE), randomizer, min_reports=0)
    log = _LOG_RANGE * float(np.clip(answer.mean[0], -1, 1))
    return Norm(prior * math.exp(log), _LOG_RANGE * float(answer.std_error[0]))
