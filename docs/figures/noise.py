"""Draws docs/noise.png: a mean's error by where noise is. Run ``python docs/figures/noise.py``."""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from ldp_flower.questions import Moments
from ldp_flower.randomizers import RandomizedResponse
from ldp_flower.strategies.sums.budget import Budget

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILON, DELTA = 1.0, 1e-6
INK, GREEN, BLUE, EDGE = "#22303c", "#0f766e", "#2563eb", "#b5502e"
MOMENTS = Moments(np.zeros(1, np.int64), np.zeros(0), 0.0, 1.0)


def at_user(users: float) -> float:
    """Return the noise of a mean of numbers in [0, 1] that every user randomises by itself."""
    return math.sqrt(RandomizedResponse(EPSILON).variance / users) / 2


def at_node(users: float, nodes: int) -> float:
    """Return the noise of the same mean with noise once a node."""
    mechanism = Budget(EPSILON, DELTA, round(users), nodes).ball(3, MOMENTS.radius, 1.0)
    return math.sqrt(nodes * mechanism.variance) / users


def _curves(axes: Axes) -> None:
    users = np.geomspace(1e3, 1e6, 60)
    axes.loglog(users, [at_user(n) for n in users], color=EDGE, lw=2.2, label="at every user")
    styles = ((100, ":"), (10, "--"), (1, "-"))
    for nodes, style in styles:
        label = f"at {nodes} node" + "s" * (nodes > 1)
        errors = [at_node(n, nodes) for n in users]
        axes.loglog(users, errors, color=GREEN, lw=2.2, ls=style, label=label)
    sampling = [0.25 / math.sqrt(n) for n in users]
    axes.loglog(users, sampling, color=INK, lw=1, ls="-.", label="sample of users alone")
    axes.set_xlabel("users in all")
    axes.set_ylabel("standard error of a mean, in ranges")
    axes.set_title(f"epsilon {EPSILON:g}", fontsize=10)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _panel(axes: Axes, title: str, colour: str, at_users: bool) -> None:
    axes.set_xlim(0, 6)
    axes.set_ylim(0, 6)
    axes.axis("off")
    axes.set_title(title, color=colour, fontsize=11, fontweight="bold")
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour}
    for place in (1, 3, 5):
        text = "user\n+ noise" if at_users else "user"
        axes.text(place, 5, text, ha="center", va="center", fontsize=9, bbox=box, color=INK)
        axes.annotate("", (3, 3.4), (place, 4.5), arrowprops={"arrowstyle": "->", "color": colour})
    node = "node: passes on" if at_users else "node: exact sum\n+ noise once"
    axes.text(3, 2.9, node, ha="center", va="center", fontsize=9, bbox=box, color=INK)
    axes.annotate("", (3, 1.2), (3, 2.4), arrowprops={"arrowstyle": "->", "color": colour})
    axes.plot([0.2, 5.8], [1.8, 1.8], color=EDGE, lw=1.4, ls=(0, (5, 3)))
    axes.text(3, 0.8, "server: trusted with nothing", ha="center", fontsize=9, color=EDGE)
    trusted = "you trust your own device" if at_users else "you trust the node with your rows"
    axes.text(3, 0.1, trusted, ha="center", fontsize=9, color=colour, fontweight="bold")


def draw(path: Path) -> None:
    """Draw the picture."""
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12.5, 3.9), layout="constrained", width_ratios=[1, 1, 1.25]
    )
    _panel(left, 'noise="user"', BLUE, at_users=True)
    _panel(middle, 'noise="node"', GREEN, at_users=False)
    _curves(right)
    figure.savefig(path, dpi=130, facecolor="white")


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "noise.png")
