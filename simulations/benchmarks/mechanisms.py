"""Draw the variance of every mechanism against epsilon, from its exact formula."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ldp_flower import randomizers as r

from ..harness.command import Command
from ..harness.figures import finish, panels, save
from .privunit import DuchiBall, PrivUnit
from .unary import OptimizedUnaryEncoding

EPSILONS = np.geomspace(0.25, 8, 24)
DIM, DOMAIN = 64, 1024
Curves = dict[str, Callable[[float], float]]

BALL: Curves = {
    "PrivUnit": lambda e: PrivUnit(e, DIM).variance,
    "Codebook (256 words, 1,024 beyond 4)": lambda e: r.ball_codebook(e, DIM).variance,
    "DuchiBall": lambda e: DuchiBall(e, DIM).variance,
    "Gaussian, delta 1e-5": lambda e: r.GaussianMechanism(e, DIM, delta=1e-5).variance,
}
BOX: Curves = {
    "SubsetHypercube": lambda e: r.SubsetHypercube(e, DIM).variance,
    "PrivUnit on the ball around": lambda e: PrivUnit(e, DIM, radius=DIM**0.5).variance,
    "DuchiBall on the ball around": lambda e: DuchiBall(e, DIM, radius=DIM**0.5).variance,
}
NUMBER: Curves = {
    "HybridMechanism": lambda e: r.HybridMechanism(e).variance,
    "RandomizedResponse": lambda e: r.RandomizedResponse(e).variance,
    "PiecewiseMechanism": lambda e: r.PiecewiseMechanism(e).variance,
    "Laplace": lambda e: 8 / e**2,
}
ITEM: Curves = {
    "SubsetSelection": lambda e: r.SubsetSelection(e, DOMAIN).variance,
    "OptimizedUnaryEncoding": lambda e: OptimizedUnaryEncoding(e, DOMAIN).variance,
    "OptimizedLocalHashing": lambda e: r.OptimizedLocalHashing(e, DOMAIN).variance,
    "HadamardResponse": lambda e: r.HadamardResponse(e, DOMAIN).variance,
    "KRandomizedResponse": lambda e: r.KRandomizedResponse(e, DOMAIN).variance,
}
PANELS = {
    f"vector in the unit ball, {DIM} coordinates": BALL,
    f"vector in the unit box, {DIM} coordinates": BOX,
    "number in [-1, 1]": NUMBER,
    f"item of {DOMAIN:,}": ITEM,
}


def draw() -> Figure:
    """Draw the four panels."""
    figure, axes = panels(4, 4, (4.25, 4.6), layout="constrained")
    for panel, (title, curves) in zip(axes, PANELS.items(), strict=True):
        # Dashes of different lengths, because several curves lie on top of each other.
        for (name, variance), dash in zip(
            curves.items(), ("-", "--", "-.", ":", "-"), strict=False
        ):
            panel.plot(EPSILONS, [variance(float(e)) for e in EPSILONS], dash, label=name, lw=2)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["0.25", "0.5", "1", "2", "4", "8"])
        finish(panel, title)
        panel.set_xlabel("epsilon")
        panel.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("variance of one report per coordinate")
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = Command("simulations.benchmarks.mechanisms", __doc__)
    command.add_argument("output", type=Path, nargs="?", default=Path("variance.png"))
    save(draw(), command.parse_args(arguments).output)


if __name__ == "__main__":
    main()
