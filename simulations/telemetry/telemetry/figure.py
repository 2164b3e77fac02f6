"""The figure: what the server learns, beside what nobody told it."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower.strategies import CountsResult

from .data import DESTINATIONS, chosen, fleet
from .questions import LEVELS, delays_by_carrier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_INK, _PRIVATE, _TRUTH, _GREY = "#22313f", "#2b665c", "#934223", "#8a8f98"
_MOST = 12  # destinations


def weights(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Return what each flight counts where aircraft count alike."""
    return (1 / rows.groupby("tailnum")["tailnum"].transform("size")).to_numpy(np.float64)


def quantile(rows: pd.DataFrame, level: float) -> float:
    """Return a quantile of delays where aircraft count alike."""
    values, weight = rows["arr_delay"].to_numpy(np.float64), weights(rows)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][np.searchsorted(below, level)])


def draw(flown: CountsResult, epsilon: float, seed: int, num_users: int, output: Path) -> None:
    """Draw delays by carrier and the most frequent destinations to ``telemetry.png``."""
    rows = chosen(seed, num_users)
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    _delays(left, rows, epsilon, seed)
    _destinations(right, rows, flown)
    figure.suptitle(
        f"{rows['tailnum'].nunique():,} aircraft, one randomised report of each to each question, "
        f"epsilon {epsilon:g} a question",
        x=0.01,
        ha="left",
    )
    figure.savefig(output / "telemetry.png", dpi=150)
    plt.close(figure)


def _delays(axes: plt.Axes, rows: pd.DataFrame, epsilon: float, seed: int) -> None:
    found = delays_by_carrier(rows, epsilon, seed)
    names = sorted(found, key=lambda name: float(found[name].values[1]))
    for place, name in enumerate(names):
        result, own = found[name], fleet(rows, name)
        low, median, high = result.values
        axes.plot([low, high], [place, place], color=_PRIVATE, lw=8, alpha=0.25)
        spans = [result.values - result.lower, result.upper - result.values]
        axes.errorbar(result.values, [place] * 3, xerr=spans, fmt="none", color=_PRIVATE, lw=1.2)
        axes.plot(median, place, "o", ms=8, color=_PRIVATE)
        axes.plot([quantile(own, level) for level in LEVELS], [place] * 3, "|", **_mark())
    labels = [f"{name} ({fleet(rows, name)['tailnum'].nunique()})" for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.axvline(0, color=_GREY, lw=0.8)
    axes.set_xlabel("minutes late on arrival: 10 %, half and 90 % of flights are earlier")
    _title(axes, "Delays by airline, each asking its own aircraft")


def _destinations(axes: plt.Axes, rows: pd.DataFrame, flown: CountsResult) -> None:
    listed = np.array(flown.categories) != "other"
    order = [i for i in np.argsort(-flown.shares, kind="stable") if listed[i]][:_MOST]
    places, weight = np.arange(len(order)), weights(rows)
    axes.errorbar(
        100 * flown.shares[order],
        places,
        xerr=196 * flown.std_error[order],
        fmt="o",
        color=_PRIVATE,
        label="private, with 95 % intervals",
    )
    dest = rows["dest"].where(rows["dest"].isin(DESTINATIONS), "other").to_numpy()
    truth = [100 * weight[dest == flown.categories[i]].sum() / weight.sum() for i in order]
    axes.plot(truth, places, "|", label="the truth, which nobody told", **_mark())
    axes.set_yticks(places, [flown.categories[i] for i in order])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("share of an aircraft's flights, %")
    axes.legend(frameon=False, loc="lower right")
    _title(axes, "The most frequent destinations")


def _mark() -> dict[str, object]:
    return {"ms": 14, "mew": 2.2, "color": _TRUTH, "zorder": 5}


def _title(axes: plt.Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
