"""Sweeps that can be interrupted: finished runs are kept in a file and not repeated.

:func:`sweep` runs a function over a grid of settings and seeds. It uses :class:`Sweep`, which
also handles runs that do not form a grid.
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

from ..validation import Count, plain_arguments


class SweepRun(Protocol):
    """Protocol of a run; ``key`` identifies its row in the file, and ``label`` is for display."""

    @property
    def key(self) -> tuple[str, ...]:
        """Values of the columns that identify the run."""

    @property
    def label(self) -> str:
        """Text that names the run while it is shown in progress."""


T = TypeVar("T", bound=SweepRun)


@dataclass(frozen=True)
class Sweep(Generic[T]):
    """Sweep over runs, each of which has a row in a CSV file; rows in the file are not run again.

    ``key`` lists the columns that identify runs, and ``columns`` lists all columns; if it is None,
    they are the columns of the first row. ``run`` returns the row of a run. It must be a
    module-level function, so that it can be sent to other processes.
    """

    key: Sequence[str]
    columns: Sequence[str] | None
    run: Callable[[T], dict[str, Any]]

    def missing(self, tasks: Iterable[T], path: Path) -> list[T]:
        """Return the tasks whose rows are not in the file ``path`` yet."""
        done = self._kept(path)
        return [task for task in tasks if task.key not in done]

    def run_all(self, tasks: list[T], path: Path, processes: int) -> Iterator[T]:
        """Run all tasks and yield each one when it is finished, after its row is in the file."""
        if not tasks:
            return  # the file may be read-only
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
            # Cut off an incomplete last line, which remains if a process is killed while it writes.
            path.write_bytes(content[: content.rfind(b"\n") + 1])
        with path.open("a+", newline="") as file:
            file.seek(0)
            columns = next(csv.reader(file), None)  # None for a new file
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
        # Spawn instead of fork, since the threads of linear algebra do not survive a fork.
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(self.run, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            with suppress(KeyboardInterrupt):
                pool.shutdown(cancel_futures=True)

    def __call__(self, tasks: list[T], path: Path, processes: int) -> list[dict[str, str]]:
        """Run the tasks that are not in the file, show the progress, and return all tasks' rows."""
        todo = self.missing(tasks, path)
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
        columns = (*columns, TimeElapsedColumn(), TimeRemainingColumn())
        screen = get_console()
        # In a file or a pipe, the progress would be one truncated line. In a notebook without
        # ipywidgets, rich warns at every step, and its warnings end in a RecursionError.
        hidden = not screen.is_terminal
        with Progress(*columns, console=screen, disable=hidden) as progress:
            bar = progress.add_task("runs", total=len(tasks), completed=len(tasks) - len(todo))
            for task in self.run_all(todo, path, processes):
                progress.update(bar, advance=1, description=task.label)
        kept = self._kept(path)
        return [kept[task.key] for task in tasks]

    def _kept(self, path: Path) -> dict[tuple[str | None, ...], dict[str, str]]:
        """Return the rows of the file by the values that identify their runs."""
        return {tuple(row.get(name) for name in self.key): row for row in rows_of(path)}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the complete rows of a CSV file, or an empty list if the file does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if line.endswith("\n")))


class _Point(dict[str, Any]):
    """Arguments of one run: a point of a grid and a seed."""

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
    seeds: Count,
    path: str | Path,
    processes: Count = 1,
) -> list[dict[str, str]]:
    """Run a function at every point of a grid, with every seed, and keep the results in a file.

    Runs that are in the file are not repeated, so a sweep can be interrupted and continued,
    or extended by more seeds or points later. It runs seed by seed, so that the finished part
    of an interrupted sweep covers the grid.

    Parameters
    ----------
    run : callable
        Function that is called with one value of each argument in ``grid`` and with ``seed``,
        all by name. It returns numbers or strings by name, with the same names each time. With
        several processes, it must be a function of a module that they can import.
    grid : mapping of str to iterable
        The values of each argument. Values are identified by their ``str``.
    seeds : int
        Number of seeds; seeds start from 0.
    path : str or Path
        The CSV file, one row per run, for ``pandas.read_csv`` or any spreadsheet program.
    processes : int (default: 1)
        Number of processes. Set ``OMP_NUM_THREADS=1`` first, or each process uses all cores.

    Returns
    -------
    list of dict of str to str
        The rows of the grid, as in the file, seed by seed.

    Raises
    ------
    ValueError
        If ``seeds`` or ``processes`` is below 1, or if the file belongs to another grid.
    """
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
    return Sweep(names, None, partial(_row_at, run))(points, path, processes)
