"""Run both experiments of Wang & Xu (ICML 2019), then print the table and draw the figure."""

from pathlib import Path

from ...harness.command import StudyCommand, carry_out
from .experiments import sweep, tasks
from .report import draw, table


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    command = StudyCommand(
        "simulations.papers.wang_xu_2019",
        __doc__,
        seeds=5,
        quick="all methods at one small setting each",
    )
    command.add_argument("--covertype", type=Path, help="Covertype's file (default: scikit-learn)")
    options = command.options(arguments)
    carry_out(options, sweep(options.covertype), tasks(options.seeds, options.quick), table, draw)


if __name__ == "__main__":
    main()
