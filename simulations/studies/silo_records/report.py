"""The table and the figure: accuracy by silos and epsilon, and by noise to signal."""

import math

import pandas as pd
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.tables import Table

EPSILONS = (1.0, 2.0, 4.0, 8.0)
SILOS = (5, 20, 50)
ROUNDS, STEPS = 5, 4
METHOD, NO_PRIVACY = "RecordDpSgd", "no privacy"


def table(runs: pd.DataFrame) -> Table:
    """Return mean accuracies with their standard deviation, and q, for a table and silos."""
    lines = []
    for name in dict.fromkeys(runs["data"]):
        own = runs[runs["data"] == name]
        plain = _cell(own[own["epsilon"] == math.inf], False)
        for silos in SILOS:
            some = own[own["silos"] == silos]
            cells = (_cell(some[some["epsilon"] == each], True) for each in EPSILONS)
            lines.append([name, f"{silos}", *cells, plain])
    return Table(
        "Linear models over silos",
        ["table", "silos", *(f"epsilon {each:g}" for each in EPSILONS), NO_PRIVACY],
        lines,
        names=["table"],
        explanation=(
            f"Accuracy on a fifth of the rows, then q; splits: {runs['seed'].nunique()}. The other "
            f"rows are dealt to the silos. Delta 1e-5, {ROUNDS} rounds of {STEPS} steps on all "
            "records. Without privacy: the same steps."
        ),
    )


def _cell(runs: pd.DataFrame, with_noise: bool) -> str:
    if runs.empty:
        return ""
    spread = f" ({runs['accuracy'].std():.2f})" if len(runs) > 1 else ""
    noise = f", q {runs['q'].mean():.2g}" if with_noise else ""
    return f"{runs['accuracy'].mean():.2f}{spread}{noise}".replace("0.", ".")


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the accuracy of every run by its q."""
    found = sorted(runs["data"].unique())
    figure, every = figures.panels(len(found), 2, (3.2, 2.6))
    for axes, name in zip(every, found, strict=True):
        own = runs[(runs["data"] == name) & (runs["epsilon"] < math.inf)]
        axes.plot(own["q"], own["accuracy"], "o", ms=3, color=figures.BLUE, label=METHOD)
        axes.set_xscale("log")
        axes.set_xlabel("noise to signal q")
        figures.finish(axes, f"accuracy, {name}")
    return {"silo-records.png": figures.legend_below(figure, [METHOD])}
