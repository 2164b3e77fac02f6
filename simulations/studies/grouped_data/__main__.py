"""Compare private regressions on real tables with users, then print the table and draw the figure.

Run it from the repository's root as ``python -m simulations.studies.grouped_data``. Runs that
are in the CSV already are not repeated, so it may be interrupted and continued, and asked
for more splits later.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from ldp_flower.sweep import Task

from .data import READERS
from .methods import METHODS
from .report import draw, show, write_markdown
from .runs import Setting, sweep_of

EPSILONS = (1.0, 2.0, 4.0)


def main(
    data: Annotated[Path | None, typer.Option(help="folder of the data sets but flights")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="data set (all there are)")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="method (all)")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="epsilon (1, 2 and 4)")] = None,
    splits: Annotated[int, typer.Option(min=1, help="divisions of the users")] = 30,
    first: Annotated[int, typer.Option(help="seed of the first")] = 0,
    quick: Annotated[bool, typer.Option(help="made-up people, two splits: seconds")] = False,
    processes: Annotated[int, typer.Option(min=1)] = os.cpu_count() or 1,
    output: Annotated[Path, typer.Option()] = Path("results/grouped_data"),
) -> None:
    """Compare private regressions on real tables with users, by their error on held-out users."""
    # One thread each: workers inherit it, and read it before their linear algebra loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    real = [name for name in READERS if name != "synthetic"]
    chosen = sets or (["synthetic"] if quick else real if data else ["flights"])
    _check(chosen, READERS)
    _check(method or [], METHODS)
    # Data set by data set, for a process keeps one; then seed by seed.
    tasks = [
        Task(Setting(name, each), kind, seed)
        for name in chosen
        for seed in range(first, first + (2 if quick else splits))
        for each in epsilon or EPSILONS
        for kind in method or METHODS
    ]
    path = output / "runs.csv"
    sweep_of(data)(tasks, path, processes)
    runs = pd.read_csv(path, keep_default_na=False)
    show(runs)
    write_markdown(runs, output / "table.md")
    draw(runs, output / "grouped-data.png")
    print(f"Wrote {output}/grouped-data.png and table.md")


def _check(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"Expected one of {', '.join(known)}, got {name}.")


if __name__ == "__main__":
    typer.run(main)
