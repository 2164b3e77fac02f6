"""The protocols that collect once on real data: runs, table and figure.

The census is read with ``--adult a9a``; without it there is a smaller question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .questions import hourly, kernel_fit, question, titles
from .runs import METHODS

EPSILONS = (1.0, 2.0, 4.0, 8.0)
_LINES = ("-", "--")
_COLOURS = (figures.GREEN, figures.BLUE, figures.RED)
_MEASURED = ["users", "measure", "constant", "not_private", "value"]


@dataclass(frozen=True)
class Setting:
    """A question, and each user's epsilon."""

    study: str
    epsilon: float


def run(adult: Path | None, task: Task) -> dict[str, Any]:
    """Return what is measured of a run, with what it is to be compared with."""
    asked = question(task.setting.study, adult)
    return {
        "users": asked.users,
        "measure": asked.measure,
        "constant": asked.baseline,
        "not_private": asked.best,
        "value": asked.run(task.setting.epsilon, task.seed, task.method),
    }


def table(runs: pd.DataFrame) -> Table:
    """Return medians by study, method and epsilon."""
    lines = []
    for title, some in runs.groupby("study", sort=False):
        first = some.iloc[0]
        for method in METHODS:
            medians = some[some["method"] == method].groupby("epsilon")["value"].median()
            cells = [f"{value:.3f}" for value in medians.reindex(EPSILONS)]
            names = [str(title), first["users"], first["measure"], f"{first['constant']:.3f}"]
            lines.append([*names, method, *cells, f"{first['not_private']:.3f}"])
    names = ["study", "users", "measure", "constant", "method"]
    head = [*names, *(f"epsilon {e:g}" for e in EPSILONS), "not private"]
    return Table("Real data, collected once: medians", head, lines, names)


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw what epsilon gives, and the curve of delays by the time of day."""
    figure, (left, middle, right) = figures.panels(3, 3, (14 / 3, 4.2))
    shown = list(dict.fromkeys(runs["study"]))
    _over_epsilon(left, runs, shown[:2])
    figures.finish(left, "Arrival delay, 12 numbers (R2)")
    _by_hour(middle)
    figures.finish(middle, "Delay by time of day")
    _over_epsilon(right, runs, shown[-1:])
    figures.finish(right, shown[-1])
    for axes in (left, middle, right):
        axes.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2
        )
    figure.tight_layout()
    return {"collect-once-real.png": figure}


def _over_epsilon(axes: Axes, runs: pd.DataFrame, shown: Sequence[str]) -> None:
    for title, colour in zip(shown, _COLOURS, strict=False):
        some = runs[runs["study"] == title]
        for method, line in zip(METHODS, _LINES, strict=True):
            values = some[some["method"] == method].groupby("epsilon")["value"].median()
            label = f"{some['users'].iloc[0]}, {method}"
            axes.plot(values.index, values, line, marker="o", ms=4, color=colour, label=label)
    first = runs[runs["study"] == shown[0]].iloc[0]
    axes.axhline(first["not_private"], color=figures.INK, lw=1, ls="-.", label="not private")
    axes.axhline(first["constant"], color=figures.INK, lw=1, ls=":", label="a constant")
    axes.set_xscale("log", base=2)
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axes.set_xlabel("epsilon")
    axes.set_ylabel(first["measure"])


def _by_hour(axes: Axes) -> None:
    means = hourly()
    axes.plot(
        means.index, means["delay"], "o", color=figures.INK, ms=5, label="hourly means, not private"
    )
    hours = np.linspace(5, 24, 200)[:, None]
    for colour, (epsilon, aircraft) in zip(
        _COLOURS, ((1.0, False), (4.0, True), (1.0, True)), strict=True
    ):
        fit = kernel_fit(epsilon, 0, "auto", aircraft)
        who = "aircraft" if aircraft else "flights"
        axes.plot(hours, fit.predict(hours), color=colour, label=f"{who}, epsilon {epsilon:g}")
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("departure delay, minutes (within 60)")


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.papers.collect_once.real_data", __doc__, seeds=5)
    command.set_defaults(processes=1)
    command.add_argument("--adult", type=Path, help="UCI Adult as LIBSVM's a9a")
    options = command.options(arguments)
    # Study by study, for a process keeps the data of one.
    tasks = [
        Task(Setting(title, epsilon), method, seed)
        for title in titles(options.adult)
        for method in METHODS
        for epsilon in EPSILONS
        for seed in options.seeds
    ]
    sweep = sweep_of(Setting, _MEASURED, partial(run, options.adult))
    carry_out(options, sweep, tasks, table, draw)


if __name__ == "__main__":
    main()
