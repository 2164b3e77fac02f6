"""The table and the figure, from the file of runs."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from ...harness.figures import save_with_legend
from .methods import METHODS
from .runs import PROBLEMS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_INK = "#22313f"
_STYLES = {  # colour, marker, line
    "LdpFedAvg": ("#0b7a75", "o", "-"),
    "SparseRegression": ("#2f9e44", "P", "-"),
    "LDP-IHT": ("#86b817", "X", "-"),
    "LocalDpMod, calibrated": ("#b0532c", "s", "-"),
    "LocalDpMod, nominal": ("#e08e5b", "s", ":"),
    "DP-SGD in clients": ("#7b5ea7", "^", "--"),
    "DP-FedAvg": ("#4c78a8", "D", "-"),
    "DP-FedAvg, clients clip": ("#4c78a8", "d", ":"),
    "DP-FedAvg, adaptive": ("#8a8f98", "v", "--"),
    "FedAvg": (_INK, "", "--"),
    "local model": ("#8a8f98", "", ":"),
}
# What a score is, and what a panel shows of it; by the first word of a problem's name.
_MEASURES = {
    "a9a": ("AUC", 0.7, 0.91),
    "digits": ("accuracy", 0.0, 1.0),
    "flights": ("R²", 0.4, 0.84),
    "sparse": ("R² without noise", -0.1, 1.05),
}

_EXPLANATION = (
    "Mean score (standard deviation) [seeds] by epsilon. The true epsilons are those of the "
    "same columns; delta is 1e-5 where a guarantee is not pure. Neighbours differ in one "
    "unit's data, replaced. Bytes are a user's in all, without Flower's envelopes; seconds are "
    "of one run, all users simulated in one process, on a machine under other load."
)


def _measure(problem: str) -> tuple[str, float, float]:
    return _MEASURES[problem.replace(",", " ").split()[0]]


def table(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table, one for each method on each problem."""
    epsilons = sorted(float(each) for each in runs["epsilon"].unique() if np.isfinite(each))
    head = ["problem", "method", "trusted", "protects", *(f"eps {each:g}" for each in epsilons)]
    head += ["without", "true epsilon", "rounds", "bytes", "seconds"]
    lines = []
    for problem in PROBLEMS:
        for method, kind in METHODS.items():
            found = runs[(runs["problem"] == problem) & (runs["method"] == method)]
            if found.empty:
                continue
            first = found.iloc[0]
            by_epsilon = {float(e): part for e, part in found.groupby("epsilon")}
            cells = [_cell(by_epsilon.get(each)) for each in epsilons]
            true = ", ".join(f"{part['true_epsilon'].mean():.3g}" for part in by_epsilon.values())
            without = ""
            if not kind.private:
                without = _cell(found)
                true = "0: nothing leaves" if method == "local model" else "none"
            lines.append(
                [
                    f"{problem} ({first['users']:,} users, {_measure(problem)[0]})",
                    method,
                    first["trusted"],
                    _protection(first),
                    *cells,
                    without,
                    true,
                    str(found["rounds"].max()),
                    f"{found['bytes_per_user'].max():,}",
                    f"{found['seconds'].median():.0f}",
                ]
            )
    return head, lines


def _protection(row: "pd.Series[Any]") -> str:
    if row["unit"] == "nothing":
        return "nothing"
    return f"{row['unit']}, {'(eps, delta)' if row['delta'] else 'pure'}"


def _cell(found: pd.DataFrame | None) -> str:
    if found is None:
        return ""
    scores = found["score"].dropna()
    if scores.empty:
        return "refused"
    spread = f" ({scores.std(ddof=1):.3f})" if len(scores) > 1 else ""
    return f"{scores.mean():.3f}{spread} [{len(scores)}]"


def show(runs: pd.DataFrame) -> None:
    """Print the table."""
    head, lines = table(runs)
    console = Console()
    console.width = max(console.width, 170)  # wrapped cells cannot be read
    for problem in dict.fromkeys(line[0] for line in lines):
        printed = Table(title=problem)
        for name in head[1:]:
            printed.add_column(name, justify="left" if name in head[:4] else "right")
        for line in lines:
            if line[0] == problem:
                printed.add_row(*(cell.replace("[", r"\[") for cell in line[1:]))
        console.print(printed)
    console.print(_EXPLANATION, markup=False, highlight=False)


def write_markdown(runs: pd.DataFrame, path: Path) -> None:
    """Write the table as Markdown, and the same cells as CSV beside it."""
    head, lines = table(runs)
    rows = [head, ["---"] * 4 + ["--:"] * (len(head) - 4), *lines]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    path.write_text(f"{text}\n\n{_EXPLANATION}\n", "utf-8")
    pd.DataFrame(lines, columns=head).to_csv(path.with_suffix(".csv"), index=False)


def draw(runs: pd.DataFrame, path: Path) -> Path:
    """Draw the score against the true epsilon, a panel for each problem; return the path."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    shown = [problem for problem in PROBLEMS if (runs["problem"] == problem).any()]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(4.5 * columns, 3.6 * rows), squeeze=False)
    for axes, problem in zip(panels.flat, shown, strict=False):
        _panel(axes, problem, runs[runs["problem"] == problem])
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    save_with_legend(figure, _STYLES, path)
    return path


def _panel(axes: plt.Axes, problem: str, runs: pd.DataFrame) -> None:
    measure, lowest, highest = _measure(problem)
    for method, (colour, marker, line) in _STYLES.items():
        found = runs[runs["method"] == method].dropna(subset="score")
        if found.empty:
            continue
        if not METHODS[method].private:
            axes.axhline(
                max(found["score"].mean(), lowest), color=colour, ls=line, lw=1, label=method
            )
            continue
        points = found.groupby("epsilon")[["true_epsilon", "score"]].mean()
        spread = found.groupby("epsilon")["score"].std(ddof=1).fillna(0)
        spread[points["score"] < lowest] = 0  # drawn at the edge
        axes.errorbar(
            points["true_epsilon"],
            points["score"].clip(lower=lowest),
            spread,
            color=colour,
            marker=marker,
            ls=line,
            ms=5,
            lw=2.2 if method == "LdpFedAvg" else 1.2,
            capsize=2,
            zorder=4 if method == "LdpFedAvg" else 3,
            label=method,
        )
    axes.set_xscale("log", base=2)
    ticks = [1, 2, 4, 8, 16]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    margin = 0.03 * (highest - lowest)
    axes.set_ylim(lowest - margin, highest + margin)
    axes.set_xlabel("true epsilon")
    axes.set_ylabel(measure)
    axes.set_xlim(0.85, 21)
    title = f"{problem}, {runs['users'].iloc[0]:,} users"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
