"""Errors of the protocols that collect once against the number of users.

Run it from the repository's root as ``python -m simulations.papers.collect_once``. Runs that
are in the CSV already are not repeated, so it may be interrupted and continued.
"""

import argparse
import itertools
import os
import time
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from ldp_flower.sweep import Sweep

from .problems import PROBLEMS
from .report import draw, show, write_markdown

EPSILONS = (1.0, 2.0, 4.0, 8.0)
METHODS = ("auto", "paper")


@dataclass(frozen=True)
class Task:
    """One run."""

    problem: str
    method: str
    epsilon: float
    num_users: int
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row of the file from others."""
        return tuple(str(value) for value in astuple(self))

    @property
    def label(self) -> str:
        """What to show while it runs."""
        return f"{self.problem}, {self.method}, epsilon {self.epsilon:g}, n {self.num_users:,}"


def run(task: Task) -> dict[str, Any]:
    """Return the row of a run."""
    started = time.perf_counter()
    error = PROBLEMS[task.problem].run(
        task.num_users, task.seed, epsilon=task.epsilon, method=task.method
    )
    return asdict(task) | {"error": error, "seconds": time.perf_counter() - started}


KEY = [field.name for field in fields(Task)]
sweep = Sweep(KEY, [*KEY, "error", "seconds"], run)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.papers.collect_once", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    add("--methods", nargs="+", choices=METHODS, default=METHODS)
    add("--epsilons", nargs="+", type=float, default=EPSILONS, metavar="EPSILON")
    add("--seeds", type=int, default=4, help="data sets a setting")
    add("--first-seed", type=int, default=0)
    add("--max-users", type=int, default=None, help="leave larger settings out")
    add("--processes", type=int, default=os.cpu_count() or 1)
    add("--output", type=Path, default=Path("results/collect_once"))
    options = parser.parse_args(arguments)
    # One thread each: workers inherit it, and read it before their linear algebra loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Seed by seed, so that whatever is done when it is interrupted covers all settings.
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    tasks = [
        Task(problem, method, epsilon, num_users, seed)
        for seed, problem in itertools.product(seeds, options.problems)
        for num_users in PROBLEMS[problem].users
        if options.max_users is None or num_users <= options.max_users
        for method, epsilon in itertools.product(options.methods, options.epsilons)
    ]
    path = options.output / "runs.csv"
    sweep(tasks, path, options.processes)
    runs = pd.read_csv(path)
    show(runs)
    write_markdown(runs, options.output / "table.md")
    print(f"Wrote {draw(runs, options.output / 'collect-once.png')}")


if __name__ == "__main__":
    main()
