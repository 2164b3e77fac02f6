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

from ..runtime import Ask, TooFewReports
from .budget import Budget

STEPS = 40  # number of steps
_AVERAGED = 13  # number of last models, whose mean is the result
# These numbers were measured on eleven tables (prototypes of the design) and judged on nine others.
_LONGEST = 1.5  # longest step; longer steps need not be stable
_REACH = 1.75  # total length of all steps, over the signal-to-noise ratio in one coordinate
_MOST_MOMENTUM = 0.9  # largest momentum
#: Pace of logistic regression.
LOGISTIC = 4.0  # a class's probability changes by a quarter of its log odds at most
_FIRST_CLIP = 0.3  # first clip, in units of the targets
_CLIPPED = (0.02, 0.25)  # smallest and largest wanted share of users whose moves are clipped
_CLIPPED_BY_NOISE = 40.0  # the wanted share times the signal-to-noise ratio, within its limits
_PACE, _FASTEST = 0.15, 0.3  # rate of change of the clip's logarithm, and largest change in a step
_LEAST_REACH = 2.0  # total length of the steps, over their noise, with which a run starts
_TOLD = 0.25  # size of the coordinate that says whether a move was clipped, over the clip


def ask_centres(
    budget: Budget, dim: int, length: float, share: float
) -> Generator[Ask, Any, Floats]:
    """Ask for the users' mean features, by which a descent centres features; return them.

    Each mean is shrunk towards 0 by the part that noise may explain. This does no harm, since any
    centre is valid. ``length`` is the largest length of a user's mean row; longer ones are
    shortened. ``share`` is the share of the run's budget that the question spends.
    """
    mechanism = budget.ball(dim, length, share)
    found: Estimate = yield budget.ask(Mean(np.zeros(dim)), mechanism)
    noise = found.std_error**2
    return found.mean * np.maximum(0.0, 1 - noise / np.maximum(found.mean**2, noise))


def descend(
    budget: Budget,
    start: Floats,
    moves: Callable[[Floats], Question],
    share: float,
    pace: float = 1.0,
    unit: float = 1.0,
) -> Generator[Ask, Any, Floats]:
    """Ask for the users' mean move in each step, and return the fitted coefficients, shape (dim,).

    They are the mean of the last steps' coefficients, which has less noise than each of them.
    ``moves`` is a function from coefficients to the question about users' moves from there. Steps
    are ``pace`` times as long as for least squares. Targets have about the scale ``unit``. A step
    with too few reports is skipped. Raise TooFewReports if the first step has too few.
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
            found: Estimate = yield budget.ask(question, mechanism)
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
    """Return the factor by which the users are too few for a descent; up to 1 they are enough.

    They are enough if the total length of all steps may be at least 2 lengths of their noise.
    """
    return _LEAST_REACH / (_REACH / math.sqrt(dim) * budget.signal(share))
