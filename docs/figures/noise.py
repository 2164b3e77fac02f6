"""Draws docs/noise.png: a mean's error by where noise is. Run ``python docs/figures/noise.py``."""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from ldp_flower.presentation.charts import BLUE, GREEN, INK, RED
from ldp_flower.questions import Moments
from ldp_flower.randomizers import RandomizedResponse
from ldp_flower.strategies.sums.budget import Budget

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILON, DELTA = 1.0, 1e-6
MOMENTS = Moments(np.zeros(1, np.int64), np.zeros(0), 0.0, 1.0)


def at_user(users: float) -> float:
    """Return the noise of a mean of numbers in [0, 1] that every user randomises by itself."""
    return math.sqrt(RandomizedResponse(EPSILON).variance / users) / 2


def at_nodes(users: float, nodes: int, honest: int = 1) -> float:
    """Return the noise of the same mean with noise at nodes, of which so many are relied on."""
    budget = Budget(EPSILON, DELTA, round(users), nodes, honest=honest)
    return budget.error(budget.ball(3, MOMENTS.radius, 1.0))


def _curves(axes: Axes) -> None:
    users = np.geomspace(1e3, 1e6, 60)
    axes.loglog(users, [at_user(n) for n in users], color=RED, lw=2.2, label="at every user")
    for nodes, style in ((100, ":"), (10, "-")):
        errors = [at_nodes(n, nodes) for n in users]
        axes.loglog(users, errors, color=GREEN, lw=2.2, ls=style, label=f"at {nodes} nodes")
    shared = [at_nodes(n, 10, 7) for n in users]
    axes.loglog(users, shared, color=BLUE, lw=2.2, ls="--", label="shared by 10 nodes, 2 colluding")
    sampling = [0.25 / math.sqrt(n) for n in users]
    axes.loglog(users, sampling, color=INK, lw=1, ls="-.", label="sample of users alone")
    axes.set_xlabel("users in all")
    axes.set_ylabel("standard error of a mean, in ranges")
    axes.set_title(f"epsilon {EPSILON:g}", fontsize=10)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _panel(axes: Axes, noise: str, colour: str) -> None:
    user, node, trusted = {
        "user": ("user\n+ noise", "node: passes on", "your own device"),
        "node": ("user", "node: exact sum\n+ noise once", "the node with your rows"),
        "shared": (
            "user",
            "node: exact sum, masked\n+ a part of the noise",
            "that node, and most others",
        ),
    }[noise]
    axes.set_xlim(0, 6)
    axes.set_ylim(0, 6)
    axes.axis("off")
    axes.set_title(f'noise="{noise}"', color=colour, fontsize=11, fontweight="bold")
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour}
    arrow = {"arrowstyle": "->", "color": colour}
    for place in (1, 3, 5):
        axes.text(place, 5, user, ha="center", va="center", fontsize=9, bbox=box, color=INK)
        axes.annotate("", (3, 3.4), (place, 4.5), arrowprops=arrow)
    if noise == "shared":  # other nodes, whose sums are masked, too
        for place in (0.3, 5.7):
            axes.text(place, 2.9, "node", ha="center", va="center", fontsize=9, bbox=box, color=INK)
            axes.annotate("", (3, 1.2), (place, 2.5), arrowprops=arrow)
    axes.text(3, 2.9, node, ha="center", va="center", fontsize=9, bbox=box, color=INK)
    axes.annotate("", (3, 1.2), (3, 2.4), arrowprops=arrow)
    axes.plot([0.2, 5.8], [1.8, 1.8], color=RED, lw=1.4, ls=(0, (5, 3)))
    seen = "sees only the sum of all nodes" if noise == "shared" else "trusted with nothing"
    axes.text(3, 0.8, f"server: {seen}", ha="center", fontsize=9, color=RED)
    axes.text(3, 0.1, f"you trust {trusted}", ha="center", fontsize=9, color=colour, weight="bold")


def draw(path: Path) -> None:
    """Draw the picture."""
    figure, axes = plt.subplots(
        1, 4, figsize=(16, 3.9), layout="constrained", width_ratios=[1, 1, 1.1, 1.3]
    )
    places = zip(("user", "node", "shared"), (RED, GREEN, BLUE), strict=True)
    for own, (noise, colour) in zip(axes, places, strict=False):
        _panel(own, noise, colour)
    _curves(axes[-1])
    figure.savefig(path, dpi=130, facecolor="white")


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "noise.png")
