"""Descent by noisy sums: a linear model that follows the mean of users' own ridge regressions.

Every user answers every step. The budget is split evenly over the steps. A step's length, its
momentum and the clip follow from the noise, by the rules below.
"""

import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from ldp_flower.questions import Mean, Question, Shortened
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, TooFewReports
from .budget import Budget

STEPS = 40
_AVERAGED = 13  # last models, whose mean is the result
# Measured on eleven tables (prototypes of the design), judged on nine others.
_LONGEST = 1.5  # a longer step need not be stable: users' moves are at most as long as residuals
_REACH = 1.75  # of the total length of all steps, over signal to noise in one coordinate
_MOST_MOMENTUM = 0.9
#: Pace of logistic regression.
LOGISTIC = 4.0  # a class's probability changes by a quarter of its log odds at most
_FIRST_CLIP = 0.3  # in units of the targets
_CLIPPED = (0.02, 0.25)  # share of users whose moves are clipped, at least and at most
_CLIPPED_BY_NOISE = 40.0
_PACE, _FASTEST = 0.15, 0.3  # of the logarithm of the clip
_LEAST_REACH = 2.0  # total length of the steps, over their noise, with which a run starts
_TOLD = 0.25  # of the clip: the coordinate that says whether a move was clipped


def ask_centres(
    cohort: Cohort, budget: Budget, dim: int, length: float, share: float
) -> Generator[Ask, Any, Floats]:
    """Return the users' mean features, shrunk by their noise; any centre is valid.

    ``length`` is the length beyond which a user's mean row is shortened.
    """
    mechanism = budget.ball(dim, length, share)
    found: Estimate = yield Ask(cohort, Mean(np.zeros(dim)), mechanism)
    noise = found.std_error**2
    return found.mean * np.maximum(0.0, 1 - noise / np.maximum(found.mean**2, noise))


def descend(
    cohort: Cohort,
    budget: Budget,
    start: Floats,
    moves: Callable[[Floats], Question],
    share: float,
    pace: float = 1.0,
    unit: float = 1.0,
) -> Generator[Ask, Any, Floats]:
    """Return the coefficients after all steps, shape (dim,).

    ``moves`` is a function from coefficients to the question about users' moves from there. Steps
    are ``pace`` times as long as those of least squares. Targets have about the scale ``unit``.
    Steps that lack reports are left out. Raise TooFewReports if the first one does.
    """
    dim = len(start)
    signal = budget.signal(share)
    reach = _REACH / math.sqrt(dim) * signal
    eta = pace * min(_LONGEST, reach / STEPS)
    momentum = min(max(1 - STEPS * _LONGEST / reach, 0.0), _MOST_MOMENTUM)
    clipped = min(max(_CLIPPED_BY_NOISE / signal, _CLIPPED[0]), _CLIPPED[1])
    theta, velocity, clip = start, np.zeros(dim), unit * _FIRST_CLIP
    models = []
    for step in range(STEPS):
        question = Shortened(moves(theta), clip, _TOLD * clip)
        mechanism = budget.ball(dim + 1, clip * math.hypot(1, _TOLD), share, STEPS)
        try:
            found: Estimate = yield Ask(cohort, question, mechanism)
        except TooFewReports:
            if not step:
                raise
            continue
        velocity = momentum * velocity + eta * found.mean[:-1]
        theta = theta + velocity
        models.append(theta)
        beyond = (1 - found.mean[-1] / (_TOLD * clip)) / 2
        clip *= math.exp(min(max(_PACE * (beyond / clipped - 1), -_FASTEST), _FASTEST))
    return np.asarray(np.mean(models[-_AVERAGED:], axis=0))


def times_too_few(budget: Budget, dim: int, share: float) -> float:
    """Return how many times as many users a descent takes, at least; below 1 they are enough.

    They are if the steps can add up to a length of 2 before noise is as long as they are.
    """
    return _LEAST_REACH / (_REACH / math.sqrt(dim) * budget.signal(share))
