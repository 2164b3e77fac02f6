"""Sweeps that may be interrupted: a file of runs, of which what it holds is not run again."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn


class Run(Protocol):
    """One run; ``key`` tells its row of the file from others, ``label`` is for people."""

    @property
    def key(self) -> tuple[str, ...]:
        """Values of the key's columns."""

    @property
    def label(self) -> str:
        """What to show while it runs."""


T = TypeVar("T", bound=Run)


@dataclass(frozen=True)
class Task:
    """A method at a setting (a dataclass), on the data of one seed."""

    setting: Any
    method: str
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row of the file from others."""
        return tuple(str(part) for part in (*astuple(self.setting), self.method, self.seed))

    @property
    def label(self) -> str:
        """What to show while it runs."""
        return f"{self.method}, seed {self.seed}"


def key_columns(setting: type[Any]) -> list[str]:
    """Return the columns that hold the keys of tasks with this type of setting."""
    return [*(field.name for field in fields(setting)), "method", "seed"]


@dataclass(frozen=True)
class Sweep(Generic[T]):
    """What a row of a CSV file is, and how to get it.

    Attributes
    ----------
    key, columns : sequence of str
        The columns that tell runs apart, and all columns.
    run : callable
        Returns the row of a run; a function of a module, so that processes can be sent it.
    """

    key: Sequence[str]
    columns: Sequence[str]
    run: Callable[[T], dict[str, Any]]

    def missing(self, tasks: Iterable[T], path: Path) -> list[T]:
        """Return the tasks that are not in the file yet."""
        if not path.exists():
            return list(tasks)
        with path.open(newline="") as file:
            done = {tuple(row[name] for name in self.key) for row in csv.DictReader(file)}
        return [task for task in tasks if task.key not in done]

    def run_all(self, tasks: list[T], path: Path, processes: int) -> Iterator[T]:
        """Run tasks, append each row to the file as soon as it is known, and yield the task."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns)
            if fresh:
                writer.writeheader()
            for task, row in self._rows(tasks, processes):
                writer.writerow(row)
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
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
            bar = progress.add_task("runs", total=len(tasks), completed=len(tasks) - len(todo))
            for task in self.run_all(todo, path, processes):
                progress.update(bar, advance=1, description=task.label)
