"""Try regressions on features, noise and coefficients of many kinds, with nothing declared."""

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
)

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .laws import COEFFICIENTS, FEATURES, JUDGED, NOISES, coefficients

_DIM = 64
_USERS, _RECORDS = 60_000, 60_000  # of one record each; and records where users have many
_SIZES = (0.05, 0.5, 2.0)  # of the noise, over the signal's
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_ROWS = {"LdpIht": (1,), "NonInteractiveIht": (1,)}
_MANY = (10, 100)
_MEASURED = ("error", "z", "noted", "wrong", "refused")


@dataclass(frozen=True)
class Cell:
    """Users, and the epsilon that they pay."""

    features: str
    kind: str
    noise: float
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


def cells(protocol: str) -> list[Cell]:
    """Return the whole grid of a protocol."""
    rows = _ROWS.get(protocol, _MANY)
    return [Cell(*key) for key in product(FEATURES, COEFFICIENTS, _SIZES, rows, _EPSILONS)]


def measure(protocol: str, cell: Cell, seed: int) -> dict[str, Any]:
    """Return a run's relative error in predictions, its error over the stated one, what it says.

    Features of users with many records are centred and of unit scale, as their protocols expect.
    """
    rng = np.random.default_rng([seed, crc32(repr((protocol, cell)).encode())])
    number = _USERS if cell.rows == 1 else _RECORDS
    x = FEATURES[cell.features](rng, number, _DIM)
    if cell.rows > 1:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    theta = coefficients(cell.kind, rng, _DIM)
    signal, noise = x @ theta, NOISES[rng.choice(list(NOISES))](rng, number)
    y = signal - (signal.mean() if cell.rows > 1 else 0) + cell.noise * np.std(signal) * noise
    users = Users.from_rows(x, y, np.arange(number) // cell.rows)
    strategy = STRATEGIES[protocol](int((theta != 0).sum()), cell)
    try:
        result = run_in_memory(strategy, users, seed).result
    except TooFewReports:
        return dict.fromkeys(_MEASURED, np.nan) | {"refused": 1}
    sizes, off = x.std(axis=0), result.coef - theta
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (off / result.std_error)[theta != 0]
    return {
        "error": np.linalg.norm(off * sizes) / np.linalg.norm(theta * sizes),
        "z": float(np.sqrt(np.mean(scores**2))),
        "noted": int(bool(result.notes)),
        "wrong": int(set(result.support) != set(np.flatnonzero(theta))),
        "refused": 0,
    }


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
        errors = [_median(told[told["noise"] == size]["error"]) for size in _SIZES]
        counts = (len(own), len(own) - len(told), told["noted"].sum(), quiet["wrong"].sum())
        typical = f"{np.sqrt(np.mean(scores**2)):.2f}" if len(scores) else "-"
        largest = f"{scores.max():.1f}" if len(scores) else "-"
        names = [str(protocol), str(features)]
        lines.append([*names, *(f"{count:g}" for count in counts), typical, largest, *errors])
    head = ["protocol", "features", "runs", "refused", "noted", "wrong, unsaid", "z", "largest z"]
    return Table(
        "Presets",
        [*head, *(f"error, noise {size:g}" for size in _SIZES)],
        lines,
        {"protocol", "features"},
        "Of runs without a note: those with another support; root mean square and largest of their "
        "errors over the stated ones, which are 1 if these are right. Errors of predictions, "
        f"relative, median. Laws from {JUDGED} on were not looked at while protocols were built.",
    )


def _median(values: "pd.Series[float]") -> str:
    return f"{values.median():.3g}" if values.notna().any() else "-"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.presets", __doc__, seeds=1)
    command.add_argument(
        "--protocols", nargs="+", default=["LdpIht"], choices=list(STRATEGIES), metavar="NAME"
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
