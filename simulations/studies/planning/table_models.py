"""Populations for models of tables, and what runs on them lose."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import (
    PrivateClassification,
    PrivateEvaluation,
    PrivateRegression,
)
from ldp_flower.strategies.forecasts.tables import (
    ALONG,
    ALONG_CLASSES,
    MAX_BETWEEN,
    NUMBERS,
    SHARES,
    TARGETS,
)

from .cell import MadeUp

Floats = NDArray[np.float64]
Rng = np.random.Generator

PROTOCOLS = {
    cls.__name__: cls for cls in (PrivateRegression, PrivateClassification, PrivateEvaluation)
}
_CELLS, _SEEDS, _FEW_SEEDS = 30, 60, 10
_MOST_ROWS = 20_000
_JUDGED = 6000  # rows of others that models are judged on, of 500 people at least


@dataclass(frozen=True)
class Cell(MadeUp):
    """A protocol and a population."""

    quality: float

    @property
    def seeds(self) -> int:
        """How many runs there are."""
        return _FEW_SEEDS if self.protocol == "PrivateEvaluation" else _SEEDS


def cells() -> Iterator[Cell]:
    """Yield 30 cells of each protocol in turn: by lot, of those that are not refused."""
    yield from (cell for three in zip(*map(_drawn, PROTOCOLS), strict=True) for cell in three)


def _drawn(protocol: str) -> list[Cell]:
    qualities = (0.7, 0.8, 0.9) if protocol == "PrivateClassification" else (0.3, 0.5, 0.8)
    numbers = (500, 1000, 2000, 4000), (5, 10, 20, 40), (1, 2, 4, 10, 30)
    every = itertools.product(*numbers, (0.5, 1.0, 2.0, 4.0, 8.0), qualities)
    possible = [cell for cell in (Cell(protocol, *some) for some in every) if _runs(cell)]
    lots = np.random.default_rng([len(protocol), 3]).choice(len(possible), _CELLS, replace=False)
    return [possible[lot] for lot in lots]


def _runs(cell: Cell) -> bool:
    return cell.users * cell.rows <= _MOST_ROWS and not cell.strategy.refusal(cell.users)


def errors(cell: Cell, seed: int) -> float:
    """Return the error of a run: what is lost, or the standard error that is told."""
    judged = max(500, _JUDGED // cell.rows)
    rng = np.random.default_rng([2026, seed, cell.users, cell.features, cell.rows])
    user = np.repeat(*_people(cell.users + judged, cell.rows, rng))
    along = ALONG_CLASSES if cell.protocol == "PrivateClassification" else ALONG
    drawn = Drawn.of(user, cell.features, along, rng)
    targets = _TARGETS[cell.protocol](drawn, cell.quality, rng)
    fitted = user < cell.users
    return _ERRORS[cell.protocol](cell, seed, user[fitted], drawn.columns, targets, fitted)


# ------------------------------------------------------------------------ populations


def _people(number: int, rows: int, rng: Rng) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.arange(number), 1 + rng.poisson(rows - 1, number)


@dataclass(frozen=True)
class Drawn:
    """A population of which plans assume that it is drawn like this.

    Attributes
    ----------
    columns : ndarray, shape (rows, features)
        Within [-1, 1].
    explained : ndarray, shape (rows,)
        What the best linear model predicts, of variance 1.
    rest : ndarray, shape (rows,)
        What no column tells, of variance 1.
    """

    columns: Floats
    explained: Floats
    rest: Floats

    @classmethod
    def of(
        cls, user: NDArray[np.int64], number: int, along: tuple[float, float], rng: Rng
    ) -> "Drawn":
        """Draw one; slopes are proportional to a power ``along`` of an axis's variance."""
        own = rng.uniform(0, MAX_BETWEEN)
        wide = NUMBERS[0] * np.exp(NUMBERS[1] * rng.standard_normal())
        spectrum = 1 / np.arange(1, number + 1)
        spectrum *= number * wide**2 / spectrum.sum()
        axes = np.linalg.qr(rng.standard_normal((number, number)))[0]
        entries = np.sqrt(spectrum) * _of_users(user, number, own, rng)
        centres = rng.uniform(-NUMBERS[2], NUMBERS[2], number)
        columns = np.clip(centres + entries @ axes.T, -1, 1)
        slopes = rng.standard_normal(number) * spectrum ** rng.uniform(*along)
        explained = columns @ (axes @ slopes)
        explained = (explained - explained.mean()) / explained.std()
        return cls(columns, explained, _of_users(user, 1, own, rng)[:, 0])


def _of_users(user: NDArray[np.int64], number: int, own: float, rng: Rng) -> Floats:
    """Return normal numbers of variance 1, of which a share is a user's own."""
    common = rng.standard_normal((user[-1] + 1, number))[user]
    return np.sqrt(own) * common + np.sqrt(1 - own) * rng.standard_normal((len(user), number))


def _numbers(drawn: Drawn, r2: float, rng: Rng) -> Floats:
    size = TARGETS[0] * np.exp(TARGETS[1] * rng.standard_normal())
    centre = rng.uniform(-TARGETS[2], TARGETS[2])
    mixed = np.sqrt(r2) * drawn.explained + np.sqrt(1 - r2) * drawn.rest
    return np.clip(centre + size * mixed, -1, 1)


def _wide_numbers(drawn: Drawn, r2: float, rng: Rng) -> Floats:
    """Return targets around the middle of their bounds, of a quarter of their width."""
    return np.clip(0.52 * (np.sqrt(r2) * drawn.explained + np.sqrt(1 - r2) * drawn.rest), -1, 1)


def _classes(drawn: Drawn, auc: float, rng: Rng) -> Floats:
    """Return 5 to 45 % of ones: where a part of what is explained, and luck, are high."""
    rare = 1 - rng.uniform(*SHARES)
    low, high = 0.0, 1.0
    for _ in range(15):
        share = (low + high) / 2
        score = np.sqrt(share) * drawn.explained + np.sqrt(1 - share) * drawn.rest
        ones = (score > np.quantile(score, rare)).astype(float)
        found = roc_auc_score(ones, drawn.explained)
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
    found = run_in_memory(strategy, users, seed).result
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
    found = run_in_memory(strategy, users, seed).result
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
    found = run_in_memory(PrivateEvaluation(coef, epsilon=cell.epsilon), users, seed).result
    return float(found.std_error)


_ERRORS = {
    "PrivateRegression": _regression,
    "PrivateClassification": _classification,
    "PrivateEvaluation": _evaluation,
}
