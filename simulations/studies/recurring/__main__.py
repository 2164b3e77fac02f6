"""Measure the levels that a series of collections finds, and whether their bands hold."""

import logging
from dataclasses import dataclass, replace
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
_CHANGE = "change", "change_std_error"  # of permanent answers
_MEASURED = [f"{kind}_{what}" for kind in [*_KINDS, "change"] for what in ("error", "missed")]


@dataclass(frozen=True)
class Cell:
    """A population, and how it is asked; with 0 nodes noise is added at the user."""

    users: int
    weeks: int
    epsilon: float
    memoised: bool = False
    nodes: int = 0


def _measured(task: Task) -> dict[str, object]:
    """Return root mean square errors and shares of 95 % bands that miss, over weeks."""
    logging.disable(logging.CRITICAL)
    cell = task.setting
    rng = np.random.default_rng([task.seed, list(SHAPES).index(task.method)])
    people = SHAPES[task.method](rng, cell.weeks, cell.users)
    asked = people.strategy(cell.epsilon)
    asked = replace(asked, noise="node") if cell.nodes else asked
    series, nodes = Series(asked, collections=cell.weeks, memoised=cell.memoised), cell.nodes or 1
    for week in range(cell.weeks):
        users = people.schema.users(people.table(week))
        result = simulate(series, users, seed=task.seed, num_nodes=nodes)
    found: dict[str, object] = dict.fromkeys(_MEASURED, float("nan"))
    true = dict.fromkeys(_KINDS, people.truth)
    if cell.memoised:
        true["change"] = np.diff(people.truth, axis=0, prepend=np.nan)
    for kind, expected in true.items():
        value, error = _KINDS.get(kind, _CHANGE)
        off = (getattr(result, value) - expected)[kind == "change" :]
        stated = getattr(result, error)[kind == "change" :]
        found[f"{kind}_error"] = float(np.sqrt(np.mean(off**2)))
        found[f"{kind}_missed"] = float(np.mean(np.abs(off) > _NORMAL * stated))
    return found


sweep = sweep_of(Cell, _MEASURED, _measured)


def table(runs: pd.DataFrame) -> Table:
    """Return errors and misses by population and epsilon."""
    lines = []
    kinds = [*_KINDS, "change"]
    for (shape, epsilon, memoised, nodes), own in runs.groupby(
        ["method", "epsilon", "memoised", "nodes"], sort=False
    ):
        errors = [f"{np.sqrt((own[f'{kind}_error'] ** 2).mean()):.4f}" for kind in kinds]
        misses = [f"{100 * own[f'{kind}_missed'].mean():.1f}" for kind in kinds[1:]]
        how = "memoised" if memoised else f"{nodes} nodes" if nodes else "panels"
        lines.append([str(shape), f"{epsilon:g}", how, *errors, *misses])
    return Table(
        "Levels",
        ["population", "epsilon", "how", *kinds, *(f"{kind} missed, %" for kind in kinds[1:])],
        lines,
        {"population", "how"},
        "Root mean square error over weeks of a week's own estimate, of the level as it was known "
        "in that week, of the level in hindsight and, memoised, of the change since the week "
        "before; and how many of their 95 % bands miss.",
    )


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.recurring", __doc__, seeds=20)
    command.choose("populations", SHAPES)
    command.add_argument("--users", type=int, default=10_000)
    command.add_argument("--weeks", type=int, default=52)
    command.add_argument("--epsilons", type=float, nargs="+", default=[2.0, 4.0, 8.0])
    command.add_argument("--memoised", action="store_true", help="permanent answers, not panels")
    command.add_argument("--nodes", type=int, default=0, help="noise at so many nodes")
    options = command.options(arguments)
    cells = [
        Cell(options.users, options.weeks, epsilon, options.memoised, options.nodes)
        for epsilon in options.epsilons
    ]
    tasks = [
        Task(cell, shape, seed)
        for shape, cell, seed in product(options.populations, cells, options.seeds)
    ]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
