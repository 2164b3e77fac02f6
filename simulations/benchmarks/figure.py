"""The figure of the benchmarks."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from .report import AXES, Slopes

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_OURS, _OTHER, _INK = "#0b7a75", "#b0532c", "#22313f"


def draw(runs: pd.DataFrame, curves: Slopes, oracles: dict[str, Any] | None, path: Path) -> None:
    """Draw what there is."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    figure, panels = plt.subplots(2, 3, figsize=(17, 9.5), layout="constrained")
    _speeds(panels[0, 0], runs)
    _engine(panels[0, 1], runs)
    _ratios(panels[0, 2], runs, oracles)
    for axes, axis in zip(panels[1], AXES, strict=True):
        _curves(axes, axis, [curve for curve in curves if curve["axis"] == axis])
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _speeds(axes: plt.Axes, runs: pd.DataFrame) -> None:
    axes.set_title("users a second", loc="left")
    usual = runs[runs["place"] == "generated"].drop_duplicates("name", keep="first")
    alone = runs[(runs["place"] == "engine") & (runs["users"] == runs["nodes"])]
    alone = alone.drop_duplicates("name").set_index("name")["users_per_second"]
    where = np.arange(len(usual))[::-1]
    axes.scatter(usual["users_per_second"], where, color=_OURS, label="in process, data drawn")
    engine = [alone.get(name, np.nan) for name in usual["name"]]
    axes.scatter(engine, where, color=_OTHER, marker="s", label="engine, a user a node")
    axes.set_yticks(where, usual["name"])
    axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right", frameon=True)


def _engine(axes: plt.Axes, runs: pd.DataFrame) -> None:
    axes.set_title("LDP-IHT, d=256, in Flower's engine", loc="left")
    found = runs[(runs["place"] == "engine") & (runs["name"] == "LdpIht")]
    for alone, marker in ((True, "s"), (False, "o")):
        part = found[(found["users"] == found["nodes"]) == alone].sort_values("users")
        if part.empty:
            continue
        label = "a user a node" if alone else f"{part['nodes'].iloc[0]} nodes"
        axes.plot(
            part["users"],
            part["users_per_second"],
            marker=marker,
            color=_OTHER if alone else _OURS,
            label=label,
        )
    whole = runs[(runs["place"] == "generated") & (runs["name"] == "LdpIht")]
    whole = whole[whole["dim"] == 256].sort_values("users")
    if len(whole) > 1:
        axes.plot(
            whole["users"], whole["users_per_second"], color=_INK, ls="--", label="in process"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("users in all")
    axes.set_ylabel("users a second")
    axes.legend(fontsize=9, frameon=False)


def _ratios(axes: plt.Axes, runs: pd.DataFrame, oracles: dict[str, Any] | None) -> None:
    axes.set_title("times as long as, side by side", loc="left")
    bars: list[tuple[str, float, str]] = []
    for row in runs[runs["place"] == "variates"].itertuples():
        bars.append((f"{row.name} / its variates", row.times_reference, _OURS))
    for row in runs[runs["place"] == "arrays"].itertuples():
        bars.append((f"{row.name} / its data", row.times_reference, _OURS))
    for row in runs[(runs["place"] == "engine") & (runs["name"] == "LdpIht")].itertuples():
        nodes = f"{row.nodes:,} nodes of {row.users // row.nodes:,}"
        bars.append((f"engine, {nodes} / echo", row.times_reference, _OTHER))
    for row in (oracles or {"rows": []})["rows"]:
        if "times_ours" in row:
            bars.append((f"{row['library']} {row['oracle']} / ours", row["times_ours"], _INK))
    where = np.arange(len(bars))[::-1]
    axes.barh(where, [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    for position, bar in zip(where, bars, strict=True):
        axes.text(bar[1] * 1.05, position, f"{bar[1]:.3g}", va="center", fontsize=8)
    axes.set_yticks(where, [bar[0] for bar in bars], fontsize=8)
    axes.axvline(1, color=_INK, lw=0.8)
    if bars:
        axes.set_xscale("log")
        axes.set_xlim(0.5, 2 * max(2.0, *(bar[1] for bar in bars)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")


def _curves(axes: plt.Axes, axis: str, curves: Slopes) -> None:
    axes.set_title(f"CPU seconds against {AXES[axis]}", loc="left")
    for curve, marker in zip(curves, "os^v<>D", strict=False):
        label = f"{curve['name']}: slope {curve['slope']:.2f}"
        axes.plot(curve["x"], curve["seconds"], marker=marker, label=label)
    axes.set_xlabel(AXES[axis])
    if curves:
        axes.set_xscale("log")
        axes.set_yscale("log")
        longest = max((curve["x"] for curve in curves), key=len)
        axes.set_xticks(longest, [f"{size:,.0f}" for size in longest], rotation=30)
        axes.minorticks_off()
        axes.legend(fontsize=9, frameon=False)
