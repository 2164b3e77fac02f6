"""The table and the figures from the file of runs."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..harness import figures
from ..harness.runs import select
from ..harness.tables import Table
from .grids import GRIDS, TABLE, Grid
from .user_level.population import NORM, Setting

_STYLES = {  # colour, marker
    "SparseRegression": (figures.GREEN, "o"),
    "two-round": (figures.BLUE, "P"),
    "multi-round": (figures.PINK, "X"),
    "LDP-IHT, per record": (figures.RED, "s"),
    "each record": (figures.GREY, "<"),
    "each record at epsilon / m": (figures.GREY, ">"),
    "local Lasso": (figures.PURPLE, "^"),
    "LDPPROX": (figures.YELLOW, "D"),
    "oracle": (figures.INK, "v"),
}
_RINGS = {"SparseRegression": 8, "two-round": 11, "multi-round": 14}  # where a scale is declared
_FIGURES = {
    "user-level-error.png": ["epsilon", "users", "records", "dim", "dim-m200", "correlated"],
    "user-level-selection.png": ["f1", "f1-correlated", "spread"],
}
_PUBLISHED = "2-SLR, read off the paper's figure by eye"
_DECLARED = "ring: its scale declared, not bought"
_ZERO = "return zero"
_LEGEND = [*_STYLES, _DECLARED, _ZERO, _PUBLISHED]
_LIMITS = 0.004, 1.6  # of the error's axis


_EXPLANATION = (
    "Mean of ||coef - truth|| (standard error) [seeds]; returning zero has 0.566. "
    "* root mean square of the targets declared as 1.25 (truth 1.149): too few users to estimate "
    "it. 2-SLR is read off the paper's figures by eye."
)


def mean_and_error(values: pd.Series) -> tuple[float, float]:
    """Return the mean and its standard error, NaN where there is one value."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


# ---------------------------------------------------------------------------- table


def table(runs: pd.DataFrame) -> Table:
    """Return errors by setting and method."""
    methods = [name for name in _STYLES if (runs["method"] == name).any()]
    lines = []
    for name, (setting, published) in TABLE.items():
        line = [name]
        for method in methods:
            found = select(runs, setting, method)
            line.append(_cell(found))
            if method == "SparseRegression":
                line.append(f"{found['f1'].mean():.2f}" if len(found) else "")
        if any(line[1:]):
            lines.append([*line, "" if published is None else f"{published:g}"])
    head = ["setting"]
    for method in methods:
        head += [method, "its F1"] if method == "SparseRegression" else [method]
    head.append("2-SLR, figure")
    return Table("Error by method", head, lines, names=["setting"], explanation=_EXPLANATION)


def _cell(found: pd.DataFrame) -> str:
    if found.empty:
        return ""
    mean, error = mean_and_error(found["error"])
    spread = "" if np.isnan(error) else f" ({error:.3f})"
    mark = "*" if found["scale_declared"].any() else ""
    return f"{mean:.3f}{mark}{spread} [{len(found)}]"


# -------------------------------------------------------------------------- figures


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the figures whose grids have runs."""
    pictures = {}
    for name, grids in _FIGURES.items():
        shown = [GRIDS[grid] for grid in grids if _covered(runs, GRIDS[grid])]
        if shown:
            figure, every = figures.panels(len(shown), 3, (4.3, 3.5))
            for axes, grid in zip(every, shown, strict=True):
                _panel(axes, grid, runs)
            pictures[name] = figures.legend_below(figure, _LEGEND)
    return pictures


def _covered(runs: pd.DataFrame, grid: Grid) -> bool:
    points = [setting for setting in grid.settings.values() if _any(runs, setting)]
    return len(points) > 1


def _any(runs: pd.DataFrame, setting: Setting) -> bool:
    return any(len(select(runs, setting, method)) for method in _STYLES)


def _panel(axes: Axes, grid: Grid, runs: pd.DataFrame) -> None:
    is_error = grid.measure == "error"
    for method, (colour, marker) in _STYLES.items():
        if not is_error and method == "oracle":
            continue
        points = {x: select(runs, setting, method) for x, setting in grid.settings.items()}
        points = {x: found for x, found in points.items() if len(found)}
        if not points:
            continue
        x = list(points)
        stats = np.array([mean_and_error(found[grid.measure]) for found in points.values()])
        mean, spread = stats[:, 0], np.nan_to_num(stats[:, 1])
        ours = method == "SparseRegression"
        axes.errorbar(
            x,
            mean,
            spread,
            color=colour,
            marker=marker,
            ms=5,
            lw=2.2 if ours else 1.2,
            capsize=2,
            zorder=4 if ours else 3,
            label=method,
        )
        declared = [i for i, found in enumerate(points.values()) if found["scale_declared"].any()]
        if declared:
            at = np.array(x)[declared], mean[declared]
            # Hollow, and of another size for each method: nobody's point is covered.
            axes.plot(*at, "o", ms=_RINGS[method], mfc="none", mec=colour, zorder=5)
            axes.plot([], [], "o", ms=8, mfc="none", mec=figures.INK, label=_DECLARED)
    if grid.published:
        x, y = list(grid.published), list(grid.published.values())
        axes.plot(x, y, color=figures.GREY, ls="--", marker="x", label=_PUBLISHED)
    if is_error:
        axes.axhline(NORM, color=figures.INK, lw=1, ls=":", label=_ZERO)
        axes.set_yscale("log")
        axes.set_ylim(*_LIMITS)
        ticks = [0.01, 0.03, 0.1, 0.3, 1]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    else:
        axes.set_ylim(-0.03, 1.05)
    if grid.is_wide:
        axes.set_xscale("log", base=2)
    axes.set_xticks(list(grid.settings), [f"{x:g}" for x in grid.settings])
    axes.minorticks_off()
    axes.set_xlabel(grid.label)
    axes.set_ylabel("error" if is_error else "F1 of the support")
    figures.finish(axes, grid.title)
