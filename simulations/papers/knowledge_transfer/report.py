"""The table and the figure from the file of runs."""

from dataclasses import asdict
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console
from rich.table import Table

from ...harness.figures import save_with_legend
from .experiments import GRIDS, METHODS, Grid, Setting

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_STYLES = {  # colour, marker, line
    "PeelingDpIht": ("#0b7a75", "o", "-"),
    "PeelingTransfer": ("#4c78a8", "^", "-"),
    "TwoStageRegression": ("#b0532c", "s", "-"),
    "PrivateFrankWolfe": ("#7b5ea7", "D", "-"),
    "DpIht (DP-IGHT)": ("#c9a227", "P", "-"),
    "KnowledgeTransfer": ("#22313f", "v", "-"),
    "KnowledgeTransfer, one wave": ("#22313f", "v", ":"),
    "KnowledgeTransfer, answers": ("#d1779b", "X", "-"),
    "printed (no guarantee)": ("#8a8f98", "x", "--"),
    "no privacy": ("#8a8f98", None, ":"),
}
_MOST_ERROR = 2.0  # of the figure; what is beyond is no estimate


def select(runs: pd.DataFrame, setting: Setting, method: str) -> pd.DataFrame:
    """Return the runs of a method at a setting."""
    chosen = runs["method"] == method
    for name, value in asdict(setting).items():
        chosen &= runs[name] == value
    return runs[chosen]


def lines(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table: mean errors by setting and method."""
    shown = [method for method in METHODS if (runs["method"] == method).any()]
    found = []
    for grid in GRIDS.values():
        for setting, methods in grid.points:
            cells = [_cell(select(runs, setting, m)) if m in methods else "" for m in shown]
            if any(cells):
                value = f"{grid.varied.removeprefix('num_')} {getattr(setting, grid.varied):g}"
                found.append([grid.title, value, *cells])
    return ["setting", "", *shown], found


def _cell(found: pd.DataFrame) -> str:
    if found.empty:
        return ""
    spread = f" ({found['error'].std(ddof=1):.2f})" if len(found) > 1 else ""
    return f"{found['error'].mean():.2f}{spread}"


def show(runs: pd.DataFrame) -> None:
    """Print the table."""
    head, rows = lines(runs)
    printed = Table(title="Relative error, or share of wrong classes; mean (standard deviation)")
    for column in head:
        printed.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        printed.add_row(*row)
    console = Console()
    console.width = max(console.width, 200)  # wrapped cells cannot be read
    console.print(printed)
    console.print("The printed protocol has no epsilon of its own: the given one is nominal.")


def write_markdown(runs: pd.DataFrame, path: Path) -> None:
    """Write the table as Markdown."""
    head, rows = lines(runs)
    ruled = [head, ["---", "---"] + ["--:"] * (len(head) - 2), *rows]
    path.write_text("\n".join(f"| {' | '.join(row)} |" for row in ruled) + "\n", "utf-8")


def draw(runs: pd.DataFrame, path: Path) -> None:
    """Draw a panel for every grid that has runs."""
    grids = [
        grid
        for grid in GRIDS.values()
        if any(not select(runs, s, m).empty for s, methods in grid.points for m in methods)
    ]
    rows = -(-len(grids) // 2)
    figure, panels = plt.subplots(rows, 2, figsize=(10, 3.3 * rows), squeeze=False)
    for axes, grid in zip(panels.flat, grids, strict=False):
        _panel(axes, grid, runs)
    for axes in panels.flat[len(grids) :]:
        axes.set_visible(False)
    save_with_legend(figure, _STYLES, path)


def _panel(axes: plt.Axes, grid: Grid, runs: pd.DataFrame) -> None:
    for method, (colour, marker, line) in _STYLES.items():
        shown = [s for s, methods in grid.points if method in methods]
        points = [(s, select(runs, s, method)["error"]) for s in shown]
        points = [(getattr(s, grid.varied), errors.mean()) for s, errors in points if len(errors)]
        if points:
            x, y = zip(*points, strict=True)
            clipped = [min(value, _MOST_ERROR) for value in y]
            axes.plot(x, clipped, line, color=colour, marker=marker, ms=5, label=method)
    real = grid.points[0][0].design != "uniform"
    axes.set_title(grid.title, fontsize=10, loc="left")
    axes.set_xlabel("silos" if grid.varied == "num_silos" else "epsilon")
    axes.set_ylabel("wrong classes" if real else "relative error")
    axes.set_ylim(0, 0.55 if real else None)
    if not real:
        axes.set_yscale("log")
        axes.set_ylim(0.01, 1.1 * _MOST_ERROR)
    if grid.varied == "num_silos":
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
