"""Table and figure from the file of runs."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.tables import Table
from .problems import PROBLEMS

_COLOURS = {1.0: figures.RED, 2.0: figures.YELLOW, 4.0: figures.BLUE, 8.0: figures.GREEN}
_LINES = {"auto": ("-", "o"), "paper": ("--", "x")}
_ZERO = "answer zero"
_EXPLANATION = (
    "Median error [seeds]; 0 is the best possible answer, 1 that of answering zero. "
    "Of the paper's methods delta is 1e-6."
)


def table(runs: pd.DataFrame) -> Table:
    """Return median errors by problem, method and epsilon."""
    epsilons = sorted(runs["epsilon"].unique())
    lines = []
    for name, problem in PROBLEMS.items():
        for users, method in [(n, m) for n in problem.users for m in _LINES]:
            chosen = runs[
                (runs["problem"] == name)
                & (runs["num_users"] == users)
                & (runs["method"] == method)
            ]
            if chosen.empty:
                continue
            found = (chosen[chosen["epsilon"] == epsilon]["error"] for epsilon in epsilons)
            cells = [f"{cell.median():.3f} [{len(cell)}]" if len(cell) else "" for cell in found]
            lines.append([problem.name, f"{users:,}", method, *cells])
    names = ["problem", "users", "method"]
    head = [*names, *(f"epsilon {e:g}" for e in epsilons)]
    title = "Collected once: error by number of users"
    return Table(title, head, lines, names, _EXPLANATION)


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw a panel for every problem that has runs."""
    shown = [name for name in PROBLEMS if (runs["problem"] == name).any()]
    figure, every = figures.panels(len(shown), 4, (4.3, 3.6), sharey=True)
    for axes, name in zip(every, shown, strict=True):
        _panel(axes, name, runs[runs["problem"] == name])
    labels = [f"{method}, epsilon {epsilon:g}" for method in _LINES for epsilon in _COLOURS]
    return {"collect-once.png": figures.legend_below(figure, [_ZERO, *labels])}


def _panel(axes: Axes, name: str, runs: pd.DataFrame) -> None:
    problem = PROBLEMS[name]
    for method, (line, marker) in _LINES.items():
        for epsilon, colour in _COLOURS.items():
            chosen = runs[(runs["method"] == method) & (runs["epsilon"] == epsilon)]
            if chosen.empty:
                continue
            errors = chosen.groupby("num_users")["error"]
            middle = errors.median()
            label = f"{method}, epsilon {epsilon:g}"
            axes.plot(middle.index, middle, ls=line, marker=marker, ms=5, color=colour, label=label)
            if method == "auto":
                axes.fill_between(
                    middle.index, errors.min(), errors.max(), color=colour, alpha=0.12, lw=0
                )
    axes.axhline(1.0, color=figures.INK, lw=1, ls=":", label=_ZERO)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("users, one message each")
    axes.set_ylabel(problem.error_name)
    figures.finish(axes, problem.name)
