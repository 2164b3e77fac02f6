"""Run the experiments of Wang & Gu (AAAI 2020) and some more, print the table, draw the figure."""

from ...harness.command import StudyCommand, carry_out
from .experiments import GRIDS, QUICK, sweep, tasks
from .report import draw, table


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand(
        "simulations.papers.knowledge_transfer",
        __doc__,
        seeds=5,
        quick=f"only {' and '.join(QUICK)}, two seeds",
    )
    command.choose("--grids", GRIDS)
    options = command.options(arguments)
    names = list(QUICK) if options.quick else options.grids
    carry_out(options, sweep, tasks(names, options.seeds), table, draw)
    print("The printed protocol has no epsilon of its own: the given one is nominal.")


if __name__ == "__main__":
    main()
