"""Shares of cells and means of columns from noisy sums over nodes."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp_flower.questions import Moments
from ldp_flower.questions.sums import PRESENCE, SQUARE
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget

# Largest useful standard errors: of a share, and of a mean in units of the column's range.
_CELL_ERROR, _MEAN_ERROR = 0.1, 0.1


@dataclass(frozen=True)
class SumMeans:
    """Means of a number in [0, 1] in some groups, and the share of the users in each group.

    All arrays have the shape (groups,). ``of_users`` has the errors of the means by noise alone,
    and ``errors`` includes the sampling of the users from a population.
    """

    means: Floats
    of_users: Floats
    errors: Floats
    shares: Floats
    share_errors: Floats
    total: "SumMeans | None" = None  # the same for all groups together, if there are several


def ask_means(
    budget: Budget, question: Moments, share: float = 1.0
) -> Generator[Ask, Any, SumMeans]:
    """Ask all users for noisy moments of a number, and return its means by group.

    The number is scaled: 0 is the lower bound, 1 the upper one.
    """
    groups = question.num_cells
    mechanism = budget.ball(3 * groups, question.radius, share)
    found: Estimate = yield budget.ask(question, mechanism)
    moments = found.mean.reshape(3, groups)
    noise, users = float(found.std_error[0]), max(found.count, 1)
    if groups == 1:
        return _means_of(moments, noise, users, 0.5)
    whole = _means_of(moments.sum(axis=1, keepdims=True), math.sqrt(groups) * noise, users)
    return replace(_means_of(moments, noise, users), total=whole)


def _means_of(moments: Floats, noise: float, users: int, middle_share: float = 0.0) -> SumMeans:
    """Return the means from noisy first and second moments and presence, shape (3, groups).

    ``middle_share`` is the share of users present that is reported as 0.
    """
    first, second, held = moments
    shares = held / PRESENCE + middle_share
    part = np.clip(shares, noise, 1.0)
    middle = np.clip(first / part, -0.5, 0.5)
    square = second / SQUARE / part + 0.5
    # First-order errors of ratios whose denominator is noisy, too.
    of_users = noise / part * np.hypot(1.0, middle / PRESENCE)
    of_square = noise / part * np.hypot(1 / SQUARE, (square - 0.5) / PRESENCE)
    mean = middle + 0.5
    variances = np.clip(square - mean**2, 0.0, 0.25)
    variance_errors = np.hypot(of_square, 2 * mean * of_users)
    # The variance is raised by one standard error, so that it is hardly ever too small.
    spread = np.minimum(variances + variance_errors, 0.25)
    return SumMeans(
        means=mean,
        of_users=of_users,
        errors=np.hypot(of_users, np.sqrt(spread / (users * part))),
        shares=shares,
        share_errors=np.hypot(noise / PRESENCE, np.sqrt(part * (1 - part) / users)),
    )


def users_for_cells(epsilon: float, delta: float) -> int:
    """Return how many users on one node give a share an error by noise of 0.1."""
    noise = Budget(epsilon, delta, 1, 1).cells(2, 1.0).variance
    return math.ceil(math.sqrt(noise) / _CELL_ERROR)


def users_for_means(epsilon: float, delta: float, groups: int, columns: int) -> int:
    """Return the number of users on one node with which means of groups have an error of .1.

    The error is by noise, for a group of average size, and in units of the column's range.
    """
    question = Moments(np.zeros(1, np.int64), np.full(int(groups > 1), float(groups)), 0.0, 1.0)
    mechanism = Budget(epsilon, delta, 1, 1).ball(3 * groups, question.radius, 1 / columns)
    return math.ceil(groups * math.sqrt(mechanism.variance) / _MEAN_ERROR)
