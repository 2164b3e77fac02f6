"""Sweeps that may be interrupted: a file of runs, of which what it holds is not run again.

:func:`sweep` runs a function over a grid of settings and seeds. :class:`Sweep` is what it
is made of, for runs that are no grid.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from os import SEEK_END
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich import get_console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from ..validation import check_integer, plain_arguments


class Run(Protocol):
    """One run; ``key`` identifies its row of the file, ``label`` is for people."""

    @property
    def key(self) -> tuple[str, ...]:
        """Values of the key's columns."""

    @property
    def label(self) -> str:
        """What to show while it runs."""


T = TypeVar("T", bound=Run)


@dataclass(frozen=True)
class Sweep(Generic[T]):
    """What a row of a CSV file is, and how to get it.

    ``key`` are the columns that identify runs, ``columns`` all columns (None: those of the first
    row). ``run`` returns the row of a run; a function of a module, so that processes can be sent
    it.
    """

    key: Sequence[str]
    columns: Sequence[str] | None
    run: Callable[[T], dict[str, Any]]

    def missing(self, tasks: Iterable[T], path: Path) -> list[T]:
        """Return the tasks that are not in the file yet."""
        done = {tuple(row.get(name) for name in self.key) for row in rows_of(path)}
        return [task for task in tasks if task.key not in done]

    def run_all(self, tasks: list[T], path: Path, processes: int) -> Iterator[T]:
        """Run tasks, append each row to the file as soon as it is known, and yield the task."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
            # Cut off a last line that was being written when its writer was killed.
            path.write_bytes(content[: content.rfind(b"\n") + 1])
        with path.open("a+", newline="") as file:
            file.seek(0)
            columns = next(csv.reader(file), None)  # None of a new file
            file.seek(0, SEEK_END)
            for task, row in self._rows(tasks, processes):
                if columns is None:
                    columns = list(self.columns or row)
                    csv.writer(file).writerow(columns)
                csv.DictWriter(file, columns).writerow(row)
                file.flush()
                yield task

    def _rows(self, tasks: list[T], processes: int) -> Iterator[tuple[T, dict[str, Any]]]:
        if processes == 1:
            for task in tasks:
                yield task, self.run(task)
            return
        # Not forked: threads of the linear algebra do not survive it.
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(self.run, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            with suppress(KeyboardInterrupt):
                pool.shutdown(cancel_futures=True)

    def __call__(self, tasks: list[T], path: Path, processes: int) -> None:
        """Run what the file lacks, and show how far it is."""
        todo = self.missing(tasks, path)
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
        columns = (*columns, TimeElapsedColumn(), TimeRemainingColumn())
        screen = get_console()
        # A file or a pipe would get one line of it, cut.
        hidden = not (screen.is_terminal or screen.is_jupyter)
        with Progress(*columns, console=screen, disable=hidden) as progress:
            bar = progress.add_task("runs", total=len(tasks), completed=len(tasks) - len(todo))
            for task in self.run_all(todo, path, processes):
                progress.update(bar, advance=1, description=task.label)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the whole rows of a CSV file, none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if line.endswith("\n")))


class _Point(dict[str, Any]):
    """The arguments of one run: a point of a grid and a seed."""

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(map(str, self.values()))

    @property
    def label(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.items())


def _row_at(run: Callable[..., Mapping[str, Any]], point: _Point) -> dict[str, Any]:
    return {**point, **run(**point)}


@plain_arguments
def sweep(
    run: Callable[..., Mapping[str, Any]],
    grid: Mapping[str, Iterable[Any]],
    *,
    seeds: int,
    path: str | Path,
    processes: int = 1,
) -> list[dict[str, str]]:
    """Run a function at every point of a grid, with every seed, and keep the results in a file.

    Runs that the file holds are not repeated, so a sweep may be interrupted and continued,
    and asked for more seeds or points later. It goes seed by seed, so that whatever is done
    when it is interrupted covers the grid.

    Parameters
    ----------
    run : callable
        Called with one value of each argument in ``grid`` and ``seed``, all by name; returns
        numbers or strings by name, the same names each time. With several processes it has
        to be a function of a module that they can import.
    grid : mapping of str to iterable
        The values of each argument, which are identified by their ``str``.
    seeds : int
        Number of seeds, from 0.
    path : str or Path
        The CSV file, one row per run, for ``pandas.read_csv`` or any table program.
    processes : int (default: 1)
        Number of processes. Set ``OMP_NUM_THREADS=1`` before, or each takes all cores.

    Returns
    -------
    list of dict of str to str
        The rows of the grid, as the file has them, seed by seed.

    Raises
    ------
    ValueError
        If ``seeds`` or ``processes`` is below 1, or the file is of another grid.
    """
    check_integer("seeds", seeds, 1)
    check_integer("processes", processes, 1)
    path = Path(path)
    names = [*grid, "seed"]
    for row in rows_of(path)[:1]:
        if list(row)[: len(names)] != names:
            raise ValueError(f"Expected a file of {names}, got {path} of {list(row)}.")
    axes = [list(values) for values in grid.values()]
    points = [
        _Point(zip(names, (*values, seed), strict=True))
        for seed in range(seeds)
        for values in product(*axes)
    ]
    Sweep(names, None, partial(_row_at, run))(points, path, processes)
    kept = {tuple(row[name] for name in names): row for row in rows_of(path)}
    return [kept[point.key] for point in points]
