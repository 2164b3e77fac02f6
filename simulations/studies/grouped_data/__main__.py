"""Compare private regressions on real tables with users, by their error on held-out users."""

from pathlib import Path

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task
from .data import READERS
from .methods import METHODS
from .report import draw, table
from .runs import Setting, sweep_in

EPSILONS = (1.0, 2.0, 4.0)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand(
        "simulations.studies.grouped_data",
        __doc__,
        seeds=30,
        quick="made-up people, two seeds",
    )
    command.add_argument("--data", type=Path, help="folder of the data sets but flights")
    command.choose("--sets", READERS, "all there are")
    command.set_defaults(sets=None)
    command.choose("--methods", METHODS)
    command.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    options = command.options(arguments)
    real = [name for name in READERS if name != "synthetic"]
    found = ["synthetic"] if options.quick else real if options.data else ["flights"]
    # Data set by data set, for a process keeps one; then seed by seed.
    tasks = [
        Task(Setting(name, epsilon), method, seed)
        for name in options.sets or found
        for seed in options.seeds
        for epsilon in options.epsilons
        for method in options.methods
    ]
    carry_out(options, sweep_in(options.data), tasks, table, draw)


if __name__ == "__main__":
    main()
