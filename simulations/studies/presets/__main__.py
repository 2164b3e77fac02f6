"""Try regressions and means on data of many kinds, with nothing declared but bounds."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from ldp_flower import Users
from ldp_flower.simulation.in_memory import run_in_memory
from ldp_flower.strategies import (
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
    UserLevelMean,
)

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .laws import COEFFICIENTS, FEATURES, JUDGED, NOISES, Floats, Rng, coefficients

_DIM = 64
_USERS, _FEWER = 60_000, 1_000  # of one record each; of many
_MEAN_DIM, _MEAN_USERS = 16, 4_000  # of a mean of features
_SIZES = (0.05, 0.5, 2.0)  # of the noise, over the signal's
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


_TOLD_SPARSITY = set(STRATEGIES) - {"SparseRegression"}  # others claim no support
PROTOCOLS = (*STRATEGIES, "UserLevelMean")


def cells(protocol: str) -> list[Cell]:
    """Return the whole grid of a protocol; a mean has no coefficients and no noise."""
    rows = _ROWS.get(protocol, _MANY)
    targets = (COEFFICIENTS, _SIZES, NOISES) if protocol in STRATEGIES else (("-",), (0.0,), ("-",))
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
    except TooFewReports:
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


def table(runs: pd.DataFrame) -> Table:
    """Return, by protocol and law of features, what is said and what is not so."""
    lines = []
    for (protocol, features), own in runs.groupby(["method", "features"], sort=False):
        told = own[own["refused"] == 0]
        quiet = told[told["noted"] == 0]
        scores = quiet["z"].dropna()
        noises = _SIZES if protocol in STRATEGIES else (0.0,)
        errors = [_median(told[told["noise"] == size]["error"]) for size in noises]
        errors += ["-"] * (len(_SIZES) - len(errors))
        wrong = quiet["wrong"].sum() if protocol in _TOLD_SPARSITY else np.nan
        unstated = (quiet["unstated"] > 0).sum()
        counts = (len(own), len(own) - len(told), told["noted"].sum(), wrong, unstated)
        typical = f"{np.sqrt(np.mean(scores**2)):.2f}" if len(scores) else "-"
        largest = f"{scores.max():.1f}" if len(scores) else "-"
        names = [str(protocol), str(features)]
        lines.append(
            [
                *names,
                *("-" if np.isnan(count) else f"{count:g}" for count in counts),
                typical,
                largest,
                *errors,
            ]
        )
    head = ["protocol", "features", "runs", "refused", "noted", "wrong, unsaid", "no error stated"]
    head += ["z", "largest z"]
    return Table(
        "Presets",
        [*head, *(f"error, noise {size:g}" for size in _SIZES)],
        lines,
        {"protocol", "features"},
        "Of runs without a note: those with another support; those that state no error of a "
        "coefficient; root mean square and largest of their errors over the stated ones, which "
        "are 1 if these are right. Errors of predictions, relative, median; of means, over the "
        "distance of one record, in the first column. Laws from "
        f"{JUDGED} on were not looked at while protocols were built.",
    )


def _median(values: "pd.Series[float]") -> str:
    return f"{values.median():.3g}" if values.notna().any() else "-"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.presets", __doc__, seeds=1)
    command.add_argument(
        "--protocols", nargs="+", default=["LdpIht"], choices=PROTOCOLS, metavar="NAME"
    )
    command.add_argument(
        "--share", type=float, default=0.1, help="of the grid that each seed runs (default: .1)"
    )
    options = command.options(arguments)
    tasks = []
    for seed, protocol in product(options.seeds, options.protocols):
        grid = cells(protocol)
        rng = np.random.default_rng([seed, crc32(protocol.encode())])
        some = rng.choice(len(grid), max(1, round(options.share * len(grid))), replace=False)
        tasks += [Task(grid[place], protocol, seed) for place in np.sort(some)]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
