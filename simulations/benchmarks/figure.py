"""The figure of the benchmarks."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ..harness.figures import GREEN as _OURS
from ..harness.figures import INK, finish
from ..harness.figures import RED as _OTHER
from .report import AXES, Slopes, one_and_many, summary


def draw(runs: pd.DataFrame, curves: Slopes, oracles: dict[str, Any] | None) -> Figure:
    """Draw what there is."""
    figure = Figure(figsize=(11, 15), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.1, 1.4])
    speeds, ratios = above.subplots(1, 2)
    scales = below.subplots(2, 2).flat
    _speeds(speeds, summary(runs))
    _ratios(ratios, runs, oracles)
    _one_and_many(scales[0], one_and_many(runs))
    for axes, axis in zip(scales[1:], AXES, strict=True):
        _curves(axes, axis, [curve for curve in curves if curve["axis"] == axis])
    return figure


def _speeds(axes: Axes, rows: pd.DataFrame) -> None:
    finish(axes, "users a second")
    where = np.arange(len(rows))[::-1]
    both = rows[["engine_users_per_second", "users_per_second"]].to_numpy(float)
    axes.hlines(where, *both.T, color="#c9d1d6", lw=1.5, zorder=1)
    axes.scatter(both[:, 1], where, color=_OURS, label="in process, one core")
    axes.scatter(
        both[:, 0],
        where,
        color=_OTHER,
        marker="s",
        label="Flower's engine, a user a node",
    )
    axes.set_yticks(where, rows["name"])
    if len(rows):
        axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=10, loc="lower center", bbox_to_anchor=(0.2, 1.04), frameon=False)


def _one_and_many(axes: Axes, rows: pd.DataFrame) -> None:
    finish(axes, "LdpIht, d = 256: users a second")
    engine = rows[rows["place"] == "engine"].sort_values("users")
    alone = engine["users"] == engine["nodes"]
    for part, marker, color, label in (
        (engine[alone], "s", _OTHER, "engine, a user a node"),
        (engine[~alone], "o", _OURS, "engine, 10 nodes"),
        (rows[rows["place"] == "grid"], "^", INK, "InProcessGrid, a user a node"),
        (rows[rows["place"] == "generated"], "D", INK, "in process, one node"),
    ):
        if not part.empty:
            line = "-" if len(part) > 1 else ""
            axes.plot(
                part["users"],
                part["users_per_second"],
                line,
                marker=marker,
                color=color,
                label=label,
            )
    if len(rows):
        axes.set_xscale("log")
        axes.set_yscale("log")
        _legend(axes)
    axes.set_xlabel("users in all")
    axes.grid(alpha=0.3)


def _ratios(axes: Axes, runs: pd.DataFrame, oracles: dict[str, Any] | None) -> None:
    finish(axes, "times as long as, side by side")
    bars: list[tuple[str, float, str]] = []
    for row in runs[runs["place"] == "variates"].itertuples():
        bars.append((f"{row.name} / its variates", row.times_reference, _OURS))
    for row in runs[runs["place"] == "codebook"].itertuples():
        bars.append((f"codebook, {row.name} / PrivUnit", row.times_reference, _OURS))
    for row in runs[runs["place"] == "arrays"].itertuples():
        bars.append((f"{row.name} / its data", row.times_reference, _OURS))
    iht = runs[(runs["place"] == "engine") & (runs["name"] == "LdpIht")]
    for row in iht[iht["users"] == iht["nodes"]].itertuples():
        bars.append((f"engine, {row.nodes:,} nodes / echo app", row.times_reference, _OTHER))
    for row in (oracles or {"rows": []})["rows"]:
        if "times_ours" in row:
            bars.append((f"{row['library']} {row['oracle']} / ours", row["times_ours"], INK))
    where = np.arange(len(bars))[::-1]
    axes.barh(where, [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    for position, bar in zip(where, bars, strict=True):
        axes.text(bar[1] * 1.08, position, f"{bar[1]:.3g}", va="center")
    axes.set_yticks(where, [bar[0] for bar in bars])
    axes.axvline(1, color=INK, lw=0.8)
    if bars:
        axes.set_xscale("log")
        axes.set_xlim(0.5, 3 * max(2.0, *(bar[1] for bar in bars)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")


def _curves(axes: Axes, axis: str, curves: Slopes) -> None:
    finish(axes, f"CPU seconds against {AXES[axis]}")
    for curve, marker, color in zip(curves, "os^v", (_OURS, _OTHER, INK, "grey"), strict=False):
        label = f"{curve['name']}: slope {curve['slope']:.2f}"
        axes.plot(curve["x"], curve["seconds"], marker=marker, color=color, label=label)
    axes.set_xlabel(AXES[axis])
    axes.grid(alpha=0.3)
    if curves:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter("")
        if axis != "users":  # powers of two, not of ten
            sizes = sorted({size for curve in curves for size in curve["x"]})
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.xaxis.set_minor_formatter("")
        _legend(axes)


def _legend(axes: Axes) -> None:
    """Put the legend above all curves, where room is made for it."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.4)
    axes.legend(fontsize=10, loc="upper left", frameon=False)
