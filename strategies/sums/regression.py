"""Linear regression of a table from noisy sums, with its R2 and its mean."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.questions import Moments, ResidualOctave, RidgeMove
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Run, TooFewReports
from . import score
from .budget import Budget
from .descent import STEPS, ask_centres, descend, times_too_few
from .newton import ask_step, noise_of_matrix
from .statistics import ask_means

# Shares of the budget: of the mean features, of the targets' mean.
_MEANS, _TARGETS = 0.1, 0.03
_DESCENT = 1 - _MEANS - _TARGETS - 2 * score.SIZE - score.R2
# Part of the descent's budget by which its model becomes that of least squares, for intervals.
_STEP = 0.7
# Largest noise of the users' matrix, in units of a column's variance, with which a run with
# intervals starts.
_MOST_NOISE = 0.3


@dataclass(frozen=True)
class Regressed:
    """A model of a table: coefficients of features, and its score.

    ``covariance`` is that of the coefficients, if they are those of least squares; NaN if these are
    not known; None if they were not asked for.
    """

    theta: Floats
    score: score.Score
    covariance: Floats | None = None


def too_few(budget: Budget, schema: Schema, intervals: bool = False) -> TooFew | None:
    """Return why users are too few to fit the model and to estimate R2; None if they are enough.

    With ``intervals`` they have to be enough for intervals of the coefficients, too.
    """
    dim, share = schema.num_features, _DESCENT * (1 - _STEP if intervals else 1)
    times = max(score.times_too_few(budget), times_too_few(budget, dim, share))
    what = f"fit {dim} coefficients and to tell R2"
    if intervals:
        columns = 1 + len(identified(schema))
        noise = noise_of_matrix(budget, columns, _DESCENT * _STEP)
        times = max(times, noise / _MOST_NOISE)
        what = f"have intervals of {columns} coefficients"
    return budget.too_few(what, math.ceil(times * budget.users))


def identified(schema: Schema) -> NDArray[np.int64]:
    """Return the indices of the features that identify a model.

    These are all but the constant and, of each column of categories, the last indicator.
    """
    ends = [
        schema.places(name).stop - 1
        for name, kind in schema.columns.items()
        if isinstance(kind, Categories)
    ]
    return np.setdiff1d(np.arange(1, schema.num_features), ends)


def regress(
    run: Run, schema: Schema, delta: float, intervals: bool = False
) -> Generator[Ask, Any, Regressed]:
    """Fit a linear model of the table's target by gradient-like steps, and estimate its R2.

    Every user answers each question, and each node adds noise to its sum. With ``intervals``, one
    more step moves the coefficients to those of least squares, and the result has their covariance
    (NaN if that step failed). Raise TooFewReports if the users are too few.
    """
    budget, dim = Budget.of(run, delta), schema.num_features
    if refusal := too_few(budget, schema, intervals):
        raise TooFewReports(refusal)
    run.planned_steps = STEPS + 5 + intervals
    kind = schema.bounds
    assert isinstance(kind, Numeric)
    low, high = kind.ends
    moments = Moments(np.array([dim]), np.zeros(0), low, high)
    targets, _ = yield from ask_means(budget, moments, _TARGETS)
    present = float(np.clip(targets.share[0], targets.share_error[0], 1.0))
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_centres(budget, dim, length, _MEANS)
    means[0] = 0.0  # the constant stays
    one = np.eye(1, dim)[0]
    # Long rows are shortened, so that a prediction at the mean features need not be the mean.
    mean, mean_error = low + (high - low) * float(targets.mean[0]), float(targets.std_error[0])
    share = _DESCENT * (1 - _STEP if intervals else 1)
    found = yield from descend(budget, mean * one, lambda c: RidgeMove(c, means), share)
    theta = found - (found @ means) * one
    sizes = []
    for model in (theta, mean * one):
        question = ResidualOctave(model, 0.0)
        sizes.append((yield from score.ask_size(budget, question, most=high - low)))
    covariance = None
    if intervals:
        chosen, place = identified(schema), (means, np.ones(dim))
        step = yield from ask_step(budget, (theta, 0.0), place, chosen, sizes[0], _DESCENT * _STEP)
        # The constant where the chosen features have their means is one of all coefficients.
        moves = np.eye(dim)[np.append(chosen, 0)] - np.outer(np.append(means[chosen], 0), one)
        covariance = moves.T @ step.covariance @ moves
        if step.is_known:
            theta = theta + step.move @ moves
        else:
            covariance = np.full_like(covariance, np.nan)
    judged = yield from score.ask_r2(
        *(budget, theta, 0.0, mean, (sizes[0], sizes[1]), present, high - low),
        centre_error=(high - low) * mean_error,
    )
    return Regressed(theta, judged, covariance)
