"""The private models beside one that protects nobody, on held-out aircraft."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ldp_flower import simulate
from ldp_flower.compare.sweep import sweep
from ldp_flower.strategies import TooFewReports

from .data import judged, training_users
from .design import BOUNDS, COLUMNS, SCHEMA, Floats, minutes
from .figure import draw
from .protocols import PROTOCOLS
from .scores import Row, Scores


def predicted(coef: Floats, seed: int, num_users: int, declared: bool = False) -> Floats:
    """Return the minutes of delay that a model predicts for the held-out aircraft."""
    x, _ = judged(seed, num_users, declared)
    return minutes(x @ coef, SCHEMA if declared else BOUNDS)


def r2(coef: Floats, seed: int, num_users: int, declared: bool = False) -> float:
    """Return R2 on the held-out aircraft, in minutes of arrival delay."""
    _, arrivals = judged(seed, num_users, declared)
    error = arrivals - predicted(coef, seed, num_users, declared)
    return float(1 - np.mean(error**2) / np.var(arrivals))


def least_squares(x: NDArray[np.float32], y: Floats) -> Floats:
    """Return the least-squares coefficients (of least norm: indicators are collinear)."""
    x = x.astype(np.float64)
    return np.linalg.pinv(x.T @ x, rcond=1e-10) @ (x.T @ y)


def table_rows(name: str, result: Any, seconds: float, seed: int, num_users: int) -> list[Row]:
    """Judge the private model and the alternatives on the held-out aircraft."""
    score = r2(result.coef, seed, num_users, PROTOCOLS[name].declared)
    size = max(step.report_bytes for step in result.steps)
    rows = [Row(name, "user-level LDP", result.privacy.epsilon, score, size, seconds)]
    everyone = training_users(seed, num_users)
    for alternative, fit in (("predict the mean", _mean), ("least squares", least_squares)):
        started = time.perf_counter()
        coef = fit(everyone.features, np.asarray(everyone.targets, np.float64))
        took = time.perf_counter() - started
        rows.append(Row(alternative, "none", None, r2(coef, seed, num_users), None, took))
    return rows


def repeat(
    protocols: list[str], epsilons: list[float], num_seeds: int, num_users: int, path: Path
) -> Scores:
    """Repeat the protocols in process; a seed decides split, cohorts and all noise."""

    def run(method: str, epsilon: float, num_users: int, seed: int) -> dict[str, float]:
        protocol = PROTOCOLS[method]
        users = training_users(seed, num_users, protocol.declared)
        try:
            result = simulate(protocol.strategy(epsilon), users, seed=seed)
        except TooFewReports as refusal:
            print(f"{method}, epsilon {epsilon:g}, seed {seed}: {refusal}", flush=True)
            return {"r2": float("nan")}
        score = r2(result.coef, seed, num_users, protocol.declared)
        print(f"{method}, epsilon {epsilon:g}, seed {seed}: R2 {score:.3f}", flush=True)
        return {"r2": score}

    found: Scores = {name: {epsilon: [] for epsilon in epsilons} for name in protocols}
    if num_seeds and protocols and epsilons:
        grid = {"method": protocols, "epsilon": epsilons, "num_users": [num_users]}
        for row in sweep(run, grid, seeds=num_seeds, path=path):
            if np.isfinite(score := float(row["r2"])):
                found[row["method"]][float(row["epsilon"])].append(score)
    return found


def show(rows: list[Row], swept: Scores) -> None:
    """Print the tables."""
    console = Console(width=100)
    table = Table(title=f"Arrival delay, {len(COLUMNS)} features, held-out aircraft")
    for column in ("method", "guarantee", "epsilon", "R2", "bytes/user", "seconds"):
        table.add_column(column, justify="left" if column in ("method", "guarantee") else "right")
    for row in rows:
        table.add_row(
            row.method,
            row.guarantee,
            "-" if row.epsilon is None else f"{row.epsilon:g}",
            f"{round(row.r2, 3) + 0.0:.3f}",
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
    name: str,
    result: Any,
    seconds: float,
    *,
    protocols: list[str],
    epsilons: list[float],
    num_seeds: int,
    seed: int,
    num_users: int,
    output: Path,
) -> dict[str, Any]:
    """Do all of the above and draw the figure; return the numbers for ``result.json``."""
    rows = table_rows(name, result, seconds, seed, num_users)
    swept = repeat(protocols, epsilons, num_seeds, num_users, output / "repetitions.csv")
    show(rows, swept)
    declared = PROTOCOLS[name].declared
    _, arrivals = judged(seed, num_users, declared)
    predictions = predicted(result.coef, seed, num_users, declared)
    draw(result, rows, swept, predictions, arrivals, output / "flights.png")
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
