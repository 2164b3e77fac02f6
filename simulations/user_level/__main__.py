"""Run the experiment's grids, then print the table and draw the figures.

Run it from the repository's root as ``python -m simulations.user_level``. Runs that are
in the CSV already are not repeated, so it may be interrupted and continued, and asked
for more seeds later.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

from .grids import GRIDS, settings_of
from .report import draw, show, write_markdown
from .runs import Task, sweep
from .user_level.methods import METHODS

EVERYTHING = [*GRIDS, "table"]


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.user_level", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="six settings, two seeds")
    add("--grids", nargs="*", choices=EVERYTHING, default=EVERYTHING, metavar="GRID")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    add("--seeds", type=int, default=None, help="populations a setting (5, quick: 2)")
    add("--max-users", type=int, default=None, help="leave larger settings out")
    add("--processes", type=int, default=os.cpu_count() or 1)
    add("--output", type=Path, default=Path("results/user_level"))
    options = parser.parse_args(arguments)
    # One thread each: workers inherit it, and read it before their linear algebra loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    names = ["quick"] if options.quick else options.grids
    seeds = options.seeds or (2 if options.quick else 5)
    # Seed by seed, so that whatever is done when it is interrupted covers all settings.
    tasks = [
        Task(setting, method, seed)
        for seed in range(seeds)
        for setting in settings_of(names)
        if options.max_users is None or setting.num_users <= options.max_users
        for method in options.methods
    ]
    path = options.output / "runs.csv"
    sweep(tasks, path, options.processes)
    runs = pd.read_csv(path)
    show(runs)
    write_markdown(runs, options.output / "table.md")
    for picture in draw(runs, options.output):
        print(f"Wrote {picture}")


if __name__ == "__main__":
    main()
