"""The tables of the benchmarks."""

from typing import Any

import numpy as np
import pandas as pd

from ..harness.tables import Table
from . import frequency

AXES = {"users": "users n", "dim": "features d", "rows": "records of a user m"}
_SIZES = ("users", "dim", "rows")
_REFERENCE = {"engine": "the echo app", "variates": "drawing variates", "codebook": "PrivUnit"}

Slopes = list[dict[str, Any]]


def slopes(runs: pd.DataFrame) -> Slopes:
    """Return the curves of at least four generated cells that differ in one size alone.

    Fitted is the logarithm of the seconds of the processor, which other programs on the
    machine hardly change, against that of the size.
    """
    curves: Slopes = []
    generated = runs[runs.get("place") == "generated"] if len(runs) else runs
    for axis in AXES:
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


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each protocol: in process, and in the engine with a user a node."""
    alone = (runs["place"] == "engine") & (runs["users"] == runs["nodes"])
    parts = [runs[runs["place"] == "generated"], runs[alone]]
    usual, engine = (part.drop_duplicates("name").set_index("name") for part in parts)
    numbers = ["users_per_second", "times_reference", "peak_mb"]
    found = usual[["users", *numbers]].join(engine[["nodes", *numbers]].add_prefix("engine_"))
    found["times_engine"] = found["users_per_second"] / found["engine_users_per_second"]
    return found.reset_index()


def one_and_many(runs: pd.DataFrame) -> pd.DataFrame:
    """Return LdpIht in the engine with one and with many users a node, beside one process.

    ``faster_in_process`` is how many times more users a second the largest run in process has.
    """
    iht = runs[(runs["name"] == "LdpIht") & (runs["dim"] == 256)]
    largest = iht[iht["place"] == "generated"].sort_values("users").tail(1)
    found = pd.concat([iht[iht["place"].isin(["engine", "grid"])], largest])
    found = found.assign(users_a_node=found["users"] // found["nodes"])
    found["ms_a_message"] = 1e3 * found["seconds"] / found["messages"]
    found["echo_ms_a_message"] = np.where(
        found["place"] == "engine", 1e3 * found["reference_seconds"] / found["messages"], np.nan
    )
    fastest = float(largest["users_per_second"].max()) if len(largest) else np.nan
    found["faster_in_process"] = fastest / found["users_per_second"]
    return found


def _number(value: float) -> str:
    """Format with three digits or more; nothing for what was not measured."""
    if np.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(title: str, rows: pd.DataFrame, columns: dict[str, str]) -> Table:
    """Return some columns under other names."""
    words = [h for c, h in columns.items() if pd.api.types.is_string_dtype(rows[c])]
    lines = [
        [value if isinstance(value, str) else _number(value) for value in values]
        for values in rows[list(columns)].itertuples(index=False)
    ]
    return Table(title, list(columns.values()), lines, words)


_SUMMARY = {
    "name": "protocol",
    "users": "users",
    "users_per_second": "in process:\nusers a second",
    "times_reference": "times drawing\nthe data",
    "peak_mb": "peak MB",
    "engine_nodes": "engine, a user\na node: nodes",
    "engine_users_per_second": "users a second",
    "engine_times_reference": "times\nthe echo app",
    "engine_peak_mb": "peak MB",
    "times_engine": "in process\nfaster by",
}
_ORACLES = ["oracle", "library", "users", "microseconds\na user", "times\nours", "at least"]
_ORACLES += ["empirical\nvariance", "exact\nvariance", "exact\nover ours"]
_ONE_AND_MANY = {
    "place": "place",
    "nodes": "nodes",
    "users_a_node": "users a node",
    "users_per_second": "users a second",
    "ms_a_message": "ms a message",
    "echo_ms_a_message": "the echo app:\nms a message",
    "start_seconds": "seconds\nto start",
    "peak_mb": "peak MB",
    "faster_in_process": "the last\nfaster by",
}


def show(runs: pd.DataFrame, curves: Slopes, oracles: dict[str, Any] | None) -> None:
    """Print everything."""
    head = ["place", "name", "users", "m", "d", "nodes", "users a second", "peak MB", "times"]
    lines = [
        [
            row.place,
            row.name,
            *(f"{size:,}" for size in (row.users, row.rows, row.dim, row.nodes)),
            f"{row.users_per_second:,.0f}",
            f"{row.peak_mb:,.0f}",
            f"{row.times_reference:.2f}",
            _REFERENCE.get(row.place, "drawing the data"),
        ]
        for row in runs.itertuples()
    ]
    title = "Each the fastest of its rounds, beside what it is compared with"
    Table(title, [*head, "what"], lines, head[:2]).show()
    if len(runs):
        _table("Every protocol", summary(runs), _SUMMARY).show()
        _table("LdpIht, d = 256", one_and_many(runs), _ONE_AND_MANY).show()
    if curves:
        lines = [
            [
                curve["name"],
                AXES[curve["axis"]],
                *(f"{size:,.0f}" for size in (curve["x"][0], curve["x"][-1])),
                f"{curve['slope']:.3f}",
            ]
            for curve in curves
        ]
        title = "Seconds grow as a power of the size: fitted slopes"
        Table(title, ["name", "against", "from", "to", "slope"], lines, ["name", "against"]).show()
    if oracles:
        _oracles(oracles).show()


def _oracles(result: dict[str, Any]) -> Table:
    """Return the frequency oracles, oracle by oracle, ours first."""
    lines = []
    for name in frequency.OURS:
        for row in (row for row in result["rows"] if row["oracle"] == name):
            theirs = "times_ours" in row
            lines.append(
                [
                    name if not theirs else "",
                    row["library"],
                    f"{row['users']:,}",
                    f"{row['microseconds']:.3g}",
                    f"{row['times_ours']:.1f}" if theirs else "",
                    str(row["required"]) if row.get("required") else "",
                    f"{row['empirical']:.4g}",
                    f"{row['exact']:.5g}",
                    f"{row['variance_over_ours']:.5f}" if theirs else "",
                ]
            )
    title = f"{result['users']:,} users, {result['domain']:,} items, epsilon {result['epsilon']}"
    return Table(title, _ORACLES, lines, names=_ORACLES[:2])
