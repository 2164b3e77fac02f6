"""The table and the figure: what every method reaches on every table, beside no privacy."""

import math
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.tables import Table
from .methods import GATED, NO_PRIVACY, NODES, OURS, REFUSED, SHARED, SILENT
from .schemas import DECLARED

# Colour and marker. The third and fourth are gone; rows of theirs are kept and shown.
_STYLES = {
    OURS: (figures.GREEN, "o"),
    NODES: (figures.INK, "v"),
    SHARED: (figures.INK, "^"),
    "LdpIht": (figures.RED, "s"),
    "SparseRegression": (figures.BLUE, "P"),
    "LdpFedAvg": (figures.PURPLE, "^"),
    "LocalDpMod": (figures.YELLOW, "D"),
}
_FLOOR = {False: -0.1, True: 0.45}  # of R2 and of the AUC, where panels end
_NOTHING = {False: 0.0, True: 0.5}  # what a constant is worth
_BAD = 0.05  # below that
_LOWER = 0.03  # a loss by twice the epsilon that would not be chance


@dataclass(frozen=True)
class Cell:
    """What is shown of a method on a table at an epsilon.

    Attributes
    ----------
    median, worst : float
        Of the scores.
    runs, refused, constant, bad : int
        Number of runs, and of those that were refused, returned a constant, or were worse than
        a constant without a word.
    """

    median: float
    worst: float
    runs: int
    refused: int
    constant: int
    bad: int

    @classmethod
    def of(cls, runs: pd.DataFrame, nothing: float) -> "Cell":
        """Return the cell of some runs."""
        outcome, score = runs["outcome"].fillna(""), runs["score"]
        silent = (outcome == SILENT) & (score < nothing - (_BAD if nothing == 0 else 0))
        counts = (int((outcome == kind).sum()) for kind in (REFUSED, GATED))
        return cls(float(score.median()), float(score.min()), len(runs), *counts, int(silent.sum()))

    def __str__(self) -> str:
        if self.refused > self.runs / 2:
            return "refused"
        marks = [
            f"{count}{letter}"
            for count, letter in ((self.refused, "r"), (self.constant, "c"), (self.bad, "b"))
            if count
        ]
        return " ".join([f"{_short(self.median)} ({_short(self.worst)})", *marks])


def _short(score: float) -> str:
    text = f"{score:.2f}" if abs(score) < 10 else f"{score:.0f}"
    return text.replace("0.", ".", 1) if abs(score) < 1 else text


def cells(runs: pd.DataFrame) -> dict[tuple[str, float, str], Cell]:
    """Return the cells by table, epsilon and method."""
    return {
        (data, epsilon, method): Cell.of(some, _NOTHING[DECLARED[data].is_binary])
        for (data, epsilon, method), some in runs.groupby(["data", "epsilon", "method"], sort=False)
    }


def table(runs: pd.DataFrame) -> Table:
    """Return what all methods reach, a line for each table and epsilon."""
    found = cells(runs)
    shown = [name for name in _STYLES if (runs["method"] == name).any()]
    lines = []
    for data in (name for name in DECLARED if (runs["data"] == name).any()):
        own = runs[runs["data"] == data]
        best = found.get((data, math.inf, NO_PRIVACY))
        for epsilon in sorted(value for value in own["epsilon"].unique() if value < math.inf):
            by_method = [found.get((data, epsilon, name)) for name in shown]
            lines.append(
                [
                    data,
                    "AUC" if DECLARED[data].is_binary else "R2",
                    f"{own['users'].iloc[0]:,}",
                    f"{DECLARED[data].rows_per_user}",
                    "" if best is None else _short(best.median),
                    f"{epsilon:g}",
                    *("" if cell is None else str(cell) for cell in by_method),
                ]
            )
    return Table(
        "Scores on the rows of held-out users",
        ["data", "score", "users", "rows", "no privacy", "epsilon", *shown],
        lines,
        names=["data", "score"],
        explanation=explanation(runs),
    )


def explanation(runs: pd.DataFrame) -> str:
    """Return what the table's numbers are, and how often what is promised did not hold."""
    found = cells(runs)
    lower = []
    for (data, epsilon, method), cell in found.items():
        twice = found.get((data, 2 * epsilon, method))
        if method == OURS and twice is not None and twice.median < cell.median - _LOWER:
            lower.append(
                f"{data} from epsilon {epsilon:g} to {2 * epsilon:g} "
                f"({_short(cell.median)} to {_short(twice.median)})"
            )
    seeds = {
        name: f"{some.groupby(['data', 'epsilon']).size().min()}"
        for name, some in runs.groupby("method", sort=False)
    }
    bad = sum(cell.bad for (_, _, method), cell in found.items() if method == OURS)
    fits = sum(cell.runs for (_, _, method), cell in found.items() if method == OURS)
    return (
        f"{OURS}: PrivateRegression, PrivateClassification. Median (worst) over splits by user: R2 "
        "or AUC on rows of users who had no part in the run. Rows: a public guess of how many a "
        "user has. After the brackets: runs that were refused (r), returned a constant (c), or "
        "were bad without a word (b: R2 below -.05, AUC below .5). Splits a cell, at least: "
        + ", ".join(f"{name} {count}" for name, count in seeds.items())
        + f". Of {fits} runs of {OURS} {bad} were bad without a word. Medians that are lower by "
        f"more than {_short(_LOWER)} at twice the epsilon: {'; '.join(lower) or 'none'}."
    )


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw a panel for each table: every method's median score by epsilon."""
    found = cells(runs)
    names = [name for name in DECLARED if (runs["data"] == name).any()]
    figure, every = figures.panels(len(names), 4, (3.0, 2.5))
    for axes, data in zip(every, names, strict=True):
        _panel(axes, data, runs[runs["data"] == data], found)
    return {"grouped-data.png": figures.legend_below(figure, [*_STYLES, NO_PRIVACY])}


def _panel(
    axes: Axes, data: str, own: pd.DataFrame, found: dict[tuple[str, float, str], Cell]
) -> None:
    binary = DECLARED[data].is_binary
    floor = _FLOOR[binary]
    epsilons = sorted(value for value in own["epsilon"].unique() if value < math.inf)
    if (best := found.get((data, math.inf, NO_PRIVACY))) is not None:
        axes.axhline(best.median, color=figures.INK, ls=":", lw=1.2, label=NO_PRIVACY)
    for name, (colour, marker) in _STYLES.items():
        points = [
            (epsilon, max(cell.median, floor))
            for epsilon in epsilons
            if (cell := found.get((data, epsilon, name))) and cell.refused <= cell.runs / 2
        ]
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, marker=marker, color=colour, ms=5, lw=1.5, label=name)
    axes.axhline(_NOTHING[binary], color=figures.GREY, lw=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
    axes.set_ylim(bottom=floor - 0.01)
    figures.finish(axes, f"{data}, {own['users'].iloc[0]:,} users, {'AUC' if binary else 'R2'}")
