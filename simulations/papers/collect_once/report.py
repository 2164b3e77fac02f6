"""Table and figure from the file of runs."""

from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console
from rich.table import Table

from ...harness.figures import save_with_legend
from .problems import PROBLEMS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_INK = "#22313f"
_COLOURS = {1.0: "#b0532c", 2.0: "#c9a227", 4.0: "#4c78a8", 8.0: "#0b7a75"}
_LINES = {"auto": ("-", "o"), "paper": ("--", "x")}
_ZERO = "answer zero"
EXPLANATION = (
    "Median error [seeds]; 0 is the best possible answer, 1 that of answering zero. "
    "Of the paper's methods delta is 1e-6."
)


def table(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table: median errors by problem, method and epsilon."""
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
    return ["problem", "users", "method", *(f"epsilon {e:g}" for e in epsilons)], lines


def show(runs: pd.DataFrame) -> None:
    """Print the table."""
    head, lines = table(runs)
    printed = Table(title="Collected once: error by number of users")
    for column in head:
        printed.add_column(column, justify="left" if column in head[:3] else "right")
    for line in lines:
        printed.add_row(*(cell.replace("[", r"\[") for cell in line))
    console = Console()
    console.width = max(console.width, 120)  # wrapped cells cannot be read
    console.print(printed)
    console.print(EXPLANATION, markup=False, highlight=False)


def write_markdown(runs: pd.DataFrame, path: Path) -> None:
    """Write the table as Markdown."""
    head, lines = table(runs)
    rows = [head, ["---"] * 3 + ["--:"] * (len(head) - 3), *lines]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    path.write_text(f"{text}\n\n{EXPLANATION}\n", "utf-8")


def draw(runs: pd.DataFrame, path: Path) -> Path:
    """Draw a panel for every problem that has runs."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    shown = [name for name in PROBLEMS if (runs["problem"] == name).any()]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(4.3 * columns, 3.6 * rows), squeeze=False, sharey=True
    )
    for axes, name in zip(panels.flat, shown, strict=False):
        _panel(axes, name, runs[runs["problem"] == name])
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    labels = [f"{method}, epsilon {epsilon:g}" for method in _LINES for epsilon in _COLOURS]
    save_with_legend(figure, [_ZERO, *labels], path)
    return path


def _panel(axes: plt.Axes, name: str, runs: pd.DataFrame) -> None:
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
    axes.axhline(1.0, color=_INK, lw=1, ls=":", label=_ZERO)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("users, one message each")
    axes.set_ylabel(problem.error_name)
    axes.set_title(problem.name, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
