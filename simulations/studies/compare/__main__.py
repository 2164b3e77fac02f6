"""Compare LDP with what one would use instead: runs, table and figure."""

import math
from pathlib import Path

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task
from .methods import METHODS
from .report import draw, table
from .runs import PROBLEMS, Setting, sweep_in

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def tasks_of(problem: str, methods: list[str], epsilons: list[float], seed: int) -> list[Task]:
    """Return the runs of a problem at a seed."""
    return [
        Task(Setting(problem, epsilon), name, seed)
        for name in methods
        if METHODS[name].handles(problem)
        for epsilon in (epsilons if METHODS[name].private else [math.inf])
    ]


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand("simulations.studies.compare", __doc__, seeds=1)
    command.set_defaults(processes=1)
    command.choose("--problems", PROBLEMS)
    command.choose("--methods", METHODS)
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    command.add_argument("--data", type=Path, help="folder with a9a; else it is downloaded")
    options = command.options(arguments)
    tasks = [
        task
        for seed in options.seeds
        for problem in options.problems
        for task in tasks_of(problem, options.methods, options.epsilons, seed)
    ]
    carry_out(options, sweep_in(options.data), tasks, table, draw)


if __name__ == "__main__":
    main()
