"""The problems: whose data, which model, how it is judged, and what is known beforehand.

Everything in a Problem but the rows is public and was fixed before any run: scales from
the data's description, five local steps, the learning rates that README.md lists.
"""

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from ldp_flower import Users, simulate
from ldp_flower.strategies import LinearResult, SparseRegression, TooFewReports

from ...baselines.federated import Problem
from ...baselines.learners import Arrays, Floats, Learner, Linear, Net
from ...flights.flights import data as flights_data
from ...flights.flights import design
from ...flights.flights.protocols import RADIUS, SAMPLES_PER_USER, ldp_iht
from ...harness import adult
from ...user_level.user_level.population import DECLARED_SCALE, NORM, Population, Setting

# ------------------------------------------------------------------------------- a9a


@lru_cache(maxsize=1)
def _a9a(folder: Path | None) -> tuple[Floats, NDArray[np.int64]]:
    """Return rows of length 1 (14 attributes at most and a constant) and labels 0 or 1."""
    indicators, labels = adult.a9a(folder)
    dense = np.hstack([indicators, np.ones((len(indicators), 1), bool)])
    return dense / math.sqrt(15), labels


def a9a(records: int, seed: int, folder: Path | None) -> Problem:
    """Return logistic regression on Adult, by AUC; users are groups of rows at random."""
    x, y = _a9a(folder)
    order = np.random.default_rng(seed).permutation(len(y))
    training = len(y) * 4 // 5 + 1
    users = training // records
    mine, held_out = order[: users * records], order[training:]
    learner = Linear(x.shape[1], 1, "logistic", rate=5.0)

    def auc(model: Arrays) -> float:
        logits = learner.outputs(model, x[held_out])[:, 0]
        return float(roc_auc_score(y[held_out], logits))

    return Problem(x[mine], y[mine], np.arange(users + 1) * records, learner, auc, records)


# ---------------------------------------------------------------------------- digits


def digits(users: int, hidden: int, seed: int) -> Problem:
    """Return digits of 8 x 8 pixels; a user has ten rows drawn with replacement from 1,347.

    A study of noise: users overlap, so their number counts reports, not people.
    """
    x, y = load_digits(return_X_y=True)
    # Pixels are at most 16, a bit under a third inked; a centred image has length about 3.
    x = np.hstack([(x / 16 - 0.305) / 3, np.full((len(x), 1), 0.3)])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    training, held_out = order[: len(y) * 3 // 4], order[len(y) * 3 // 4 :]
    mine = rng.choice(training, (users, 10)).ravel()
    learner: Learner = Linear(65, 10, "softmax", rate=5.0)
    if hidden:
        learner = Net(65, hidden, 10, rate=0.5)

    def accuracy(model: Arrays) -> float:
        return float(np.mean(learner.outputs(model, x[held_out]).argmax(1) == y[held_out]))

    return Problem(x[mine], y[mine], np.arange(users + 1) * 10, learner, accuracy, 10)


# ----------------------------------------------------------------------- regressions


def _waves(
    users: Users, dim: int, rows: int, declared_scale: float, epsilon: float, seed: int
) -> LinearResult:
    """Run SparseRegression; where users are too few to learn the targets' scale, declare it."""
    strategy = SparseRegression(dim, epsilon=epsilon, samples_per_user=rows)
    try:
        return simulate(strategy, users, seed=seed)
    except TooFewReports:  # raised before anybody is asked, from public numbers
        return simulate(replace(strategy, target_scale=declared_scale), users, seed=seed)


def flights(seed: int) -> Problem:
    """Return the arrival delays of 4,037 aircraft, by R2 on the flights of held-out ones."""
    users = flights_data.training_users(seed, declared=True)
    # An intercept, 12 numbers of unit spread and 5 categories: rows of length about 1.
    scale = math.sqrt(1 + len(design.NUMERIC) + len(design.CATEGORIES))
    test, arrivals = flights_data.judged(seed, declared=True)

    def r2(coef: Floats) -> float:
        error = arrivals - design.minutes(test @ coef)
        return float(1 - np.mean(error**2) / np.var(arrivals))

    def by_thresholding(epsilon: float, seed: int) -> tuple[float, LinearResult]:
        result = simulate(ldp_iht(epsilon), users, seed=seed)
        return r2(result.coef), result

    def by_waves(epsilon: float, seed: int) -> tuple[float, LinearResult]:
        result = _waves(users, len(design.COLUMNS), SAMPLES_PER_USER, 1.0, epsilon, seed)
        return r2(result.coef), result

    return Problem(
        np.asarray(users.features, np.float64) / scale,
        np.asarray(users.targets, np.float64),
        users.offsets,
        Linear(users.features.shape[1], 1, "squares", rate=1.0),
        lambda model: r2(model[0][0] / scale),
        records=50,
        path=RADIUS * scale,
        protocols={"SparseRegression": by_waves, "LDP-IHT": by_thresholding},
    )


def sparse(seed: int) -> Problem:
    """Return the regression of Ma, Jia & Yang (2024), judged by R2 of noiseless targets."""
    setting = Setting()
    population = Population(setting, seed)
    users = population.users().take(np.arange(setting.num_users))
    scale = math.sqrt(setting.dim)
    # Curvature of independent features at m records a user: the largest safe local rate.
    curvature = (1 + math.sqrt(setting.dim / setting.samples_per_user)) ** 2 / setting.dim

    def r2(coef: Floats) -> float:
        return 1 - float(np.sum((coef - population.coef) ** 2)) / NORM**2

    def by_waves(epsilon: float, seed: int) -> tuple[float, LinearResult]:
        result = _waves(users, setting.dim, setting.samples_per_user, DECLARED_SCALE, epsilon, seed)
        return r2(result.coef), result

    return Problem(
        np.asarray(users.features, np.float64) / scale,
        users.targets,
        users.offsets,
        Linear(setting.dim, 1, "squares", rate=1 / curvature),
        lambda model: r2(model[0][0] / scale),
        records=setting.samples_per_user,
        path=scale,  # coefficients of length 1
        protocols={"SparseRegression": by_waves},
    )
