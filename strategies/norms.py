"""The typical norm of users' vectors, bought from a small cohort."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from ldp_flower.randomizers import Estimate

from .base import LdpStrategy
from .exchange import Ask
from .question import Question
from .squared_errors import number_randomizer

_LOG_RANGE = math.log(16)  # a norm lies within this factor of its prior
_USERS_VARIANCE = 0.5  # of the logarithms of users' norms
_ERROR = 0.4  # wanted standard deviation of the logarithm
_MOST_SHARE = 0.12  # of all users


def buy_norm(
    strategy: LdpStrategy[Any], epsilon: float, question: Question, prior: float
) -> Generator[Ask, Estimate, float]:
    """Ask a small cohort for the geometric mean of users' norms.

    Parameters
    ----------
    strategy : LdpStrategy
        Whose users are asked.
    epsilon : float
        Privacy parameter of each user's one report.
    question : Question
        Names the statistic, log(norm / ``centre``) / ``log_range``, and its arrays.
    prior : float
        The norm that is expected.
    """
    randomizer = number_randomizer(epsilon, 1.0)
    wanted = (_LOG_RANGE**2 * randomizer.variance + _USERS_VARIANCE) / _ERROR**2
    size = min(int(_MOST_SHARE * strategy.num_users), math.ceil(wanted))
    (cohort,) = strategy.cohorts([max(size, strategy.min_reports)])
    params = {**question.params, "centre": prior, "log_range": _LOG_RANGE}
    answer = yield Ask(cohort, question.statistic, randomizer, question.arrays, params)
    return prior * math.exp(_LOG_RANGE * float(np.clip(answer.mean[0], -1, 1)))
