"""The private model beside models that protect nobody, on held-out aircraft."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ldp_flower.strategies import LinearResult
from ldp_flower.sweep import sweep

from . import baselines
from .data import judged, training_users
from .design import COLUMNS, Floats, minutes
from .figure import draw
from .protocols import Fit, fits
from .scores import Row, Scores


def r2(coef: Floats, seed: int, num_users: int) -> float:
    """Return R2 on the held-out aircraft, in minutes of arrival delay."""
    x, arrivals = judged(seed, num_users)
    error = arrivals - minutes(x @ coef)
    return float(1 - np.mean(error**2) / np.var(arrivals))


def table_rows(
    result: LinearResult, seconds: float, sparsity: int, seed: int, num_users: int
) -> list[Row]:
    """Judge the private model and the alternatives on the held-out aircraft."""
    everyone = training_users(seed, num_users)
    assert result.privacy is not None
    epsilon = result.privacy.epsilon
    rows = [_private("LDP-IHT", result, seconds, seed, num_users)]
    started = time.perf_counter()
    other = fits(sparsity)["SparseRegression"](everyone, epsilon, seed)
    took = time.perf_counter() - started
    rows.append(_private("SparseRegression", other, took, seed, num_users))
    alternatives: dict[str, Callable[[NDArray[np.float32], Floats], Floats]] = {
        "predict the mean": _mean,
        "IHT": lambda x, y: baselines.iterative_hard_thresholding(x, y, sparsity),
        "Lasso, all rows": baselines.lasso,
        "least squares, all rows": baselines.least_squares,
    }
    for name, fit in alternatives.items():
        started = time.perf_counter()
        coef = fit(everyone.features, np.asarray(everyone.targets, np.float64))
        took = time.perf_counter() - started
        score, support = r2(coef, seed, num_users), int(np.count_nonzero(coef))
        rows.append(Row(name, "none", None, score, support, None, took))
        print(f"fitted {name}: R2 {score:.3f}", flush=True)
    return rows


def _private(method: str, result: LinearResult, seconds: float, seed: int, num_users: int) -> Row:
    assert result.privacy is not None
    return Row(
        method,
        "user-level LDP",
        result.privacy.epsilon,
        r2(result.coef, seed, num_users),
        len(result.support),
        max(step.report_bytes for step in result.steps),
        seconds,
    )


def repeat(
    protocols: Mapping[str, Fit],
    epsilons: list[float],
    num_seeds: int,
    num_users: int,
    sparsity: int,
    path: Path,
) -> Scores:
    """Repeat the protocols in process; a seed decides split, cohorts and all noise."""

    def run(
        method: str, epsilon: float, num_users: int, sparsity: int, seed: int
    ) -> dict[str, float]:
        coef = protocols[method](training_users(seed, num_users), epsilon, seed).coef
        score = r2(coef, seed, num_users)
        print(f"{method}, epsilon {epsilon:g}, seed {seed}: R2 {score:.3f}", flush=True)
        return {"r2": score}

    found: Scores = {name: {epsilon: [] for epsilon in epsilons} for name in protocols}
    if num_seeds and protocols and epsilons:
        of_run = {"num_users": [num_users], "sparsity": [sparsity]}
        grid = {"method": list(protocols), "epsilon": epsilons, **of_run}
        for row in sweep(run, grid, seeds=num_seeds, path=path):
            found[row["method"]][float(row["epsilon"])].append(float(row["r2"]))
    return found


def show(rows: list[Row], swept: Scores) -> None:
    """Print the tables."""
    console = Console(width=110)
    table = Table(title=f"Arrival delay, {len(COLUMNS)} features, held-out aircraft")
    for column in ("method", "guarantee", "epsilon", "R2", "support", "bytes/user", "seconds"):
        table.add_column(column, justify="left" if column in ("method", "guarantee") else "right")
    for row in rows:
        table.add_row(
            row.method,
            row.guarantee,
            "-" if row.epsilon is None else f"{row.epsilon:g}",
            f"{round(row.r2, 3) + 0.0:.3f}",
            str(row.support),
            "all rows" if row.bytes_per_user is None else str(row.bytes_per_user),
            f"{row.seconds:.1f}",
        )
    console.print(table)
    table = Table(title="Again in process, fresh split, cohorts and noise each time")
    table.add_column("method")
    for column in ("epsilon", "median R2", "worst", "best", "runs"):
        table.add_column(column, justify="right")
    for name, by_epsilon in swept.items():
        for epsilon, values in by_epsilon.items():
            if values:
                scores = (np.median(values), min(values), max(values))
                shown = (f"{score:.3f}" for score in scores)
                table.add_row(name, f"{epsilon:g}", *shown, str(len(values)))
    if table.row_count:
        console.print(table)


def compare(
    result: LinearResult,
    seconds: float,
    *,
    methods: list[str],
    epsilons: list[float],
    num_seeds: int,
    sparsity: int,
    seed: int,
    num_users: int,
    output: Path,
) -> dict[str, Any]:
    """Do all of the above and draw the figure; return the numbers for ``result.json``."""
    rows = table_rows(result, seconds, sparsity, seed, num_users)
    protocols = {name: fit for name, fit in fits(sparsity).items() if name in methods}
    swept = repeat(protocols, epsilons, num_seeds, num_users, sparsity, output / "repetitions.csv")
    show(rows, swept)
    x, arrivals = judged(seed, num_users)
    draw(result, rows, swept, minutes(x @ result.coef), arrivals, output / "flights.png")
    return {
        "rows": [asdict(row) for row in rows],
        "sweep": {
            name: {f"{epsilon:g}": values for epsilon, values in by_epsilon.items()}
            for name, by_epsilon in swept.items()
        },
    }


def _mean(x: NDArray[np.float32], y: Floats) -> Floats:
    coef = np.zeros(x.shape[1])
    coef[0] = y.mean()
    return coef
