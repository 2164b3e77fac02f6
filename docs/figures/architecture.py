"""Draws docs/architecture.png: a row on its way. Run ``python docs/figures/architecture.py``."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from ldp_flower.presentation.charts import GREEN, GREY, INK, RED

TRUSTED, OPEN = "#e3f1ee", "#f6ece6"
WIDTH, HEIGHT = 1.66, 1.16


@dataclass(frozen=True)
class Station:
    """A place that a row passes: what happens there, and where that is written.

    Attributes
    ----------
    title : str
        One noun or verb.
    name : str
        The function or class.
    path : str
        The file that has it.
    says : str
        What it does, in a few words.
    x, y : float
        The centre of its box.
    """

    title: str
    name: str
    path: str
    says: str
    x: float
    y: float


_TOP, _MIDDLE, _BOTTOM = 5.25, 3.55, 1.15
STATIONS = [
    Station("row", "Users.from_rows", "data/users.py", "whose each row is", 1.0, _TOP),
    Station("statistic", "values_of", "clients/values.py", "one value a user", 2.95, _TOP),
    Station("clip", "Randomizer._own", "randomizers/base.py", "NaN is the centre", 4.9, _TOP),
    Station("randomise", "Randomizer.randomize", "randomizers/base.py", "at epsilon", 6.85, _TOP),
    Station("ledger", "Node.answer_once", "clients/node.py", "paid before sent", 8.8, _TOP),
    Station("check", "respond", "clients/respond.py", "closed registry, policy", 2.95, _MIDDLE),
    Station("byte", "Report", "guarantee/messages.py", "all that leaves", 8.8, _MIDDLE),
    Station(
        "collect",
        "Exchange.answer",
        "strategies/runtime/exchange.py",
        "no forgeries; debiases",
        8.8,
        _BOTTOM,
    ),
    Station(
        "strategy",
        "LdpStrategy.start",
        "strategies/runtime/base.py",
        "asks on, until it knows",
        2.95,
        _BOTTOM,
    ),
    Station("estimate", "Result", "strategies/runtime/result.py", "with its error", 1.0, _BOTTOM),
]
_WAY = [
    "row",
    "statistic",
    "clip",
    "randomise",
    "ledger",
    "byte",
    "collect",
    "strategy",
    "estimate",
]


def _box(axes: Axes, station: Station, colour: str) -> None:
    corner = station.x - WIDTH / 2, station.y - HEIGHT / 2
    style = "round,pad=0,rounding_size=0.09"
    axes.add_patch(
        FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle=style, facecolor="white", edgecolor=colour)
    )
    for text, down, size, weight, ink in [
        (station.title, 0.21, 11.5, "bold", INK),
        (station.says, 0.45, 8, "normal", INK),
        (station.name, 0.73, 7.6, "bold", colour),
        (station.path.replace("strategies/", ""), 0.94, 7, "normal", GREY),
    ]:
        family = "monospace" if down > 0.5 else "sans-serif"
        y = station.y + HEIGHT / 2 - down
        axes.text(
            station.x, y, text, ha="center", va="center", color=ink, fontsize=size,
            fontweight=weight, family=family,
        )  # fmt: skip


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=arrow)


def _between(axes: Axes, one: Station, other: Station, colour: str) -> None:
    """Draw an arrow from edge to edge, along the row or the column that both lie in."""
    if one.y == other.y:
        side = WIDTH / 2 if other.x > one.x else -WIDTH / 2
        _arrow(axes, (one.x + side, one.y), (other.x - side, other.y), colour)
    else:
        side = HEIGHT / 2 if other.y > one.y else -HEIGHT / 2
        _arrow(axes, (one.x, one.y + side), (other.x, other.y - side), colour)


def draw(path: Path) -> None:
    """Draw the picture."""
    figure, axes = plt.subplots(figsize=(9.8, 6.3))
    figure.subplots_adjust(0, 0, 1, 1)
    axes.set(xlim=(0, 9.8), ylim=(0.2, 6.5))
    axes.axis("off")
    for low, high, colour in [(2.62, 6.4, TRUSTED), (0.3, 2.22, OPEN)]:
        axes.axhspan(low, high, 0.008, 0.992, color=colour)
    axes.plot([0.08, 9.72], [2.42, 2.42], color=RED, lw=2, ls=(0, (5, 3)))
    at = {station.title: station for station in STATIONS}
    for one, other in pairwise(_WAY):
        _between(axes, at[one], at[other], INK)
    _between(axes, at["check"], at["statistic"], GREEN)
    _between(axes, at["strategy"], at["check"], RED)
    for station in STATIONS:
        _box(axes, station, GREEN if station.y > 2 else RED)
    words = [
        (0.2, 6.16, "CLIENT, beside the data: trusted, and checked by its operator", GREEN, "left"),
        (0.2, 2.0, "SERVER: not trusted", RED, "left"),
        (6.0, 2.42, "trust boundary", RED, "center"),
    ]
    for x, y, text, colour, side in words:
        font = {"color": colour, "fontsize": 9.5, "fontweight": "bold"}
        behind = "white" if side == "center" else "none"
        frame = {"facecolor": behind, "edgecolor": "none", "pad": 2}
        axes.text(x, y, text, ha=side, va="center", bbox=frame, **font)
    asked = "question, randomizer, cohort: a Query"
    axes.text(3.07, 2.0, asked, color=RED, fontsize=8.5, va="center")
    axes.text(8.68, 2.0, "1-2 bytes a user", color=INK, fontsize=8.5, ha="right", va="center")
    figure.savefig(path, dpi=130, facecolor="white")


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "architecture.png")
