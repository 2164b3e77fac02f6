"""The table and the figure from the file of runs."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.runs import select
from ...harness.tables import Table
from .experiments import GRIDS, METHODS, Grid

_STYLES = {  # colour, marker, line
    "PeelingDpIht": (figures.GREEN, "o", "-"),
    "PeelingTransfer": (figures.BLUE, "^", "-"),
    "PrivateFrankWolfe": (figures.PURPLE, "D", "-"),
    "DpIht (DP-IGHT)": (figures.YELLOW, "P", "-"),
    "two stages (Kifer et al.)": (figures.RED, "s", "-"),
    "KnowledgeTransfer": (figures.INK, "v", "-"),
    "KnowledgeTransfer, one wave": (figures.INK, "v", ":"),
    "KnowledgeTransfer, answers": (figures.PINK, "X", "-"),
    "printed (no guarantee)": (figures.GREY, "x", "--"),
    "no privacy": (figures.GREY, None, ":"),
}
_MOST_ERROR = 2.0  # of the figure; what is beyond is no estimate


def table(runs: pd.DataFrame) -> Table:
    """Return mean errors by setting and method."""
    shown = [method for method in METHODS if (runs["method"] == method).any()]
    found = []
    for grid in GRIDS.values():
        for setting, methods in grid.points:
            cells = [_cell(select(runs, setting, m)) if m in methods else "" for m in shown]
            if any(cells):
                value = f"{grid.varied.removeprefix('num_')} {getattr(setting, grid.varied):g}"
                found.append([grid.title, value, *cells])
    title = "Relative error, share of wrong classes or MSE; mean (standard deviation)"
    return Table(title, ["setting", "", *shown], found, names=["setting", ""])


def _cell(found: pd.DataFrame) -> str:
    if found.empty:
        return ""
    spread = f" ({found['error'].std(ddof=1):.2f})" if len(found) > 1 else ""
    return f"{found['error'].mean():.2f}{spread}"


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw a panel for every grid that has runs."""
    grids = [
        grid
        for grid in GRIDS.values()
        if any(not select(runs, s, m).empty for s, methods in grid.points for m in methods)
    ]
    figure, every = figures.panels(len(grids), 2, (5, 3.3))
    for axes, grid in zip(every, grids, strict=True):
        _panel(axes, grid, runs)
    return {"knowledge-transfer.png": figures.legend_below(figure, _STYLES)}


def _panel(axes: Axes, grid: Grid, runs: pd.DataFrame) -> None:
    first = grid.points[0][0]
    measure = "relative error" if first.design == "uniform" else "wrong classes"
    measure = "mean squared residual" if first.design == "e2006" else measure
    for method, (colour, marker, line) in _STYLES.items():
        shown = [s for s, methods in grid.points if method in methods]
        points = [(s, select(runs, s, method)["error"]) for s in shown]
        points = [(getattr(s, grid.varied), errors.mean()) for s, errors in points if len(errors)]
        if points:
            x, y = zip(*points, strict=True)
            most = _MOST_ERROR if measure == "relative error" else math.inf
            clipped = [min(value, most) for value in y]
            axes.plot(x, clipped, line, color=colour, marker=marker, ms=5, label=method)
    figures.finish(axes, grid.title)
    axes.set_xlabel("silos" if grid.varied == "num_silos" else "epsilon")
    axes.set_ylabel(measure)
    axes.set_ylim(0, 0.55 if measure == "wrong classes" else None)
    if measure == "relative error":
        axes.set_yscale("log")
        axes.set_ylim(0.01, 1.1 * _MOST_ERROR)
    if grid.varied == "num_silos":
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
