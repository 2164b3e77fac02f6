"""The methods that are compared, by name; each is told what is declared and nothing else."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso, LassoCV
from sklearn.model_selection import GroupKFold

from ldp_flower import simulate
from ldp_flower.strategies import (
    LdpIht,
    MultiRoundRegression,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
)

from ...user_level.user_level.ldpprox import LdpProx
from .data import Floats, Split, split

SPARSITY = 8  # of the methods that have to be told one
ALONE = 50  # users who train alone, at random
_PENALTY = 0.6  # of Lassos of one user, in units of the universal penalty
_CV_ROWS = 30_000

#: Mean squared error, and whether the method refused to start or returned the mean predictor.
Outcome = tuple[float, str]
Method = Callable[[Split, float, int], Outcome]

REFUSED, GATED, WARNED, SILENT = "refused", "mean predictor", "warning", ""


def of_schema(strategy: Callable[..., Any], divided: Split, epsilon: float, seed: int) -> Outcome:
    """Run a strategy that takes a schema; it buys what is not declared."""
    return _outcome(strategy(divided.declared.schema, **_known(divided, epsilon)), divided, seed)


def of_features(strategy: Callable[..., Any], divided: Split, epsilon: float, seed: int) -> Outcome:
    """Run a strategy that takes features as they are: here, within [-2, 2] by their bounds."""
    dim = divided.declared.schema.num_features
    wanted = min(SPARSITY, dim)
    return _outcome(strategy(dim, sparsity=wanted, **_known(divided, epsilon)), divided, seed)


def _known(divided: Split, epsilon: float) -> dict[str, Any]:
    return {"epsilon": epsilon, "samples_per_user": divided.declared.samples_per_user}


def _outcome(strategy: Any, divided: Split, seed: int) -> Outcome:
    try:
        model = simulate(strategy, divided.users, seed=seed)
    except TooFewReports:
        return divided.mean_predictor, REFUSED
    kind = WARNED if model.notes else SILENT
    if any("mean predictor" in note for note in model.notes):
        kind = GATED
    return divided.mean_squared_error(model.coef), kind


def ldpprox(divided: Split, epsilon: float, seed: int) -> Outcome:
    """LDPPROX, at user level and (epsilon, n ** -1.1)."""
    users = divided.users
    ends = users.offsets[1:-1]
    rows = zip(np.split(users.features, ends), np.split(users.targets, ends), strict=True)
    estimator = LdpProx(users.num_features, len(users), epsilon)
    coef = estimator.estimate(rows, np.random.default_rng(seed))
    return divided.mean_squared_error(coef), SILENT


def local_lasso(divided: Split, epsilon: float, seed: int) -> Outcome:
    """Every user trains alone, on its own rows: nothing leaves it. Mean over 50 users."""
    users = divided.users
    several = np.flatnonzero(users.num_rows > 1)
    chosen = np.random.default_rng(seed).permutation(several)[:ALONE]
    errors = []
    for user in chosen:
        rows = slice(users.offsets[user], users.offsets[user + 1])
        x, y = users.features[rows], users.targets[rows]
        universal = math.sqrt(2 * math.log(x.shape[1]) / len(x))
        alpha = max(_PENALTY * universal * float(np.std(y)), 1e-6)
        errors.append(divided.mean_squared_error(_lasso(x, y, alpha)))
    return float(np.mean(errors)), SILENT


@lru_cache(maxsize=1)
def lasso(name: str, folder: Path | None, seed: int) -> float:
    """Return the error of a Lasso on all rows, the penalty chosen once for the data set."""
    divided = split(name, folder, seed)
    x, y = divided.training.features, divided.training.targets
    return divided.mean_squared_error(_lasso(x, y, penalty(name, folder)))


@lru_cache(maxsize=1)
def penalty(name: str, folder: Path | None) -> float:
    """Return a Lasso's penalty, chosen by cross-validation over users at the first split."""
    training = split(name, folder, 0).training
    rows = np.random.default_rng(0).permutation(len(training.targets))[:_CV_ROWS]
    x, y = training.features[rows, 1:].astype(np.float64), training.targets[rows]
    folds = list(GroupKFold(5).split(x, y, training.user[rows]))
    return float(LassoCV(alphas=30, cv=folds).fit(_scaled(x), y).alpha_)


def _lasso(x: NDArray[np.floating[Any]], y: Floats, alpha: float) -> Floats:
    """Return a Lasso's coefficients of the features as they are, the intercept first."""
    x = x[:, 1:].astype(np.float64)
    fit = Lasso(alpha=alpha, precompute=len(x) > x.shape[1]).fit(_scaled(x), y)
    coef = fit.coef_ / _scales(x)
    return np.concatenate([[fit.intercept_ - x.mean(axis=0) @ coef], coef])


def _scales(x: Floats) -> Floats:
    scales = x.std(axis=0)
    return np.where(scales > 1e-9, scales, 1.0)


def _scaled(x: Floats) -> Floats:
    return (x - x.mean(axis=0)) / _scales(x)


METHODS: dict[str, Method] = {
    "SparseRegression": partial(of_schema, SparseRegression),
    "LdpIht": partial(of_schema, LdpIht),
    "two-round": partial(of_features, TwoRoundRegression),
    "multi-round": partial(of_features, MultiRoundRegression),
    "LDPPROX": ldpprox,
    "local Lasso": local_lasso,
}
PRIVATE = [name for name in METHODS if name != "local Lasso"]
