"""Draws the pictures of docs/concepts.md. Run ``python docs/figures/concepts.py``."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from ldp_flower.presentation.charts import BLUE, GREEN, GREY, INK, PURPLE, RED, YELLOW, style
from ldp_flower.randomizers import RandomizedResponse

FOLDER = Path(__file__).parents[1]
EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0]
COLOURS = dict(zip(EPSILONS, [PURPLE, BLUE, GREEN, YELLOW, RED], strict=True))


def believed(prior: float, epsilon: float) -> float:
    """Return how sure of a fact a report can at most make somebody who was ``prior`` sure."""
    odds = np.exp(epsilon) * prior / (1 - prior)
    return float(odds / (1 + odds))


def share_error(epsilon: float, num_users: float) -> float:
    """Return the standard error of a share of one half, of people and of noise."""
    noise = RandomizedResponse(epsilon).variance / 4 if np.isfinite(epsilon) else 0.25
    return float(np.sqrt(noise / num_users))


def epsilon_figure() -> Figure:
    """Draw what a report tells, and what it costs in users."""
    figure = Figure(figsize=(8.2, 3.5), layout="constrained")
    belief, cost = figure.subplots(1, 2)
    places = np.arange(len(EPSILONS) + 1)
    for shift, prior, colour in [(-0.2, 0.1, BLUE), (0.2, 0.5, GREEN)]:
        sure = [100 * prior, *(100 * believed(prior, each) for each in EPSILONS)]
        belief.bar(places + shift, sure, 0.38, color=colour, label=f"{100 * prior:g} % sure before")
    belief.set_xticks(places, ["no\nreport", *(f"{each:g}" for each in EPSILONS)])
    belief.set(
        ylim=(0, 125), yticks=range(0, 101, 25), xlabel="epsilon", ylabel="sure after, at most (%)"
    )
    belief.set_title("What one report can tell")
    belief.legend(loc="upper left", ncols=2)
    users = np.geomspace(100, 1e6, 50)
    for epsilon in EPSILONS[:4]:
        error = [100 * share_error(epsilon, each) for each in users]
        cost.loglog(users, error, color=COLOURS[epsilon], label=f"epsilon {epsilon:g}")
    cost.loglog(
        users,
        [100 * share_error(np.inf, each) for each in users],
        "--",
        color=GREY,
        label="no privacy",
    )
    cost.set(xlabel="users", ylabel="standard error (percentage points)")
    cost.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    cost.set_title("What it costs: the share who say yes")
    cost.legend()
    return figure


def _rows(axes: Axes, x: float, y: float, count: int, colour: str) -> None:
    for row in range(count):
        axes.add_patch(Rectangle((x, y + 0.34 * row), 0.62, 0.24, color=colour))


def _around(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    box = FancyBboxPatch(
        (x, y),
        width,
        height,
        boxstyle="round,pad=0.09,rounding_size=0.1",
        fill=False,
        lw=2.5,
        edgecolor=colour,
    )
    axes.add_patch(box)


def units_figure() -> Figure:
    """Draw what one report may protect: a record, a user, a node."""
    figure = Figure(figsize=(8.2, 2.9), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.2, 8.7), ylim=(-0.75, 2.75), aspect="equal")
    axes.axis("off")
    people = [(0.1, 4), (1.1, 2), (2.1, 6), (3.9, 3), (4.9, 5), (5.9, 1), (7.6, 4)]
    for x, count in people:
        _rows(axes, x, 0, count, BLUE)
    for low, high, name in [
        (0, 2.82, "a hospital's node"),
        (3.8, 6.62, "another one"),
        (7.5, 8.32, "a phone"),
    ]:
        axes.plot([low, high], [-0.2, -0.2], color=INK, lw=1.5)
        axes.text((low + high) / 2, -0.5, name, ha="center", va="center", fontsize=10)
    _around(axes, 0.1, 1.02, 0.62, 0.24, PURPLE)
    _around(axes, 2.1, 0, 0.62, 1.94, GREEN)
    _around(axes, 3.9, 0, 2.62, 1.6, RED)
    _around(axes, 7.6, 0, 0.62, 1.26, GREEN)
    for x, y, text, colour in [
        (0.41, 1.62, "record", PURPLE),
        (2.41, 2.3, "user: all rows", GREEN),
        (5.21, 2.0, "node (a silo)", RED),
        (7.75, 1.65, "user = node", GREEN),
    ]:
        axes.text(x, y, text, ha="center", va="center", color=colour, fontweight="bold")
    return figure


def budget_figure() -> Figure:
    """Draw cohorts, of which everyone is in one, and what one ledger says over time."""
    figure = Figure(figsize=(8.2, 3.1), layout="constrained")
    cohorts, ledger = figure.subplots(1, 2, width_ratios=[1, 1])
    for step in range(4):
        cohorts.barh(step, 25, left=25 * step, height=0.6, color=GREEN)
        cohorts.text(
            25 * step + 12.5,
            step,
            "epsilon 2",
            ha="center",
            va="center",
            color="white",
            fontsize=8.5,
        )
    cohorts.set(xlim=(0, 100), xlabel="users (%)", xticks=range(0, 101, 25))
    cohorts.set_yticks(range(4), [f"question {step + 1}" for step in range(4)])
    cohorts.invert_yaxis()
    cohorts.set_title("One run: everyone is asked once")
    spent = [("run 1", 2.0), ("run 1\nagain", 0.0), ("run 2", 1.0), ("run 3", 2.0), ("run 4", 1.0)]
    total = 0.0
    for place, (_, cost) in enumerate(spent):
        ledger.bar(place, total, color=GREY, width=0.6, alpha=0.45)
        if total + cost > 4:
            ledger.bar(place, cost, bottom=total, width=0.6, fill=False, edgecolor=RED, ls="--")
            ledger.text(place, total + cost + 0.1, "refused", ha="center", color=RED, fontsize=9)
        else:
            ledger.bar(place, cost, bottom=total, color=GREEN, width=0.6)
            total += cost
    ledger.axhline(4, color=INK, lw=1.2, ls="--")
    ledger.text(-0.45, 4.1, "max-epsilon", fontsize=9)
    ledger.set_xticks(range(len(spent)), [name for name, _ in spent])
    ledger.set(ylim=(0, 5.8), ylabel="epsilon on the ledger")
    ledger.set_title("One user's ledger")
    return figure


FIGURES = {"epsilon": epsilon_figure, "units": units_figure, "budget": budget_figure}

if __name__ == "__main__":
    with style():
        for name, draw in FIGURES.items():
            draw().savefig(FOLDER / f"{name}.png", dpi=130, facecolor="white")
