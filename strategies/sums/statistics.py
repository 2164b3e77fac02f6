"""Shares of cells and means of columns from noisy sums over nodes."""

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from ldp_flower.questions import Moments
from ldp_flower.questions.sums import PRESENCE, SQUARE
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget

# Largest useful standard errors: of a share, and of a mean in units of the column's range.
_CELL_ERROR, _MEAN_ERROR = 0.1, 0.1


class GroupMeans(NamedTuple):
    """Means of a number that is scaled to a public range, in groups of users.

    Each array has the shape (groups,).
    """

    mean: Floats
    std_error: Floats  # standard error of the mean over these users, by noise alone
    population_std_error: Floats  # standard error of the mean over the users' population
    share: Floats  # share of all users in each group
    share_error: Floats  # standard error of the share


def ask_means(
    budget: Budget, question: Moments, share: float = 1.0
) -> Generator[Ask, Any, tuple[GroupMeans, GroupMeans | None]]:
    """Ask all users for noisy moments of a number; return its means by group, and of all groups.

    The number is scaled: 0 is the lower bound, 1 the upper one. The second value is None if there
    is only one group.
    """
    groups = question.num_cells
    mechanism = budget.ball(3 * groups, question.radius, share)
    found: Estimate = yield budget.ask(question, mechanism)
    moments = found.mean.reshape(3, groups)
    noise, users = float(found.std_error[0]), max(found.count, 1)
    if groups == 1:
        return _means_of(moments, noise, users, 0.5), None
    whole = _means_of(moments.sum(axis=1, keepdims=True), math.sqrt(groups) * noise, users)
    return _means_of(moments, noise, users), whole


def _means_of(moments: Floats, noise: float, users: int, middle_share: float = 0.0) -> GroupMeans:
    """Return the means from noisy first and second moments and presence, shape (3, groups).

    ``middle_share`` is the share of users present that is reported as 0.
    """
    first, second, held = moments
    shares = held / PRESENCE + middle_share
    part = np.clip(shares, noise, 1.0)
    middle = np.clip(first / part, -0.5, 0.5)
    square = second / SQUARE / part + 0.5
    # First-order errors of ratios whose denominator is noisy, too.
    std_error = noise / part * np.hypot(1.0, middle / PRESENCE)
    of_square = noise / part * np.hypot(1 / SQUARE, (square - 0.5) / PRESENCE)
    mean = middle + 0.5
    variances = np.clip(square - mean**2, 0.0, 0.25)
    variance_errors = np.hypot(of_square, 2 * mean * std_error)
    # The variance is raised by one standard error, so that it is hardly ever too small.
    spread = np.minimum(variances + variance_errors, 0.25)
    population = np.hypot(std_error, np.sqrt(spread / (users * part)))
    share_errors = np.hypot(noise / PRESENCE, np.sqrt(part * (1 - part) / users))
    return GroupMeans(mean, std_error, population, shares, share_errors)


def users_for_cells(epsilon: float, delta: float) -> int:
    """Return the number of users on one node with which a cell's share has an error of .1.

    The error is by noise. A run with fewer users is refused.
    """
    noise = Budget(epsilon, delta, 1, 1).cells(2, 1.0).variance
    return math.ceil(math.sqrt(noise) / _CELL_ERROR)


def users_for_means(epsilon: float, delta: float, groups: int, columns: int) -> int:
    """Return the number of users on one node with which means of groups have an error of .1.

    The error is by noise, for a group of average size, and in units of the column's range.
    """
    question = Moments(np.zeros(1, np.int64), np.full(int(groups > 1), float(groups)), 0.0, 1.0)
    mechanism = Budget(epsilon, delta, 1, 1).ball(3 * groups, question.radius, 1 / columns)
    return math.ceil(groups * math.sqrt(mechanism.variance) / _MEAN_ERROR)
