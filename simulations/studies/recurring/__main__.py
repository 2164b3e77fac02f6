"""Measure the levels that a series of collections finds, and whether their bands hold."""

import logging
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from ldp_flower import simulate
from ldp_flower.strategies import Series

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .populations import SHAPES

_NORMAL = 1.95996
_KINDS = {"raw": ("raw", "raw_std_error"), "today": ("filtered", "filtered_std_error")} | {
    "past": ("level", "std_error")
}
_MEASURED = [f"{kind}_{what}" for kind in _KINDS for what in ("error", "missed")]


@dataclass(frozen=True)
class Cell:
    """A population, and how it is asked."""

    users: int
    weeks: int
    epsilon: float


def _measured(task: Task) -> dict[str, object]:
    """Return root mean square errors and shares of 95 % bands that miss, over weeks."""
    logging.disable(logging.CRITICAL)
    cell = task.setting
    rng = np.random.default_rng([task.seed, list(SHAPES).index(task.method)])
    people = SHAPES[task.method](rng, cell.weeks, cell.users)
    series = Series(people.strategy(cell.epsilon), collections=cell.weeks)
    for week in range(cell.weeks):
        result = simulate(series, people.schema.users(people.table(week)), seed=task.seed)
    found: dict[str, object] = {}
    for kind, (value, error) in _KINDS.items():
        off = getattr(result, value) - people.truth
        found[f"{kind}_error"] = float(np.sqrt(np.mean(off**2)))
        found[f"{kind}_missed"] = float(np.mean(np.abs(off) > _NORMAL * getattr(result, error)))
    return found


sweep = sweep_of(Cell, _MEASURED, _measured)


def table(runs: pd.DataFrame) -> Table:
    """Return errors and misses by population and epsilon."""
    lines = []
    for (shape, epsilon), own in runs.groupby(["method", "epsilon"], sort=False):
        errors = [f"{np.sqrt((own[f'{kind}_error'] ** 2).mean()):.4f}" for kind in _KINDS]
        misses = [f"{100 * own[f'{kind}_missed'].mean():.1f}" for kind in ("today", "past")]
        lines.append([str(shape), f"{epsilon:g}", *errors, *misses])
    return Table(
        "Levels",
        ["population", "epsilon", "raw", "today", "past", "today missed, %", "past missed, %"],
        lines,
        {"population"},
        "Root mean square error over weeks of a week's own estimate, of the level as it was known "
        "in that week, and of the level in hindsight; and how many of their 95 % bands miss.",
    )


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.recurring", __doc__, seeds=20)
    command.choose("populations", SHAPES)
    command.add_argument("--users", type=int, default=10_000)
    command.add_argument("--weeks", type=int, default=52)
    command.add_argument("--epsilons", type=float, nargs="+", default=[2.0, 4.0, 8.0])
    options = command.options(arguments)
    cells = [Cell(options.users, options.weeks, epsilon) for epsilon in options.epsilons]
    tasks = [
        Task(cell, shape, seed)
        for shape, cell, seed in product(options.populations, cells, options.seeds)
    ]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
