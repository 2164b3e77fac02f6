"""Errors of the protocols that collect once against the number of users.

Run it from the repository's root as ``python -m simulations.collect_once.sweep``. Runs that
are in the CSV already are not repeated, so it may be interrupted and continued.
"""

import argparse
import csv
import itertools
import time
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

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

    def row(self) -> dict[str, Any]:
        """Run it and return the row of the file."""
        started = time.perf_counter()
        error = PROBLEMS[self.problem].run(
            self.num_users, self.seed, epsilon=self.epsilon, method=self.method
        )
        return asdict(self) | {"error": error, "seconds": time.perf_counter() - started}


KEY = [field.name for field in fields(Task)]


def sweep(tasks: list[Task], path: Path) -> None:
    """Run what the file lacks, and append every row as soon as it is known."""
    done: set[tuple[Any, ...]] = set()
    if path.exists():
        done = set(pd.read_csv(path)[KEY].itertuples(index=False, name=None))
    todo = [task for task in tasks if astuple(task) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
    with (
        Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress,
        path.open("a", newline="") as file,
    ):
        bar = progress.add_task("runs", total=len(tasks), completed=len(tasks) - len(todo))
        writer = csv.DictWriter(file, [*KEY, "error", "seconds"])
        if not done:
            writer.writeheader()
        for task in todo:
            named = f"{task.problem}, {task.method}, epsilon {task.epsilon:g}, n {task.num_users:,}"
            progress.update(bar, description=named)
            writer.writerow(task.row())
            file.flush()
            progress.update(bar, advance=1)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.collect_once.sweep", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    add("--methods", nargs="+", choices=METHODS, default=METHODS)
    add("--epsilons", nargs="+", type=float, default=EPSILONS, metavar="EPSILON")
    add("--seeds", type=int, default=4, help="data sets a setting")
    add("--first-seed", type=int, default=0)
    add("--max-users", type=int, default=None, help="leave larger settings out")
    add("--output", type=Path, default=Path("results/collect_once"))
    options = parser.parse_args(arguments)
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
    sweep(tasks, path)
    runs = pd.read_csv(path)
    show(runs)
    write_markdown(runs, options.output / "table.md")
    print(f"Wrote {draw(runs, options.output / 'collect-once.png')}")


if __name__ == "__main__":
    main()
