"""Count how often the stated 95 % intervals of descriptions miss what they are about."""

import logging
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import product

import numpy as np
import pandas as pd

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .populations import COLUMNS
from .protocols import OF_NUMBERS, PROTOCOLS, Cell, measure

_USERS, _EPSILONS, _NUMBERS, _ROWS, _PLACES = (
    (400, 4000, 40_000),
    (0.5, 1.0, 2.0, 4.0, 8.0),
    (1, 3, 9),
    ("one", "some"),
    ((0, False), (3, False), (10, False), (10, True)),  # nodes, and whether they share noise
)
_MEASURED = ("intervals", "missed", "noted", "width", "error", "refused")
_HUGE = 9  # stands for a domain that no node counts all items of
_SHOWN = 40  # intervals from which a cell may be the worst


def cells() -> Iterator[tuple[str, Cell]]:
    """Yield the whole grid: protocols, and populations."""
    for protocol in PROTOCOLS:
        columns = COLUMNS if protocol in OF_NUMBERS else ("zipf",)
        numbers = (1,) if protocol == "Distribution" else _NUMBERS
        for key in product(columns, _USERS, _EPSILONS, numbers, _ROWS, _PLACES):
            cell = Cell(*key[:-1], *key[-1])
            if protocol != "HeavyHitters" or not cell.nodes or cell.number < _HUGE:
                yield protocol, cell


def chosen(patterns: list[str]) -> list[tuple[str, Cell]]:
    """Return what matches one of the patterns, as ``Quantiles/ratings/4000/1.0/3/one`` is named.

    With noise at nodes the number of nodes follows: ``Quantiles/ratings/4000/1.0/3/one/10``, and
    ``/shared`` if they share it.
    """
    return [
        (protocol, cell)
        for protocol, cell in cells()
        if any(fnmatch(f"{protocol}/{cell.name}", each) for each in patterns)
    ]


def in_fifth(cell: Cell, seed: int) -> bool:
    """Return whether a cell is in the fifth of the grid that a seed runs.

    All else being equal one of the five epsilons is; five seeds in a row run all.
    """
    columns = [*COLUMNS, "zipf"]
    place = (
        2 * columns.index(cell.column)
        + _USERS.index(cell.users)
        + _NUMBERS.index(cell.number)
        + _ROWS.index(cell.rows)
        + _EPSILONS.index(cell.epsilon)
    )
    return place % len(_EPSILONS) == seed % len(_EPSILONS)


def _measured(task: Task) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    return measure(task.method, task.setting, task.seed)


sweep = sweep_of(Cell, _MEASURED, _measured)


def table(runs: pd.DataFrame) -> Table:
    """Return, by protocol, column and epsilon, how many intervals miss, and in which cell most."""
    lines = []
    by = ["method", "column", "nodes", "shared"]
    for (protocol, column, nodes, shared), own in runs.groupby(by, sort=False):
        told = own[own["refused"] == 0]
        by_cell = told.groupby(["users", "epsilon", "number", "rows"])[
            ["intervals", "missed"]
        ].sum()
        by_cell = by_cell[by_cell["intervals"] >= min(_SHOWN, by_cell["intervals"].max())]
        rates = by_cell["missed"] / by_cell["intervals"]
        worst = "-"
        if len(rates):
            users, epsilon, number, rows = rates.idxmax()
            worst = f"{rates.max():.0%}: {users} users, {epsilon:g}, {number}, {rows}"
        shares = [_share(told[told["epsilon"] == epsilon]) for epsilon in _EPSILONS]
        middle = [_median(told[name]) for name in ("width", "error")]
        noted = f"{told['noted'].mean():.0%}" if len(told) else "-"
        noise = f"{nodes} nodes{', shared' if shared else ''}" if int(nodes) else "user"
        lines.append([str(protocol), str(column), noise, *shares, worst, *middle, noted])
    head = ["protocol", "column", "noise", *(f"eps {epsilon:g}" for epsilon in _EPSILONS)]
    head += ["worst cell", "width", "error", "noted"]
    return Table(
        "Coverage",
        head,
        lines,
        {"protocol", "column", "noise", "worst cell"},
        "Shares of the stated 95 % intervals that miss, in percent, +- their binomial standard "
        "error, by epsilon. Worst cell: users, epsilon, levels (columns, kinds of categories), "
        "rows of a user. Width, median of all runs: of intervals of quantiles in rank over "
        "3.92 sqrt((noise + p (1 - p)) levels / n), and of bands over that of Kolmogorov's for as "
        "much noise. Error, median: root mean square; of a distribution function the largest.",
    )


def _median(values: "pd.Series[float]") -> str:
    return f"{values.median():.3g}" if values.notna().any() else "-"


def _share(runs: pd.DataFrame) -> str:
    intervals = int(runs["intervals"].sum())
    if not intervals:
        return "-"
    share = runs["missed"].sum() / intervals
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / intervals):.1f}"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.coverage", __doc__, seeds=10)
    command.add_argument(
        "--cells",
        nargs="+",
        default=["*/4000/1.0/?/*e", "*/4000/4.0/?/*e"],
        metavar="PATTERN",
        help="protocol/column/users/epsilon/number/rows, with noise at nodes also /nodes, and "
        "/shared (default: 4,000 users, epsilon 1 and 4, noise at the user)",
    )
    command.add_argument(
        "--fifth", action="store_true", help="each seed a fifth of the cells, five seeds all"
    )
    options = command.options(arguments)
    found = chosen(options.cells)
    if not found and not options.only_report:
        command.error(f"Expected patterns of cells such as '*/ratings/*', got {options.cells}.")
    tasks = [
        Task(cell, protocol, seed)
        for seed in options.seeds
        for protocol, cell in found
        if not options.fifth or in_fifth(cell, seed)
    ]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
