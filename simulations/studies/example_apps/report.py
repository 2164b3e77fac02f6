"""The table: what networks of example apps reach, and what a step takes."""

import math

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
        cells = ["", ""]
        if METHOD in own:
            scored = runs[(runs["app"] == name) & (runs["method"] != STEP_TIME)]
            each_epsilon = (*EPSILONS, math.inf)
            cells[0] = "/".join(_mean(scored[scored["epsilon"] == e]) for e in each_epsilon)
        if STEP_TIME in own:
            fastest = own[STEP_TIME][["ours", "opacus"]].min()
            cells[1] = "/".join(f"{each:.0f}" for each in fastest)
        lines.append([name, *cells])
    seeds = runs["seed"].nunique()
    every = "/".join(f"{each:g}" for each in EPSILONS)
    return Table(
        "Flower's example apps",
        ["app", f"epsilon {every}/none", "ms, Opacus'"],
        lines,
        names=["app"],
        explanation=(
            f"Accuracy on unseen records (lightning: share of the variance), {seeds} seed(s); "
            f"ms of a step on {BATCH} records. {SILOS} silos, 10,000 records, delta 1e-5, "
            f"{ROUNDS * STEPS} steps."
        ),
    )


def _mean(runs: pd.DataFrame) -> str:
    return "" if runs.empty else f"{runs['score'].mean():.2f}".replace("0.", ".", 1)


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw nothing: the table holds all."""
    return {}
