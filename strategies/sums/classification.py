"""Logistic regression of a table with two classes from noisy sums, with its AUC."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Schema
from ldp_flower.questions import CellShares, Ranking
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.two_normals import Ranked, ranked
from ..runtime import Ask, Cohort, Run, TooFewReports
from .budget import Budget
from .descent import STEPS, ask_centres, descend, times_too_few
from .statistics import ask_cells

# Shares of the budget: of the mean features, of the classes, of the scores.
_MEANS, _CLASSES, _SCORES = 0.1, 0.03, 0.1
_DESCENT = 1 - _MEANS - _CLASSES - _SCORES
_UNKNOWN = 0.25  # standard error of the AUC beyond which a run does not start
_LEAST = 0.01  # of a class's share, where its noise could take it to 0


@dataclass(frozen=True)
class Classified:
    """A logistic model: coefficients, the share of the second class, the AUC, with their errors."""

    theta: Floats
    share: float
    share_error: float
    auc: float
    auc_error: float


def ask_auc(
    cohort: Cohort, budget: Budget, theta: Floats, share: float
) -> Generator[Ask, Any, Ranked]:
    """Return the AUC of a model over all users' rows, as if both classes' scores were normal.

    ``theta`` is such that the mean score is 0. One number is asked for, which needs the least
    noise: how much more often rows of the class score above the mean than other rows do.
    """
    mechanism = budget.ball(1, max(share, 1 - share), _SCORES)
    found: Estimate = yield Ask(cohort, Ranking(theta, 1.0, share, 2), mechanism)
    sampling = math.sqrt(share * (1 - share) / max(found.count, 1))
    return ranked(float(found.mean[0]), math.hypot(float(found.std_error[0]), sampling), share)


def too_few(budget: Budget, dim: int) -> TooFew | None:
    """Return why users are too few for a model whose AUC is known; None if they are enough."""
    error = 2 * budget.error(budget.ball(1, 0.5, _SCORES))  # of classes of the same size
    times = max(error / _UNKNOWN, times_too_few(budget, dim, _DESCENT))
    what = f"fit {dim} coefficients and to tell the AUC within {_UNKNOWN:g}"
    return budget.too_few(what, math.ceil(times * budget.users))


def classify(run: Run, schema: Schema, delta: float) -> Generator[Ask, Any, Classified]:
    """Return the logistic model of a table whose target has two classes."""
    budget, dim = Budget.of(run, delta), schema.num_features
    if refusal := too_few(budget, dim):
        raise TooFewReports(refusal)
    (cohort,) = run.cohorts([run.num_users])
    run.planned_steps = STEPS + 3
    question = CellShares(np.array([dim]), np.array([2.0]))
    classes = yield from ask_cells(cohort, budget, question, _CLASSES)
    whole = max(float(classes.mean.sum()), _LEAST)
    share = float(np.clip(classes.mean[1] / whole, _LEAST, 1 - _LEAST))
    error = float(classes.std_error[1]) / whole
    error = math.hypot(error, math.sqrt(share * (1 - share) / max(classes.count * whole, 1)))
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_centres(cohort, budget, dim, length, _MEANS)
    means[0] = 0.0  # the constant stays
    one = np.eye(1, dim)[0]
    start = math.log(share / (1 - share)) * one
    found = yield from descend(cohort, budget, start, means, _DESCENT, "logistic")
    theta = found - (found @ means) * one
    of_mean = yield from ask_auc(cohort, budget, theta - found[0] * one, share)
    return Classified(theta, share, error, of_mean.auc, of_mean.std_error)
