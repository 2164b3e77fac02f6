"""The figure: accuracy against epsilon, and what the private model predicts."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from .design import Floats
from .scores import Row, Scores

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_INK, _GREY, _GREEN, _RED = "#22313f", "#8a8f98", "#2b665c", "#934223"
_COLOURS = {"PrivateRegression": _GREEN, "LDP-IHT": _RED}
_TOLD = {
    "PrivateRegression": "bounds only",
    "LDP-IHT": "typical values, and that few columns count",
}
_LOWEST = -0.3  # what lies below is drawn here


def draw(
    result: Any,
    rows: list[Row],
    swept: Scores,
    predicted: Floats,
    actual: Floats,
    path: Path,
) -> None:
    """Draw both panels to ``path``."""
    plt.rcParams.update(
        {
            **{"font.size": 11, "axes.titlesize": 12, "axes.titleweight": "bold"},
            **{"axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False},
            **{"axes.edgecolor": _INK, "text.color": _INK, "legend.frameon": False},
        }
    )
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 4.8), width_ratios=[3, 2], layout="constrained"
    )
    _accuracy(left, result, rows, swept)
    _predictions(right, result, predicted, actual)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _accuracy(axes: plt.Axes, result: Any, rows: list[Row], swept: Scores) -> None:
    ours, colour = rows[0], _COLOURS[rows[0].method]
    for row in (row for row in rows if row.epsilon is None):
        axes.axhline(row.r2, color=_GREY, lw=1, ls="--")
        axes.annotate(
            f"no privacy: {row.method}, {round(row.r2, 2) + 0.0:.2f}",
            (0.0, row.r2),
            xycoords=("axes fraction", "data"),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=9,
            color=_GREY,
        )
    for shift, (name, by_epsilon) in zip((0.97, 1.03), swept.items(), strict=False):
        if any(by_epsilon.values()):
            _runs(axes, name, by_epsilon, shift)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.3))
    axes.plot(
        [ours.epsilon], [max(ours.r2, _LOWEST)], "*", ms=17, color=colour, mec="white", zorder=5
    )
    axes.annotate(
        "this run",
        (ours.epsilon or 1, max(ours.r2, _LOWEST)),
        xytext=(8, -16),
        textcoords="offset points",
        color=colour,
    )
    axes.set_xscale("log", base=2)
    ticks = sorted({ours.epsilon or 1.0}.union(*swept.values()))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(top=max(row.r2 for row in rows) + 0.08)
    axes.set_xlabel("epsilon of each aircraft (smaller is more private)")
    axes.set_ylabel("R² on the flights of held-out aircraft")
    axes.set_title(
        f"{result.num_users:,} aircraft, one randomised report each, no trusted server",
    )


def _runs(axes: plt.Axes, name: str, by_epsilon: dict[float, list[float]], shift: float) -> None:
    """Plot a protocol's runs, and a line through their medians; none where it refuses."""
    by_epsilon = {epsilon: values for epsilon, values in by_epsilon.items() if values}
    epsilons = shift * np.array(list(by_epsilon))
    values = np.clip(np.array(list(by_epsilon.values())), _LOWEST, 1)
    colour = _COLOURS[name]
    each = np.repeat(epsilons, values.shape[1])
    axes.plot(each, values.ravel(), "o", color=colour, alpha=0.3, mew=0)
    axes.plot(
        epsilons,
        np.median(values, axis=1),
        "-o",
        color=colour,
        lw=2,
        label=f"{name}, told {_TOLD[name]}",
    )


def _predictions(axes: plt.Axes, result: Any, predicted: Floats, actual: Floats) -> None:
    low, high = -60, 240
    shown = axes.hexbin(
        predicted,
        actual,
        gridsize=60,
        extent=(low, high, low, high),
        bins="log",
        cmap="BuGn",
        mincnt=1,
        linewidths=0.2,
    )
    axes.plot([low, high], [low, high], color=_GREY, lw=1, ls="--")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_xlabel("predicted arrival delay (minutes)")
    axes.set_ylabel("actual arrival delay (minutes)")
    axes.set_title(
        f"Their flights at epsilon {result.privacy.epsilon:g}: predicted and actual",
    )
    axes.figure.colorbar(shown, ax=axes, label="flights", pad=0.02)
