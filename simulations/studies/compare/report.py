"""The table and the figure, from the file of runs."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.tables import Table
from .methods import METHODS
from .runs import PROBLEMS

_STYLES = {  # colour, marker, line
    "LdpFedAvg": (figures.GREEN, "o", "-"),
    "SparseRegression": ("#2f9e44", "P", "-"),
    "LDP-IHT": ("#86b817", "X", "-"),
    "LocalDpMod, calibrated": (figures.RED, "s", "-"),
    "LocalDpMod, nominal": ("#e08e5b", "s", ":"),
    "DP-SGD in clients": (figures.PURPLE, "^", "--"),
    "DP-FedAvg": (figures.BLUE, "D", "-"),
    "DP-FedAvg, adaptive": (figures.GREY, "v", "--"),
    "FedAvg": (figures.INK, "", "--"),
    "local model": (figures.GREY, "", ":"),
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


def table(runs: pd.DataFrame) -> Table:
    """Return a line for each method on each problem."""
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
    return Table("", head, lines, names=head[:4], explanation=_EXPLANATION, apart=True)


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


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the score against the true epsilon, a panel for each problem."""
    shown = [problem for problem in PROBLEMS if (runs["problem"] == problem).any()]
    figure, every = figures.panels(len(shown), 3, (4.5, 3.6))
    for axes, problem in zip(every, shown, strict=True):
        _panel(axes, problem, runs[runs["problem"] == problem])
    return {"compare.png": figures.legend_below(figure, _STYLES)}


def _panel(axes: Axes, problem: str, runs: pd.DataFrame) -> None:
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
    figures.finish(axes, f"{problem}, {runs['users'].iloc[0]:,} users")
