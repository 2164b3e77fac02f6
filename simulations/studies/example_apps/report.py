"""The table: what networks of example apps reach, and what a step takes."""

import pandas as pd
from matplotlib.figure import Figure

from ...harness.tables import Table

EPSILONS = (1.0, 2.0, 4.0, 8.0)
SILOS, ROUNDS, STEPS, BATCH = 5, 5, 20, 64
METHOD, NO_PRIVACY, STEP_TIME = "RecordDpSgd", "no privacy", "a step's time"


def table(runs: pd.DataFrame) -> Table:
    """Return mean scores, a line for an app, and milliseconds of a step."""
    lines = []
    for name in dict.fromkeys(runs["app"]):
        own = {method: each for method, each in runs[runs["app"] == name].groupby("method")}
        cells = ["", "", ""]
        if METHOD in own:
            private = own[METHOD]
            cells[0] = "/".join(_mean(private[private["epsilon"] == e]) for e in EPSILONS)
        if NO_PRIVACY in own:
            cells[1] = _mean(own[NO_PRIVACY])
        if STEP_TIME in own:
            fastest = own[STEP_TIME][["ours", "opacus"]].min()
            cells[2] = "/".join(f"{each:.3g}" for each in fastest)
        lines.append([name, *cells])
    every = "/".join(f"{each:g}" for each in EPSILONS)
    return Table(
        "Flower's example apps",
        ["app", f"epsilon {every}", NO_PRIVACY, "ms, Opacus'"],
        lines,
        names=["app"],
        explanation=(
            "Accuracy on unseen records (lightning, an autoencoder: share of the variance), "
            f"seeds: {runs['seed'].nunique()}; milliseconds of a step on {BATCH} records. "
            f"{SILOS} silos hold 10,000; delta 1e-5, {ROUNDS * STEPS} steps."
        ),
    )


def _mean(runs: pd.DataFrame) -> str:
    return f"{runs['score'].mean():.2f}".replace("0.", ".", 1)


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw nothing: the table holds all."""
    return {}
