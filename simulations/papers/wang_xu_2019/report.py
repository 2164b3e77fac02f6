"""The table and the figure from the file of runs."""

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.runs import select
from ...harness.tables import Table
from .experiments import BASES, CURVES, METHODS, ROWS, VARIED, Setting

_HEAD = ["setting", "method", "nominal eps", "true eps", "median error", "range [seeds]", "data"]
_COLOURS = (figures.GREEN, figures.RED, figures.BLUE, figures.PURPLE)
_MARKERS = ("o", "s", "^", "D")
_LINES = {  # style and width
    "rounds": ("-", 2.0),
    "one round": ("--", 1.2),
    "honest": ("-", 2.0),
    "printed": (":", 1.2),
}
_NAMES = {"dim": "p", "sparsity": "s", "epsilon": "eps"}
_TITLES = {
    "labels": "labels: relative error",
    "silos": "silos: loss above the optimum",
}


def true_epsilon(found: pd.DataFrame) -> str:
    """Return the true epsilon of a method's runs, with its delta."""
    epsilon, delta = found["true_epsilon"].iloc[0], found["delta"].iloc[0]
    if pd.isna(epsilon):
        return "none"
    return f"{epsilon:.4g}" + (f", delta {delta:g}" if delta else "")


def table(runs: pd.DataFrame) -> Table:
    """Return every method at every base setting that has runs."""
    found = []
    for experiment, base in BASES.items():
        for rows in sorted({*ROWS[experiment], base.rows}):
            setting = replace(base, rows=rows)
            for method in METHODS[experiment]:
                some = select(runs, setting, method)
                if some.empty:
                    continue
                spread = f"{some['error'].min():.3g} to {some['error'].max():.3g}"
                found.append(
                    [
                        f"{experiment}: n={rows}, p={base.dim}, s={base.sparsity}",
                        method,
                        f"{base.epsilon:g}",
                        true_epsilon(some),
                        f"{some['error'].median():.3g}",
                        f"{spread} [{len(some)}]",
                        some["data"].iloc[0],
                    ]
                )
    title = "Error, and what each method's noise is truly worth"
    return Table(title, _HEAD, found, names=_HEAD)


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the two figures of the paper, one a row: the library's, the paper's round, the print."""
    figure, every = figures.panels(6, 3, (14 / 3, 5.2))
    for row, (experiment, base) in zip((every[:3], every[3:]), BASES.items(), strict=True):
        for axes, (name, values) in zip(row, VARIED[experiment].items(), strict=True):
            _panel(axes, runs, base, name, values)
        row[0].set_ylabel(_TITLES[experiment])
    figure.tight_layout()
    return {"wang-xu.png": figure}


def _panel(
    axes: Axes, runs: pd.DataFrame, base: Setting, name: str, values: tuple[float, ...]
) -> None:
    axes.set_xscale("log")
    if base.experiment == "labels":
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=1e-3)
    for colour, marker, value in zip(_COLOURS, _MARKERS, values, strict=False):
        for method, kind in CURVES[base.experiment].items():
            points, worth = [], ""
            for rows in ROWS[base.experiment]:
                setting = replace(base, **{name: value, "rows": rows})  # type: ignore[arg-type]
                some = select(runs, setting, method)
                if len(some):
                    points.append((rows, some["error"].median()))
                    worth = true_epsilon(some).split(",")[0]
            if not points:
                continue
            x, y = zip(*points, strict=True)
            style, width = _LINES[kind]
            label = f"{_NAMES[name]}={value:g}, {kind}: true eps {worth}"
            face = "white" if kind == "printed" else colour
            axes.plot(x, y, style, color=colour, marker=marker, mfc=face, lw=width, label=label)
    fixed = {"dim": base.dim, "sparsity": base.sparsity, "epsilon": base.epsilon}
    del fixed[name]
    axes.set_title(", ".join(f"{_NAMES[key]}={value:g}" for key, value in fixed.items()))
    axes.set_xlabel("records n" if base.experiment == "silos" else "users n")
    if base.experiment == "silos":
        axes.axhline(0.005, color=figures.GREY, lw=0.8, ls="--")
    axes.grid(alpha=0.25)
    axes.legend(
        fontsize=7.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2
    )
