"""The table and the figure: what every way to a head reaches."""

import pandas as pd
from matplotlib.figure import Figure

from ...harness import figures
from ...harness.tables import Table
from .methods import METHODS, NO_PRIVACY, OF_SILOS, RECORDS, REFUSED, ROWS

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def table(runs: pd.DataFrame) -> Table:
    """Return mean accuracies with their standard deviation, a line for a method and holders."""
    lines = []
    for method in (name for name in METHODS if (runs["method"] == name).any()):
        own = runs[runs["method"] == method]
        for holders in sorted(own["holders"].unique()):
            some = own[own["holders"] == holders]
            if method == NO_PRIVACY:
                lines.append([method, "", *[_cell(some)] * len(EPSILONS)])
                continue
            who = f"{holders:,} " + ("silos" if method in OF_SILOS else "users")
            lines.append([method, who, *(_cell(some[some["epsilon"] == e]) for e in EPSILONS)])
    counts = runs.groupby("method", sort=False)["seed"].nunique()
    seeds = ", ".join(f"{method} {count}" for method, count in counts.items())
    return Table(
        "A head on a public encoder",
        ["method", "holders", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        lines,
        names=["method", "holders"],
        explanation=(
            "Mean accuracy (standard deviation) on unseen digits 5 to 9; guessing: .20. "
            f"Seeds: {seeds}. A user holds {ROWS} digits and is protected as a "
            f"whole, at pure epsilon. A silo holds {RECORDS}, each of which is protected, at "
            "delta 1e-5."
        ),
    )


def _cell(runs: pd.DataFrame) -> str:
    if runs.empty:
        return ""
    if (runs["outcome"] == REFUSED).any():
        return REFUSED
    spread = f" ({runs['accuracy'].std():.2f})" if len(runs) > 1 else ""
    return f"{runs['accuracy'].mean():.2f}{spread}".replace("0.", ".")


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw mean accuracy by epsilon, a line for a method and holders."""
    figure, (axes,) = figures.panels(1, 1, (5.0, 3.2))
    named = []
    for (method, holders), own in runs.groupby(["method", "holders"], sort=False):
        mean = own.groupby("epsilon")["accuracy"].mean()
        if method == NO_PRIVACY:
            axes.axhline(mean.iloc[0], color=figures.INK, ls=":", lw=1.2, label=NO_PRIVACY)
            named.append(NO_PRIVACY)
            continue
        named.append(f"{method}, {holders:,}")
        axes.plot(mean.index, mean, "o-", ms=4, lw=1.5, label=named[-1])
    axes.set_xscale("log", base=2)
    axes.set_xticks(EPSILONS, [f"{value:g}" for value in EPSILONS])
    axes.set_xlabel("epsilon")
    figures.finish(axes, "accuracy on unseen digits 5 to 9")
    return {"public-encoder.png": figures.legend_below(figure, named)}
