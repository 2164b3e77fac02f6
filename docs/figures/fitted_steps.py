"""Draws docs/fitted-steps.png: fitted steps. Run ``python docs/figures/fitted_steps.py``."""

import csv
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from ldp_flower.presentation.charts import GREEN, GREY, RED, STYLE, finish

CASES = Path(__file__).with_name("fitted-steps.csv")
LOWEST = 0.5  # what is below is drawn here
ENOUGH, FEW = 0.97, 0.6  # share of the best that is good; q above which a run warns
STYLES = {
    "equal steps": {"marker": "x", "color": RED, "s": 30, "lw": 1.3},
    "fitted steps": {"marker": "o", "color": GREEN, "s": 30},
}
TITLES = {"tuned": "Tuned on nine apps", "judged": "Judged on eight others"}


def shares(which: str, steps: str) -> tuple[list[float], list[float]]:
    """Return q and the share of the best path's score, of each case of a set."""
    with CASES.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == which]
    found = [float(row[steps]) / float(row["best hand-set path"]) for row in rows]
    return [float(row["q"]) for row in rows], found


def _panel(axes: Axes, which: str) -> None:
    axes.axhline(ENOUGH, color=GREY, lw=1, ls="--")
    axes.axvline(FEW, color=GREY, lw=1, ls=":")
    for steps, style in STYLES.items():
        q, found = shares(which, steps)
        axes.scatter(q, [max(share, LOWEST) for share in found], label=steps, **style)
    finish(axes, TITLES[which])
    axes.set_xscale("log")
    ticks = [0.05, 0.1, 0.2, 0.6, 1, 2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0.035, 2)
    axes.set_ylim(LOWEST - 0.02, 1.04)
    axes.set_xlabel("q = sqrt(d c / n)")


def draw() -> Figure:
    """Return the figure, a panel for each set."""
    plt.rcParams.update(STYLE)
    figure, every = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, which in zip(every, TITLES, strict=True):
        _panel(axes, which)
    every[0].set_ylabel("share of the best path's score")
    every[0].legend(loc="lower right", frameon=False)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    draw().savefig(CASES.parents[1] / "fitted-steps.png", dpi=110)
