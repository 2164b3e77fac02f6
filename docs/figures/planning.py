"""Draws docs/planning.png: how near plans are to runs. Run ``python docs/figures/planning.py``."""

import csv
from collections.abc import Iterator
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from ldp_flower.presentation.charts import BLUE, GREEN, GREY, PURPLE, RED, STYLE

DOCS = Path(__file__).parents[1]
STUDY = DOCS.parent / "simulations" / "studies" / "planning"
#: What is looked for in each file, with its colour; real tables are on the study's page.
FAMILIES = {
    "table_models": ("models of tables", GREEN),
    "analytics": ("statistics of tables", BLUE),
    "sparse": ("sparse models and means", PURPLE),
    "one_question": ("one question; updates", RED),
}
SLACK = 0.05  # share of items that is missed or not, of ten
RIGHT = 0.9  # share of a protocol's cells within 25 % with which it is not in the table
_FARTHEST = 3.2


def runs(family: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return planned and measured errors of a family's cells, by protocol."""
    with (STUDY / f"{family}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        own = [row for row in rows if row["protocol"] == protocol]
        found[protocol] = tuple(
            np.array([float(row[name]) for row in own]) for name in ("planned", "measured")
        )
    return found


def near(protocol: str, planned: np.ndarray, measured: np.ndarray, factor: float) -> np.ndarray:
    """Return which cells lie within a factor, or for lists of items within .05."""
    slack = SLACK if protocol == "HeavyHitters" else 0.0
    return (measured <= factor * planned + slack) & (planned <= factor * measured + slack)


def lines() -> Iterator[str]:
    """Yield the lines of the table in docs/planning.md: of protocols whose plans are often off."""
    yield "| protocol | cells | within 25 % | within a factor 2 |"
    yield "|---|--:|--:|--:|"
    for family in FAMILIES:
        for protocol, (planned, measured) in runs(family).items():
            shares = [near(protocol, planned, measured, factor).mean() for factor in (1.25, 2)]
            if shares[0] >= RIGHT:
                continue
            told = " | ".join(f"{100 * share:.0f} %" for share in shares)
            yield f"| `{protocol}` | {len(planned)} | {told} |"


def draw() -> Figure:
    """Return the figure, a row for each protocol."""
    plt.rcParams.update(STYLE)
    found = [(f, p, *errors) for f in FAMILIES for p, errors in runs(f).items()]
    figure, axes = plt.subplots(figsize=(8, 0.4 + 0.26 * len(found)), layout="constrained")
    rng, told = np.random.default_rng(0), set()
    for place, (family, protocol, planned, measured) in enumerate(found):
        name, colour = FAMILIES[family]
        slack = SLACK if protocol == "HeavyHitters" else 0.0  # of which nothing may be missed
        ratio = np.clip((measured + slack) / (planned + slack), 1 / _FARTHEST, _FARTHEST)
        heights = place + rng.uniform(-0.25, 0.25, len(ratio))
        label = None if family in told else name
        told.add(family)
        axes.scatter(ratio, heights, s=9, color=colour, lw=0, alpha=0.7, label=label)
    for value, style in ((1, "-"), (0.8, "--"), (1.25, "--"), (0.5, ":"), (2, ":")):
        axes.axvline(value, color=GREY, lw=0.8, ls=style, zorder=0)
    axes.set_yticks(range(len(found)), [protocol for _, protocol, *_ in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.minorticks_off()
    ticks = [1 / 3, 0.5, 0.8, 1, 1.25, 2, 3]
    axes.set_xticks(ticks, ["1/3", "1/2", ".8", "1", "1.25", "2", "3"])
    axes.set_xlabel("measured error over planned error, median runs")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return figure


if __name__ == "__main__":
    draw().savefig(DOCS / "planning.png", dpi=110)
    print("\n".join(lines()))
