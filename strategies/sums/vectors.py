"""The mean of users' vectors in a ball, from one noisy sum over nodes."""

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from ldp_flower.questions import MeanAndSquares
from ldp_flower.questions.sums import FLAG, SQUARE
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget


class MeanVector(NamedTuple):
    """The mean of users' vectors, its errors, and the share of shortened vectors with its error."""

    mean: Floats
    std_error: Floats
    shortened: float
    shortened_error: float


def ask_mean_vector(budget: Budget, dim: int, bound: float) -> Generator[Ask, Any, MeanVector]:
    """Return the mean of the users' mean rows, each of them shortened to the length ``bound``.

    Errors include that the users are a sample of a population.
    """
    mechanism = budget.ball(2 * dim + 2, MeanAndSquares.radius, 1.0)
    found: Estimate = yield budget.ask(MeanAndSquares(bound), mechanism)
    noise, users = float(found.std_error[0]), max(found.count, 1)
    first, second = found.mean[:dim], found.mean[dim : 2 * dim] / SQUARE
    within, beyond = np.maximum(found.mean[2 * dim :], 0.0) / FLAG
    present = max(within + beyond, noise / FLAG, 1 / users)
    mean = first / present
    # The noise of the number of users with rows moves the mean, too.
    of_users = noise / present * np.hypot(1.0, mean / FLAG)
    variance_error = noise / present * np.hypot(1 / SQUARE, 2 * mean)
    # The variances are raised by one standard error, so that they are hardly ever too small.
    variances = np.maximum(second / present - mean**2, 0.0) + variance_error
    sampling = np.sqrt(np.minimum(variances, 1.0) / (users * present))
    return MeanVector(
        mean=bound * mean,
        std_error=bound * np.hypot(of_users, sampling),
        shortened=min(beyond / present, 1.0),
        shortened_error=math.hypot(1.0, beyond / present) * noise / FLAG / present,
    )
