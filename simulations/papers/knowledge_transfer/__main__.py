"""Run the experiments of Wang & Gu (AAAI 2020) and some more, print the table, draw the figure."""

from pathlib import Path

from ...harness.command import StudyCommand, carry_out
from .data import FILES
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
    command.choose("--grids", GRIDS, f"all but {' and '.join(FILES)}")
    command.set_defaults(grids=[name for name in GRIDS if name not in FILES])
    command.add_argument("--data", type=Path, help=f"folder of the files of {', '.join(FILES)}")
    options = command.options(arguments)
    names = list(QUICK) if options.quick else options.grids
    for name in names:
        if name in FILES and options.data is None:
            files = FILES[name]
            command.error(
                f"Expected --data with --grids {name}: the folder of {files.train} and "
                f"{files.test}, in the format of libsvm; got none."
            )
    carry_out(options, sweep(options.data), tasks(names, options.seeds), table, draw)
    print("The printed protocol has no epsilon of its own: the given one is nominal.")


if __name__ == "__main__":
    main()
