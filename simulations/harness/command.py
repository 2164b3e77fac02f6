"""The command line that all studies share."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from ldp_flower.compare.sweep import Sweep

from . import figures
from .runs import Task
from .tables import Table

_QUICK_SEEDS = 2


class Command(argparse.ArgumentParser):
    """The command line of a module, ``python -m NAME`` from the repository's root.

    Parameters
    ----------
    name : str
        The module; results go to a folder with the last part of its name.
    doc : str or None
        Its docstring, the first line of which says what the command does.
    """

    def __init__(self, name: str, doc: str | None) -> None:
        super().__init__(prog=f"python -m {name}", description=(doc or "").split("\n")[0])
        self.folder = Path("results") / name.split(".")[-1]

    def choose(self, name: str, known: Iterable[str], default: str = "all") -> None:
        """Add an argument that takes several of these names, by default all."""
        names = list(known)

        def checked(value: str) -> str:
            if value not in names:
                raise argparse.ArgumentTypeError(
                    f"Expected one of {', '.join(names)}, got {value}."
                )
            return value

        self.add_argument(
            name,
            nargs="+" if name.startswith("--") else "*",
            type=checked,
            default=names,
            metavar=name.removeprefix("--").removesuffix("s").upper(),
            help=f"{', '.join(names)} (default: {default})",
        )

    def output(self) -> None:
        """Add the folder of the results."""
        self.add_argument(
            "--output", type=Path, default=self.folder, help=f"folder (default: {self.folder})"
        )


class StudyCommand(Command):
    """The command line of a study: runs that are kept in a file, a table, and figures.

    Runs that are in the CSV already are not repeated, so a study may be interrupted and
    continued, and asked for more seeds later.

    Parameters
    ----------
    name, doc : str
        As of :class:`Command`.
    seeds : int
        Number of seeds, unless the user says another, or is in a hurry.
    quick : str, optional
        What ``--quick`` does; by default there is no such option.
    """

    def __init__(self, name: str, doc: str | None, *, seeds: int, quick: str = "") -> None:
        super().__init__(name, doc)
        self.set_defaults(quick=False)
        usual = f"{seeds}, quick: {_QUICK_SEEDS}" if quick else f"{seeds}"
        if quick:
            self.add_argument("--quick", action="store_true", help=quick)
        self._seeds = seeds
        self.add_argument("--seeds", type=int, help=f"data sets a setting (default: {usual})")
        self.add_argument("--first-seed", type=int, default=0, help="(default: 0)")
        self.add_argument("--processes", type=int, default=os.cpu_count() or 1)
        self.add_argument(
            "--only-report", action="store_true", help="run nothing, report what the file holds"
        )
        self.output()
        self.add_argument("--figures", type=Path, help="folder of the figures (default: the same)")

    def options(self, arguments: list[str] | None) -> argparse.Namespace:
        """Return the options; ``seeds`` is the range of them."""
        found = self.parse_args(arguments)
        number = found.seeds or (_QUICK_SEEDS if found.quick else self._seeds)
        found.seeds = range(found.first_seed, found.first_seed + number)
        one_thread_each()
        return found


def one_thread_each() -> None:
    """Give linear algebra one thread: workers inherit it, and read it before that loads."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def report(
    path: Path,
    table: Callable[[pd.DataFrame], Table],
    draw: Callable[[pd.DataFrame], Mapping[str, Figure]],
    folder: Path,
) -> None:
    """Print the table of a file of runs, write it beside that, and draw figures in a folder.

    The file is read once, so that all of them show the same numbers.
    """
    runs = pd.read_csv(path)
    made = table(runs)
    made.show()
    made.write(path.parent)
    for name, figure in draw(runs).items():
        figures.save(figure, folder / name, path)


def carry_out(
    options: argparse.Namespace,
    sweep: Sweep[Task],
    tasks: list[Task],
    table: Callable[[pd.DataFrame], Table],
    draw: Callable[[pd.DataFrame], Mapping[str, Figure]],
) -> None:
    """Run what ``runs.csv`` lacks, then print the table, write it and draw the figures."""
    path = options.output / "runs.csv"
    if not options.only_report:
        sweep(tasks, path, options.processes)
    report(path, table, draw, options.figures or options.output)
