"""Losses of a given linear model and of a constant, from one noisy sum over nodes."""

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from ldp_flower.questions import LossMoments
from ldp_flower.questions.sums import SQUARE
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget


class MeanLosses(NamedTuple):
    """Mean losses of a model and of a constant, with the two parts of their covariance."""

    means: Floats  # (2,)
    noise: Floats  # (2, 2): by the noise of the nodes
    sampling: Floats  # (2, 2): as the users are a sample of a population


def ask_losses(
    budget: Budget, theta: Floats, centre: float, bound: float
) -> Generator[Ask, Any, MeanLosses]:
    """Ask all users for noisy sums of two losses; return the losses' means over users.

    A user's loss counts as ``bound`` at most.
    """
    mechanism = budget.ball(5, LossMoments.radius, 1.0)
    found: Estimate = yield budget.ask(LossMoments(theta, centre, bound), mechanism)
    noise, means = float(found.std_error[0]), found.mean[:2] + 0.5
    first, both, second = found.mean[2:] / SQUARE + 0.5
    spread = np.array([[first, both], [both, second]]) - np.outer(means, means)
    # One error up, so that the error of sampling is hardly ever stated too small.
    values, vectors = np.linalg.eigh(spread + noise / SQUARE * np.eye(2))
    sampling = (vectors * np.maximum(values, 0.0)) @ vectors.T / max(found.count, 1)
    return MeanLosses(bound * means, (bound * noise) ** 2 * np.eye(2), bound**2 * sampling)


def too_few(budget: Budget, error: float) -> TooFew | None:
    """Return a TooFew if users are too few to estimate R2, or None.

    They are enough if noise gives a mean loss an error of at most ``error``, in units of its bound.
    """
    times = budget.error(budget.ball(5, LossMoments.radius, 1.0)) / error
    return budget.too_few("tell R2", math.ceil(times * budget.users))
