"""Draws docs/one-user.png: what one user sends. Run ``python docs/figures/one_user.py``."""

from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from ldp_flower.presentation.charts import GREEN, INK, RED

TRUSTED = "#e3f1ee"
WIDTH, HEIGHT = 2.5, 1.3
STATIONS = [  # title, what happens, centre
    ("rows", "all flights of one\naircraft, however many", 1.5, 3.3),
    ("statistic", "one vector, asked for\nby a known question", 4.5, 3.3),
    ("clip", "to length 1, whatever\nthe rows hold", 7.5, 3.3),
    ("randomise", "one of 256 directions,\nmost likely one close by", 7.5, 1.2),
    ("ledger", "epsilon is paid, or\nnothing is sent", 4.5, 1.2),
    ("byte", "the direction's number,\nall that leaves", 1.5, 1.2),
]


def draw(path: Path) -> None:
    """Draw the picture."""
    figure, axes = plt.subplots(figsize=(9, 4.1))
    figure.subplots_adjust(0, 0, 1, 1)
    axes.set(xlim=(0, 9), ylim=(0.2, 4.3))
    axes.axis("off")
    axes.add_patch(
        FancyBboxPatch(
            (0.1, 0.3), 8.8, 3.9, boxstyle="round,pad=0,rounding_size=0.1", color=TRUSTED
        )
    )
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 2, "shrinkA": 0, "shrinkB": 0}
    for (*_, x, y), (*_, to_x, to_y) in pairwise(STATIONS):
        across, down = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        start = x + across * WIDTH / 2, y + down * HEIGHT / 2
        end = to_x - across * WIDTH / 2, to_y - down * HEIGHT / 2
        axes.annotate("", end, start, arrowprops=arrow)
    for title, says, x, y in STATIONS:
        last = title == "byte"
        box = (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT
        style = {"boxstyle": "round,pad=0,rounding_size=0.1", "facecolor": "white", "lw": 1.5}
        axes.add_patch(FancyBboxPatch(*box, edgecolor=RED if last else GREEN, **style))
        font = {"ha": "center", "va": "center", "color": INK}
        axes.text(x, y + 0.35, title, fontsize=17, fontweight="bold", **font)
        axes.text(x, y - 0.2, says, fontsize=11.5, linespacing=1.3, **font)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "one-user.png")
