"""Sweeps that may be interrupted: runs in parallel, each a row of a CSV file as it ends."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn


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


def key_columns(setting: type[Any]) -> list[str]:
    """Return the columns that hold the keys of tasks with this type of setting."""
    return [*(field.name for field in fields(setting)), "method", "seed"]


def missing(tasks: Iterable[Task], path: Path, key: Sequence[str]) -> list[Task]:
    """Return the tasks that are not in the file yet, whose columns ``key`` hold the keys."""
    if not path.exists():
        return list(tasks)
    with path.open(newline="") as file:
        done = {tuple(row[name] for name in key) for row in csv.DictReader(file)}
    return [task for task in tasks if task.key not in done]


def run_all(
    run: Callable[[Task], dict[str, Any]],
    tasks: Sequence[Task],
    path: Path,
    columns: Sequence[str],
    processes: int,
) -> Iterator[Task]:
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
    run: Callable[[Task], dict[str, Any]], tasks: Sequence[Task], processes: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
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


def with_progress(done: Iterable[Task], todo: int, total: int, name: Callable[[Task], str]) -> None:
    """Exhaust ``done``, showing how far it is."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        bar = progress.add_task("runs", total=total, completed=total - todo)
        for task in done:
            progress.update(bar, advance=1, description=name(task))
