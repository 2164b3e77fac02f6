"""The tables and the figure of the benchmarks."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from . import frequency

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_OURS, _OTHER, _INK = "#0b7a75", "#b0532c", "#22313f"
_AXES = {"users": "users n", "dim": "features d", "rows": "records of a user m"}
_SIZES = ("users", "dim", "rows")
_REFERENCE = {"engine": "the echo app", "variates": "drawing variates"}

Slopes = list[dict[str, Any]]


def slopes(runs: pd.DataFrame) -> Slopes:
    """Return the curves of at least three generated cells that differ in one size alone.

    Fitted is the logarithm of the seconds of the processor, which other programs on the
    machine hardly change, against that of the size.
    """
    curves: Slopes = []
    generated = runs[runs.get("place") == "generated"] if len(runs) else runs
    for axis in _AXES:
        fixed = ["name", *(size for size in _SIZES if size != axis)]
        for values, found in generated.groupby(fixed) if len(generated) else ():
            curve = found.drop_duplicates(axis).sort_values(axis)
            if len(curve) < 4:
                continue
            x, y = curve[axis].to_numpy(float), curve["cpu_seconds"].to_numpy(float)
            slope = float(np.polyfit(np.log(x), np.log(y), 1)[0])
            setting = dict(zip(fixed, values, strict=True))
            curves.append({"axis": axis, **setting, "x": list(x), "seconds": list(y)})
            curves[-1]["slope"] = slope
            curves[-1] = {k: v.item() if hasattr(v, "item") else v for k, v in curves[-1].items()}
    return curves


def show(runs: pd.DataFrame, curves: Slopes, oracles: dict[str, Any] | None) -> None:
    """Print everything."""
    console = Console()
    console.width = max(console.width, 160)
    table = Table(title="Each the fastest of its rounds, beside what it is compared with")
    for column in ("place", "name"):
        table.add_column(column, no_wrap=True)
    for column in ("users", "m", "d", "nodes", "users a second", "peak MB", "times", "what"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in runs.itertuples():
        table.add_row(
            row.place,
            row.name,
            *(f"{size:,}" for size in (row.users, row.rows, row.dim, row.nodes)),
            f"{row.users_per_second:,.0f}",
            f"{row.peak_mb:,.0f}",
            f"{row.times_reference:.2f}",
            _REFERENCE.get(row.place, "drawing the data"),
        )
    console.print(table)
    if curves:
        table = Table(title="Seconds grow as a power of the size: fitted slopes")
        for column in ("name", "against", "from", "to", "slope"):
            table.add_column(column, justify="left" if column in ("name", "against") else "right")
        for curve in curves:
            ends = (f"{size:,.0f}" for size in (curve["x"][0], curve["x"][-1]))
            table.add_row(curve["name"], _AXES[curve["axis"]], *ends, f"{curve['slope']:.3f}")
        console.print(table)
    if oracles:
        frequency.show(oracles)


def draw(runs: pd.DataFrame, curves: Slopes, oracles: dict[str, Any] | None, path: Path) -> None:
    """Draw what there is."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    figure, panels = plt.subplots(2, 3, figsize=(17, 9.5), layout="constrained")
    _speeds(panels[0, 0], runs)
    _engine(panels[0, 1], runs)
    _ratios(panels[0, 2], runs, oracles)
    for axes, axis in zip(panels[1], _AXES, strict=True):
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
    axes.set_title(f"CPU seconds against {_AXES[axis]}", loc="left")
    for curve, marker in zip(curves, "os^v<>D", strict=False):
        label = f"{curve['name']}: slope {curve['slope']:.2f}"
        axes.plot(curve["x"], curve["seconds"], marker=marker, label=label)
    axes.set_xlabel(_AXES[axis])
    if curves:
        axes.set_xscale("log")
        axes.set_yscale("log")
        longest = max((curve["x"] for curve in curves), key=len)
        axes.set_xticks(longest, [f"{size:,.0f}" for size in longest], rotation=30)
        axes.minorticks_off()
        axes.legend(fontsize=9, frameon=False)
