"""Sweeps that may be interrupted: runs in parallel, each a row of a CSV file as it ends."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn


class Keyed(Protocol):
    """A task: something to run that a file knows by a key."""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row of the file from others."""


T = TypeVar("T", bound=Keyed)


def missing(tasks: Iterable[T], path: Path, key: Sequence[str]) -> list[T]:
    """Return the tasks that are not in the file yet, whose columns ``key`` hold the keys."""
    if not path.exists():
        return list(tasks)
    with path.open(newline="") as file:
        done = {tuple(row[name] for name in key) for row in csv.DictReader(file)}
    return [task for task in tasks if task.key not in done]


def run_all(
    run: Callable[[T], dict[str, Any]],
    tasks: Sequence[T],
    path: Path,
    columns: Sequence[str],
    processes: int,
) -> Iterator[T]:
    """Run tasks, append each row to the file as soon as it is known, and yield the task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if fresh:
            writer.writeheader()
        for task, row in _rows(run, tasks, processes):
            writer.writerow(row)
            file.flush()
            yield task


def _rows(
    run: Callable[[T], dict[str, Any]], tasks: Sequence[T], processes: int
) -> Iterator[tuple[T, dict[str, Any]]]:
    if processes == 1:
        for task in tasks:
            yield task, run(task)
        return
    # Not forked: threads of the linear algebra do not survive it.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        futures = {pool.submit(run, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        with suppress(KeyboardInterrupt):
            pool.shutdown(cancel_futures=True)


def with_progress(done: Iterable[T], todo: int, total: int, name: Callable[[T], str]) -> None:
    """Exhaust ``done``, showing how far it is."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        bar = progress.add_task("runs", total=total, completed=total - todo)
        for task in done:
            progress.update(bar, advance=1, description=name(task))
