"""Tables and figures from the file of runs."""

from dataclasses import asdict
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from ..harness.figures import save_with_legend
from .grids import GRIDS, TABLE, Grid
from .user_level.population import NORM, Setting

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_INK, _PAPER = "#22313f", "#8a8f98"
_STYLES = {  # colour, marker
    "SparseRegression": ("#0b7a75", "o"),
    "two-round": ("#4c78a8", "P"),
    "multi-round": ("#d1779b", "X"),
    "LDP-IHT, per record": ("#b0532c", "s"),
    "local Lasso": ("#7b5ea7", "^"),
    "LDPPROX": ("#c9a227", "D"),
    "oracle": ("#22313f", "v"),
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


def select(runs: pd.DataFrame, setting: Setting, method: str) -> pd.DataFrame:
    """Return the runs of a method at a setting."""
    chosen = runs["method"] == method
    for name, value in asdict(setting).items():
        chosen &= runs[name] == value
    return runs[chosen]


def mean_and_error(values: pd.Series) -> tuple[float, float]:
    """Return the mean and its standard error, NaN where there is one value."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


# ---------------------------------------------------------------------------- table


def table(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table: errors by setting and method."""
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
    return [*head, "2-SLR, figure"], lines


def _cell(found: pd.DataFrame) -> str:
    if found.empty:
        return ""
    mean, error = mean_and_error(found["error"])
    spread = "" if np.isnan(error) else f" ({error:.3f})"
    mark = "*" if found["scale_declared"].any() else ""
    return f"{mean:.3f}{mark}{spread} [{len(found)}]"


EXPLANATION = (
    "Mean of ||coef - truth|| (standard error) [seeds]; returning zero has 0.566. "
    "* root mean square of the targets declared as 1.25 (truth 1.149): too few users to buy it. "
    "2-SLR is read off the paper's figures by eye."
)


def show(runs: pd.DataFrame) -> None:
    """Print the table."""
    head, lines = table(runs)
    printed = Table(title="Error by method")
    for column in head:
        printed.add_column(column, justify="left" if column == "setting" else "right")
    for line in lines:
        printed.add_row(*(cell.replace("[", r"\[") for cell in line))
    console = Console()
    console.width = max(console.width, 150)  # wrapped cells cannot be read
    console.print(printed)
    console.print(EXPLANATION, markup=False, highlight=False)


def write_markdown(runs: pd.DataFrame, path: Path) -> None:
    """Write the table as Markdown, and the same cells as CSV beside it."""
    head, lines = table(runs)
    rows = [head, ["---"] + ["--:"] * (len(head) - 1), *lines]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    path.write_text(f"{text}\n\n{EXPLANATION}\n", "utf-8")
    pd.DataFrame(lines, columns=head).to_csv(path.with_suffix(".csv"), index=False)


# -------------------------------------------------------------------------- figures


def draw(runs: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the figures whose grids have runs; return where they are."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    pictures = []
    for name, grids in _FIGURES.items():
        shown = [GRIDS[grid] for grid in grids if _covered(runs, GRIDS[grid])]
        if not shown:
            continue
        rows = -(-len(shown) // 3)
        columns = min(3, len(shown))
        figure, panels = plt.subplots(
            rows, columns, figsize=(4.3 * columns, 3.5 * rows), squeeze=False
        )
        for axes, grid in zip(panels.flat, shown, strict=False):
            _panel(axes, grid, runs)
        for axes in panels.flat[len(shown) :]:
            axes.set_visible(False)
        save_with_legend(figure, _LEGEND, folder / name)
        pictures.append(folder / name)
    return pictures


def _covered(runs: pd.DataFrame, grid: Grid) -> bool:
    points = [setting for setting in grid.settings.values() if _any(runs, setting)]
    return len(points) > 1


def _any(runs: pd.DataFrame, setting: Setting) -> bool:
    return any(len(select(runs, setting, method)) for method in _STYLES)


def _panel(axes: plt.Axes, grid: Grid, runs: pd.DataFrame) -> None:
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
            axes.plot([], [], "o", ms=8, mfc="none", mec=_INK, label=_DECLARED)
    if grid.published:
        x, y = list(grid.published), list(grid.published.values())
        axes.plot(x, y, color=_PAPER, ls="--", marker="x", label=_PUBLISHED)
    if is_error:
        axes.axhline(NORM, color=_INK, lw=1, ls=":", label=_ZERO)
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
    axes.set_title(grid.title, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
