"""Linear regression of a table from noisy sums, with its R2 and its mean."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import BinShares, ErrorPair, Moments
from ldp_flower.questions.sums import SQUARE
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run
from .budget import Budget
from .descent import REACH, STEPS, ask_means, descend

# Shares of the budget: of the mean features, of the targets' mean and scale, of the score.
_MEANS, _TARGETS, _SCALE, _SCORE = 0.1, 0.03, 0.05, 0.1
_BOUND = 9.0  # of squared errors, in variances of the targets
_BINS, _WITHIN, _NORMAL_WITHIN = 32, 0.75, 1.15  # share of a normal law within 1.15 deviations
_OPTIMISM = 0.015  # largest R2 gained by judging on the users of the model, on unseen tables
_DESCENT = 1 - _MEANS - _TARGETS - _SCALE - _SCORE
_LEAST_REACH = 2.0  # total length of the steps, over their noise, of a model that moves at all
_HIDDEN = 2.0  # errors of the baseline's loss below which a score is not known


@dataclass(frozen=True)
class Moment:
    """The mean of a number over users, its variance over users, and their errors by noise."""

    mean: float
    mean_error: float
    variance: float
    variance_error: float
    present: float  # share of the users who have an entry


@dataclass(frozen=True)
class Regressed:
    """A model of a table: coefficients of features, R2 with its error, the targets' moments."""

    theta: Floats
    score: float
    score_error: float
    target: Moment


def ask_moments(
    cohort: Cohort, budget: Budget, column: int, low: float, high: float, share: float
) -> Generator[Ask, Any, Moment]:
    """Return the moments of one column over the users who have an entry."""
    question = Moments(np.array([column]), np.zeros(0), low, high)
    mechanism = budget.ball(3, question.radius, share)
    found: Estimate = yield Ask(cohort, question, mechanism)
    first, second, held = found.mean
    noise = found.std_error[0]
    present = min(max(held / question.presence + 0.5, noise), 1.0)
    middle, square = first / present, second / SQUARE / present + 0.5
    unit = middle + 0.5
    # First-order errors of the two ratios.
    of_mean = noise / present * math.hypot(1, middle / question.presence)
    of_square = noise / present * math.hypot(1 / SQUARE, (square - 0.5) / question.presence)
    variance = max(square - unit**2, 0.0)
    error = math.hypot(of_square, 2 * unit * of_mean)
    scale = high - low
    return Moment(
        mean=low + scale * min(max(unit, 0.0), 1.0),
        mean_error=scale * of_mean,
        variance=scale**2 * min(variance, 0.25),
        variance_error=scale**2 * error,
        present=present,
    )


def ask_scale(
    cohort: Cohort, budget: Budget, column: int, ends: tuple[float, float], mean: float
) -> Generator[Ask, Any, float]:
    """Return about the standard deviation of a column, from the middle three quarters of it."""
    edges = np.linspace(*ends, _BINS + 1)
    mechanism = budget.cells(_BINS, _SCALE)
    question = BinShares(np.array([column]), edges[1:-1])
    found: Estimate = yield Ask(cohort, question, mechanism)
    far = np.abs((edges[1:] + edges[:-1]) / 2 - mean)
    order = np.argsort(far, kind="stable")
    held = np.cumsum(found.mean[order])
    place = int(np.argmax(held >= _WITHIN * held[-1])) if held[-1] > 0 else len(held) - 1
    width = max(far[order][place], edges[1] - edges[0])
    return float(width / _NORMAL_WITHIN)


def ask_score(
    cohort: Cohort, budget: Budget, theta: Floats, target: Moment, scale: float
) -> Generator[Ask, Any, tuple[float, float]]:
    """Return R2 of a model, and its standard error, over all users; NaN if noise hides it."""
    bound, share = _BOUND * scale**2, _SCORE
    mechanism = budget.ball(2, math.sqrt(0.5), share)
    found: Estimate = yield Ask(cohort, ErrorPair(theta, target.mean, bound), mechanism)
    own, baseline = (found.mean + 0.5 * target.present) * bound
    noise = found.std_error[0] * bound
    if baseline < _HIDDEN * noise:
        return math.nan, math.nan
    ratio = max(own, 0.0) / baseline
    # Squares of normal residuals vary by twice their squared mean; both losses are of one user.
    sampling = 2 * (ratio**2 + ratio**2) / (found.count * target.present)
    error = math.sqrt((noise / baseline) ** 2 * (1 + ratio**2) + sampling)
    return 1 - ratio, math.hypot(error, _OPTIMISM)


def enough(num_users: int, dim: int, epsilon: float, delta: float) -> TooFew | None:
    """Return why so many users of one node are too few; None if they are enough.

    They are if the steps of the descent can add up to a length of 2, over their noise.
    """

    def reach(users: int) -> float:
        return REACH / math.sqrt(dim) * Budget(epsilon, delta, users, 1).signal(_DESCENT)

    if reach(num_users) >= _LEAST_REACH:
        return None
    needed = math.ceil(num_users * _LEAST_REACH / reach(max(num_users, 1)))
    return TooFew(
        f"{num_users:,} users are too few for {dim} features at epsilon {epsilon:g} with noise at "
        "the node: noise would be larger than all steps of the model together.",
        "noise",
        needed,
        advice="K nodes take the square root of K as many.",
    )


def regress(run: Run, schema: Schema, delta: float) -> Generator[Ask, Any, Regressed]:
    """Return the linear model of a table's target."""
    budget, dim = Budget.of(run, delta), schema.num_features
    (cohort,) = run.cohorts([run.num_users])
    run.planned_steps = STEPS + 4
    kind = schema.bounds
    assert isinstance(kind, Numeric)
    low, high = kind.coded([kind.low, kind.high]).tolist()
    target = yield from ask_moments(cohort, budget, dim, low, high, _TARGETS)
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_means(cohort, budget, dim, length, _MEANS)
    means[0] = 0.0  # the constant stays
    start = target.mean * np.eye(1, dim)[0]
    found = yield from descend(cohort, budget, start, means, _DESCENT)
    theta = found - (found @ means) * np.eye(1, dim)[0]
    scale = yield from ask_scale(cohort, budget, dim, (low, high), target.mean)
    score, error = yield from ask_score(cohort, budget, theta, target, scale)
    return Regressed(theta, score, error, target)
