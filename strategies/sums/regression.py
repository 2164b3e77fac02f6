"""Linear regression of a table from noisy sums, with its R2 and its mean."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import Moments, ResidualOctave, RidgeMove
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Run, TooFewReports
from . import score
from .budget import Budget
from .descent import STEPS, ask_centres, descend, times_too_few
from .statistics import ask_means

# Shares of the budget: of the mean features, of the targets' mean.
_MEANS, _TARGETS = 0.1, 0.03
_DESCENT = 1 - _MEANS - _TARGETS - 2 * score.SIZE - score.R2
_MAX_R2_ERROR = 0.7  # standard error of R2 beyond which a run does not start


@dataclass(frozen=True)
class Regressed:
    """A model of a table: coefficients of features, and R2 with its error."""

    theta: Floats
    score: float
    score_error: float


def too_few(budget: Budget, dim: int) -> TooFew | None:
    """Return why users are too few for a model whose R2 is known; None if they are enough."""
    times = max(score.r2_error(budget) / _MAX_R2_ERROR, times_too_few(budget, dim, _DESCENT))
    what = f"fit {dim} coefficients and to tell R2 within {_MAX_R2_ERROR:g}"
    return budget.too_few(what, math.ceil(times * budget.users))


def regress(run: Run, schema: Schema, delta: float) -> Generator[Ask, Any, Regressed]:
    """Return the linear model of a table's target."""
    budget, dim = Budget.of(run, delta), schema.num_features
    if refusal := too_few(budget, dim):
        raise TooFewReports(refusal)
    (cohort,) = run.cohorts([run.num_users])
    run.planned_steps = STEPS + 5
    kind = schema.bounds
    assert isinstance(kind, Numeric)
    low, high = kind.ends
    moments = Moments(np.array([dim]), np.zeros(0), low, high)
    targets = yield from ask_means(cohort, budget, moments, _TARGETS)
    present = float(np.clip(targets.shares[0], targets.share_errors[0], 1.0))
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_centres(cohort, budget, dim, length, _MEANS)
    means[0] = 0.0  # the constant stays
    one = np.eye(1, dim)[0]
    start = (low + (high - low) * float(targets.means[0])) * one
    found = yield from descend(cohort, budget, start, lambda c: RidgeMove(c, means), _DESCENT)
    theta, centre = found - (found @ means) * one, float(found[0])
    sizes = []
    for model in (theta, centre * one):
        question = ResidualOctave(model, 0.0)
        sizes.append((yield from score.ask_size(cohort, budget, question, most=high - low)))
    r2, error = yield from score.ask_r2(
        *(cohort, budget, theta, 0.0, centre, (sizes[0], sizes[1])), present, high - low
    )
    return Regressed(theta, r2, error)
