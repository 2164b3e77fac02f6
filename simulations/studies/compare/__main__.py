"""Compare LDP with what one would use instead: runs, table and figure.

Run it from the repository's root as ``python -m simulations.studies.compare``. Runs that are in the
CSV already are not repeated, so it may be interrupted and continued, and asked for
more seeds later.
"""

import argparse
import math
import os
from pathlib import Path

import pandas as pd

from .methods import METHODS
from .report import draw, show, write_markdown
from .runs import PROBLEMS, Task, sweep

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def tasks_of(
    problem: str,
    methods: list[str],
    epsilons: list[float],
    seed: int,
    folder: Path | None,
) -> list[Task]:
    """Return the runs of a problem at a seed."""
    return [
        Task(problem, name, epsilon, seed, folder)
        for name in methods
        if METHODS[name].handles(problem)
        for epsilon in (epsilons if METHODS[name].private else [math.inf])
    ]


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.studies.compare", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="PROBLEM")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    add("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    add("--seeds", type=int, default=1, help="splits, users and noise (default: 1)")
    add("--data", type=Path, default=None, help="folder with a9a; else it is downloaded")
    add("--processes", type=int, default=1)
    add("--output", type=Path, default=Path("results/compare"))
    options = parser.parse_args(arguments)
    # One thread each: workers inherit it, and read it before their linear algebra loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    tasks = [
        task
        for seed in range(options.seeds)
        for problem in options.problems
        for task in tasks_of(problem, options.methods, options.epsilons, seed, options.data)
    ]
    path = options.output / "runs.csv"
    sweep(tasks, path, options.processes)
    runs = pd.read_csv(path)
    show(runs)
    write_markdown(runs, options.output / "table.md")
    print(f"Wrote {draw(runs, options.output / 'compare.png')}")


if __name__ == "__main__":
    main()
