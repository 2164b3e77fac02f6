"""Try regressions and means on data of many kinds, with nothing declared but bounds."""

from itertools import product
from zlib import crc32

import numpy as np
import pandas as pd

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task
from ...harness.tables import Table
from .laws import JUDGED
from .runs import PROTOCOLS, SIZES, TOLD_SPARSITY, cells, sweep


def table(runs: pd.DataFrame) -> Table:
    """Return, by protocol and law of features, what is said and what is not so."""
    lines = []
    for (protocol, features), own in runs.groupby(["method", "features"], sort=False):
        told = own[own["refused"] == 0]
        quiet = told[told["noted"] == 0]
        scores = quiet["z"].dropna()
        noises = SIZES if protocol != "UserLevelMean" else (0.0,)
        errors = [_median(told[told["noise"] == size]["error"]) for size in noises]
        errors += ["-"] * (len(SIZES) - len(errors))
        wrong = quiet["wrong"].sum() if protocol in TOLD_SPARSITY else np.nan
        unstated = (quiet["unstated"] > 0).sum()
        counts = (len(own), len(own) - len(told), told["noted"].sum(), wrong, unstated)
        typical = f"{np.sqrt(np.mean(scores**2)):.2f}" if len(scores) else "-"
        largest = f"{scores.max():.1f}" if len(scores) else "-"
        names = [str(protocol), str(features)]
        lines.append(
            [
                *names,
                *("-" if np.isnan(count) else f"{count:g}" for count in counts),
                typical,
                largest,
                *errors,
            ]
        )
    head = ["protocol", "features", "runs", "refused", "noted", "wrong, unsaid", "no error stated"]
    head += ["z", "largest z"]
    return Table(
        "Presets",
        [*head, *(f"error, noise {size:g}" for size in SIZES)],
        lines,
        {"protocol", "features"},
        "Of runs without a note: those with another support; those that state no error of a "
        "coefficient; root mean square and largest of their errors over the stated ones, which "
        "are 1 if these are right. Errors of predictions, relative, median; of means, over the "
        "distance of one record, in the first column. Laws from "
        f"{JUDGED} on were not looked at while protocols were built.",
    )


def _median(values: "pd.Series[float]") -> str:
    return f"{values.median():.3g}" if values.notna().any() else "-"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.presets", __doc__, seeds=1)
    command.add_argument(
        "--protocols", nargs="+", default=["LdpIht"], choices=PROTOCOLS, metavar="NAME"
    )
    command.add_argument(
        "--share", type=float, default=0.1, help="of the grid that each seed runs (default: .1)"
    )
    options = command.options(arguments)
    tasks = []
    for seed, protocol in product(options.seeds, options.protocols):
        grid = cells(protocol)
        rng = np.random.default_rng([seed, crc32(protocol.encode())])
        some = rng.choice(len(grid), max(1, round(options.share * len(grid))), replace=False)
        tasks += [Task(grid[place], protocol, seed) for place in np.sort(some)]
    carry_out(options, sweep, tasks, table, lambda runs: {})


if __name__ == "__main__":
    main()
