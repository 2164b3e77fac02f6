"""Compare private regressions and classifications of real tables, by held-out users' rows."""

import math
from pathlib import Path

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task
from .data import IN_A_FOLDER, READERS
from .methods import METHODS, NO_PRIVACY
from .report import draw, table
from .runs import Setting, sweep_in

EPSILONS = (0.5, 1.0, 2.0, 4.0)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand(
        "simulations.studies.grouped_data",
        __doc__,
        seeds=10,
        quick="made-up people, two seeds",
    )
    command.add_argument("--data", type=Path, help="folder of wine and Adult, if they are files")
    command.choose("--sets", READERS, "all there are")
    command.set_defaults(sets=None)
    command.choose("--methods", METHODS)
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    options = command.options(arguments)
    there = [name for name in READERS if options.data or name not in IN_A_FOLDER]
    found = ["synthetic"] if options.quick else [name for name in there if name != "synthetic"]
    # Data set by data set, for a process keeps one; then seed by seed.
    tasks = [
        Task(Setting(name, epsilon), method, seed)
        for name in options.sets or found
        for seed in options.seeds
        for method in options.methods
        for epsilon in ([math.inf] if method == NO_PRIVACY else options.epsilons)
    ]
    carry_out(options, sweep_in(options.data), tasks, table, draw)


if __name__ == "__main__":
    main()
