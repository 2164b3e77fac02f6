"""Linear regression of a table from noisy sums, with its R2 and its mean."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import BinShares, ErrorPair, Moments, RidgeMove
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run, TooFewReports
from .budget import Budget
from .descent import STEPS, ask_centres, descend, times_too_few
from .statistics import ask_means

# Shares of the budget: of the mean features, of the targets' mean and scale, of the score.
_MEANS, _TARGETS, _SCALE, _SCORE = 0.1, 0.03, 0.05, 0.1
_BOUND = 9.0  # of squared errors, in variances of the targets
_BINS, _WITHIN, _NORMAL_WITHIN = 32, 0.75, 1.15  # share of a normal law within 1.15 deviations
_OPTIMISM = 0.015  # largest R2 gained by judging on the users of the model, on unseen tables
_DESCENT = 1 - _MEANS - _TARGETS - _SCALE - _SCORE
_MAX_R2_ERROR = 1.0  # standard error of R2 beyond which a run does not start
_BASELINE_Z = 2.0  # errors of the baseline's loss below which a score is not known


@dataclass(frozen=True)
class Regressed:
    """A model of a table: coefficients of features, and R2 with its error."""

    theta: Floats
    score: float
    score_error: float


class Centre(NamedTuple):
    """About where a column lies: its mean, its standard deviation, the share that has an entry."""

    mean: float
    scale: float
    present: float


def ask_centre(
    cohort: Cohort, budget: Budget, column: int, ends: tuple[float, float]
) -> Generator[Ask, Any, Centre]:
    """Return about where a column lies; the scale is from the middle three quarters of it."""
    question = Moments(np.array([column]), np.zeros(0), *ends)
    moments = yield from ask_means(cohort, budget, question, _TARGETS)
    mean = ends[0] + (ends[1] - ends[0]) * float(moments.means[0])
    edges = np.linspace(*ends, _BINS + 1)
    mechanism = budget.cells(_BINS, _SCALE)
    found: Estimate = yield Ask(cohort, BinShares(np.array([column]), edges[1:-1]), mechanism)
    far = np.abs((edges[1:] + edges[:-1]) / 2 - mean)
    order = np.argsort(far, kind="stable")
    held = np.cumsum(found.mean[order])
    place = int(np.argmax(held >= _WITHIN * held[-1])) if held[-1] > 0 else len(held) - 1
    width = max(far[order][place], edges[1] - edges[0])
    present = float(np.clip(moments.shares[0], moments.share_errors[0], 1.0))
    return Centre(mean, float(width / _NORMAL_WITHIN), present)


def ask_r2(
    cohort: Cohort, budget: Budget, theta: Floats, centre: Centre
) -> Generator[Ask, Any, tuple[float, float]]:
    """Return R2 of a model, and its standard error, over all users; NaN if noise hides it."""
    bound = _BOUND * centre.scale**2
    mechanism = budget.ball(2, math.sqrt(0.5), _SCORE)
    found: Estimate = yield Ask(cohort, ErrorPair(theta, centre.mean, bound), mechanism)
    own, baseline = (found.mean + 0.5 * centre.present) * bound
    noise = found.std_error[0] * bound
    if baseline < _BASELINE_Z * noise:
        return math.nan, math.nan
    ratio = max(own, 0.0) / baseline
    # Squares of normal residuals vary by twice their squared mean; both losses are of one user.
    sampling = 2 * (ratio**2 + ratio**2) / (found.count * centre.present)
    error = math.sqrt((noise / baseline) ** 2 * (1 + ratio**2) + sampling)
    return 1 - ratio, math.hypot(error, _OPTIMISM)


def too_few(budget: Budget, dim: int) -> TooFew | None:
    """Return why users are too few for a model whose R2 is known; None if they are enough."""
    error = _BOUND * budget.error(budget.ball(2, math.sqrt(0.5), _SCORE))
    times = max(error / _MAX_R2_ERROR, times_too_few(budget, dim, _DESCENT))
    what = f"fit {dim} coefficients and to tell R2 within {_MAX_R2_ERROR:g}"
    return budget.too_few(what, math.ceil(times * budget.users))


def regress(run: Run, schema: Schema, delta: float) -> Generator[Ask, Any, Regressed]:
    """Return the linear model of a table's target."""
    budget, dim = Budget.of(run, delta), schema.num_features
    if refusal := too_few(budget, dim):
        raise TooFewReports(refusal)
    (cohort,) = run.cohorts([run.num_users])
    run.planned_steps = STEPS + 4
    kind = schema.bounds
    assert isinstance(kind, Numeric)
    centre = yield from ask_centre(cohort, budget, dim, kind.ends)
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_centres(cohort, budget, dim, length, _MEANS)
    means[0] = 0.0  # the constant stays
    start = centre.mean * np.eye(1, dim)[0]
    found = yield from descend(cohort, budget, start, lambda c: RidgeMove(c, means), _DESCENT)
    theta = found - (found @ means) * np.eye(1, dim)[0]
    score, error = yield from ask_r2(cohort, budget, theta, centre)
    return Regressed(theta, score, error)
