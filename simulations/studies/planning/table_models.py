"""Populations for models of tables, and what runs on them lose."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import simulate
from ldp_flower.strategies import (
    PrivateClassification,
    PrivateEvaluation,
    PrivateRegression,
)

from .cell import MadeUp

Floats = NDArray[np.float64]
Rng = np.random.Generator

PROTOCOLS = {
    cls.__name__: cls for cls in (PrivateRegression, PrivateClassification, PrivateEvaluation)
}
_CELLS = 30
_MOST_ROWS = 20_000
_JUDGED = 6000  # rows of others that models are judged on, of 500 people at least
_ALIKE, _OWN = 0.3, 0.2  # shares of variance that are a user's own: of columns, of what is left


@dataclass(frozen=True)
class Cell(MadeUp):
    """A protocol and a population."""

    quality: float


def cells() -> Iterator[Cell]:
    """Yield 30 cells of each protocol in turn: by lot, of those that are not refused."""
    yield from (cell for three in zip(*map(_drawn, PROTOCOLS), strict=True) for cell in three)


def _drawn(protocol: str) -> list[Cell]:
    qualities = (0.7, 0.8, 0.9) if protocol == "PrivateClassification" else (0.3, 0.5, 0.8)
    numbers = (500, 1000, 2000, 4000), (5, 10, 20, 40), (1, 2, 4, 10, 30)
    every = itertools.product(*numbers, (0.5, 1.0, 2.0, 4.0, 8.0), qualities)
    possible = [cell for cell in (Cell(protocol, *some) for some in every) if _runs(cell)]
    lots = np.random.default_rng(len(protocol)).choice(len(possible), _CELLS, replace=False)
    return [possible[lot] for lot in lots]


def _runs(cell: Cell) -> bool:
    return cell.users * cell.rows <= _MOST_ROWS and not cell.is_refused


def errors(cell: Cell, seed: int) -> float:
    """Return the error of a run: what is lost, or the standard error that is told."""
    judged = max(500, _JUDGED // cell.rows)
    rng = np.random.default_rng([2026, seed, cell.users, cell.features, cell.rows])
    user = np.repeat(*_people(cell.users + judged, cell.rows, rng))
    columns = _columns(user, cell.features, rng)
    targets = _TARGETS[cell.protocol](columns, user, cell.quality, rng)
    fitted = user < cell.users
    return _ERRORS[cell.protocol](cell, seed, user[fitted], columns, targets, fitted)


# ------------------------------------------------------------------------ populations


def _people(number: int, rows: int, rng: Rng) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.arange(number), 1 + rng.poisson(rows - 1, number)


def _columns(user: NDArray[np.int64], number: int, rng: Rng) -> Floats:
    """Return columns within [-1, 1]: normal, moderately correlated, anywhere, users differ."""
    own = rng.standard_normal((user[-1] + 1, number))[user]
    entries = np.sqrt(_ALIKE) * own + np.sqrt(1 - _ALIKE) * rng.standard_normal(own.shape)
    mixed = np.eye(number) + 0.5 * rng.standard_normal((number, number)) / np.sqrt(number)
    centres, scales = rng.uniform(-0.4, 0.4, number), rng.uniform(0.15, 0.5, number)
    spread = scales * (entries @ (mixed / np.linalg.norm(mixed, axis=0)))
    return np.clip(centres + spread, -1, 1)


def _parts(columns: Floats, user: NDArray[np.int64], rng: Rng) -> tuple[Floats, Floats]:
    """Return what a linear model of the columns explains, and what it does not, of variance 1."""
    explained = (columns / columns.std(axis=0)) @ rng.standard_normal(columns.shape[1])
    rest = np.sqrt(_OWN) * rng.standard_normal(user[-1] + 1)[user]
    rest += np.sqrt(1 - _OWN) * rng.standard_normal(len(user))
    return (explained - explained.mean()) / explained.std(), rest


def _numbers(columns: Floats, user: NDArray[np.int64], r2: float, rng: Rng) -> Floats:
    explained, rest = _parts(columns, user, rng)
    centre, scale = rng.uniform(-0.2, 0.2), rng.uniform(0.25, 0.35)
    return np.clip(centre + scale * (np.sqrt(r2) * explained + np.sqrt(1 - r2) * rest), -1, 1)


def _wide_numbers(columns: Floats, user: NDArray[np.int64], r2: float, rng: Rng) -> Floats:
    """Return targets around the middle of their bounds, of a quarter of their width."""
    explained, rest = _parts(columns, user, rng)
    return np.clip(0.52 * (np.sqrt(r2) * explained + np.sqrt(1 - r2) * rest), -1, 1)


def _classes(columns: Floats, user: NDArray[np.int64], auc: float, rng: Rng) -> Floats:
    """Return 25 to 50 % of ones: where a part of what is explained, and luck, are high."""
    explained, rest = _parts(columns, user, rng)
    rare = 1 - rng.uniform(0.25, 0.5)
    low, high = 0.0, 1.0
    for _ in range(15):
        share = (low + high) / 2
        score = np.sqrt(share) * explained + np.sqrt(1 - share) * rest
        ones = (score > np.quantile(score, rare)).astype(float)
        found = roc_auc_score(ones, explained)
        low, high = (share, high) if found < auc else (low, share)
    return ones


_TARGETS = {
    "PrivateRegression": _numbers,
    "PrivateClassification": _classes,
    "PrivateEvaluation": _wide_numbers,
}


# ----------------------------------------------------------------------------- errors


def _table(columns: Floats) -> dict[str, Floats]:
    return {f"x{place}": column for place, column in enumerate(columns.T, 1)}


def _regression(
    cell: Cell, seed: int, user: NDArray[np.int64], columns: Floats, targets: Floats, fitted: Any
) -> float:
    strategy = cell.strategy
    assert isinstance(strategy, PrivateRegression)
    users = strategy.schema.users(
        _table(columns[fitted]) | {"y": targets[fitted], "user": user}, groups="user"
    )
    found = simulate(strategy, users, seed=seed)
    best = LinearRegression().fit(columns[fitted], targets[fitted])
    own = r2_score(targets[~fitted], found.predict(_table(columns[~fitted])))
    return float(r2_score(targets[~fitted], best.predict(columns[~fitted])) - own)


def _classification(
    cell: Cell, seed: int, user: NDArray[np.int64], columns: Floats, targets: Floats, fitted: Any
) -> float:
    strategy = cell.strategy
    assert isinstance(strategy, PrivateClassification)
    labels = np.array(["no", "yes"])[targets[fitted].astype(int)]
    users = strategy.schema.users(
        _table(columns[fitted]) | {"y": labels, "user": user}, groups="user"
    )
    found = simulate(strategy, users, seed=seed)
    best = LogisticRegression(C=100.0).fit(columns[fitted], targets[fitted])
    scores = found.predict_proba(_table(columns[~fitted]))[:, 1]
    others = best.decision_function(columns[~fitted])
    judge = targets[~fitted]
    return float(roc_auc_score(judge, others) - roc_auc_score(judge, scores))


def _evaluation(
    cell: Cell, seed: int, user: NDArray[np.int64], columns: Floats, targets: Floats, fitted: Any
) -> float:
    """Return the standard error that is told of the R2 of the best model; its bound is 4."""
    best = LinearRegression().fit(columns[~fitted], targets[~fitted])
    schema = PrivateRegression.planned_for(cell.setting, cell.epsilon).schema
    table = _table(columns[fitted]) | {"y": targets[fitted], "user": user}
    users = schema.users(table, groups="user")
    # Columns and targets within [-1, 1] are within [-2, 2] for clients.
    coef = np.append(2 * best.intercept_, best.coef_)
    found = simulate(PrivateEvaluation(coef, epsilon=cell.epsilon), users, seed=seed)
    return float(found.std_error)


_ERRORS = {
    "PrivateRegression": _regression,
    "PrivateClassification": _classification,
    "PrivateEvaluation": _evaluation,
}
