"""One run of a protocol on data of one kind, with nothing declared but bounds."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from ldp_flower import Users
from ldp_flower.planning import WouldRefuse
from ldp_flower.simulation.in_memory import run_in_memory
from ldp_flower.strategies import (
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    SparseRegression,
    TwoRoundRegression,
    UserLevelMean,
)

from ...harness.runs import Task, sweep_of
from .laws import COEFFICIENTS, FEATURES, NOISES, Floats, Rng, coefficients

_DIM = 64
_USERS, _FEWER = 60_000, 1_000  # of one record each; of many
_MEAN_DIM, _MEAN_USERS = 16, 4_000  # of a mean of features
SIZES = (0.05, 0.5, 2.0)  # of the noise, over the signal's
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_ROWS = {"LdpIht": (1,), "NonInteractiveIht": (1,), "UserLevelMean": (1, 10, 100)}
_MANY = (10, 100, 400)
_MEASURED = ("error", "z", "noted", "unstated", "wrong", "refused")


@dataclass(frozen=True)
class Cell:
    """Users, and the epsilon that they pay."""

    features: str
    kind: str
    noise: float
    law: str
    rows: int
    epsilon: float


STRATEGIES: dict[str, Callable[[int, Cell], Any]] = {
    "LdpIht": lambda s, cell: LdpIht(_DIM, sparsity=s, epsilon=cell.epsilon),
    "NonInteractiveIht": lambda s, cell: NonInteractiveIht(_DIM, sparsity=s, epsilon=cell.epsilon),
    "SparseRegression": lambda s, cell: SparseRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows
    ),
    "TwoRoundRegression": lambda s, cell: TwoRoundRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows, sparsity=s
    ),
    "MultiRoundRegression": lambda s, cell: MultiRoundRegression(
        _DIM, epsilon=cell.epsilon, samples_per_user=cell.rows, sparsity=s
    ),
}


TOLD_SPARSITY = set(STRATEGIES) - {"SparseRegression"}  # others claim no support
PROTOCOLS = (*STRATEGIES, "UserLevelMean")


def cells(protocol: str) -> list[Cell]:
    """Return the whole grid of a protocol; a mean has no coefficients and no noise."""
    rows = _ROWS.get(protocol, _MANY)
    targets = (COEFFICIENTS, SIZES, NOISES) if protocol in STRATEGIES else (("-",), (0.0,), ("-",))
    return [Cell(*key) for key in product(FEATURES, *targets, rows, _EPSILONS)]


def measure(protocol: str, cell: Cell, seed: int) -> dict[str, Any]:
    """Return a run's relative error, its error over the stated one, and what it says.

    Errors are of predictions; of means, in units of the distance of a record from them. Features of
    users with many records are centred and of unit scale, as their regressions expect.
    """
    rng = np.random.default_rng([seed, crc32(repr((protocol, cell)).encode())])
    strategy, users, truth, sizes = (_regression if protocol in STRATEGIES else _mean)(
        protocol, cell, rng
    )
    try:
        result = run_in_memory(strategy, users, seed).result
    except WouldRefuse:
        return dict.fromkeys(_MEASURED, np.nan) | {"refused": 1}
    off, told = result.coef - truth, truth != 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (off / result.std_error)[told]
    known = np.isfinite(scores)
    return {
        "error": np.linalg.norm(off * sizes),
        "z": float(np.sqrt(np.mean(scores[known] ** 2))) if known.any() else np.nan,
        "noted": int(bool(result.notes)),
        "unstated": int((~known).sum()),
        "wrong": int(set(result.support) != set(np.flatnonzero(truth))),
        "refused": 0,
    }


def _regression(protocol: str, cell: Cell, rng: Rng) -> tuple[Any, Users, Floats, Floats]:
    """Return a strategy, its users, the coefficients, and the unit of each one's error."""
    number = _USERS if cell.rows == 1 else _FEWER * cell.rows
    x = FEATURES[cell.features](rng, number, _DIM)
    if cell.rows > 1:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    theta = coefficients(cell.kind, rng, _DIM)
    signal = x @ theta
    noise = cell.noise * np.std(signal) * NOISES[cell.law](rng, number)
    y = signal - (signal.mean() if cell.rows > 1 else 0) + noise
    users = Users.from_rows(x, y, np.arange(number) // cell.rows)
    sizes = x.std(axis=0)
    strategy = STRATEGIES[protocol](int((theta != 0).sum()), cell)
    return strategy, users, theta, sizes / np.linalg.norm(theta * sizes)


def _mean(protocol: str, cell: Cell, rng: Rng) -> tuple[Any, Users, Floats, Floats]:
    """Return the same for a mean, with a bound of twice the records' root mean square length."""
    number = _MEAN_USERS * cell.rows
    x = FEATURES[cell.features](rng, max(number, 10**6), _MEAN_DIM)
    truth, distance = x.mean(axis=0), np.sqrt(x.var(axis=0).sum())
    users = Users.from_rows(x[:number], groups=np.arange(number) // cell.rows)
    bound = 2 * float(np.sqrt(np.mean(np.sum(x**2, axis=1))))
    strategy = UserLevelMean(_MEAN_DIM, epsilon=cell.epsilon, bound=bound)
    return strategy, users, truth, np.full(_MEAN_DIM, 1 / distance)


def _measured(task: Task) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    return measure(task.method, task.setting, task.seed)


sweep = sweep_of(Cell, _MEASURED, _measured)
