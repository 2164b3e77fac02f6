"""The file of a study's runs: how its rows are made and chosen."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

import pandas as pd

from ldp_flower.compare.sweep import Sweep


@dataclass(frozen=True)
class Task:
    """A method at a setting (a dataclass), on the data of one seed."""

    setting: Any
    method: str
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies a row of the file."""
        return tuple(str(part) for part in (*astuple(self.setting), self.method, self.seed))

    @property
    def label(self) -> str:
        """What to show while it runs."""
        return f"{self.method}, {', '.join(self.key[:-2])}, seed {self.seed}"


@dataclass(frozen=True)
class _Row:
    """The row of a task; an object, so that processes can be sent it."""

    measure: Callable[[Task], dict[str, Any]]

    def __call__(self, task: Task) -> dict[str, Any]:
        started = time.perf_counter()
        found = self.measure(task)
        found.setdefault("seconds", round(time.perf_counter() - started, 3))
        return {**asdict(task.setting), "method": task.method, "seed": task.seed, **found}


def sweep_of(
    setting: type[Any], measured: Sequence[str], measure: Callable[[Task], dict[str, Any]]
) -> Sweep[Task]:
    """Return the sweep whose rows are a setting, method and seed, what is measured, and seconds.

    Parameters
    ----------
    setting : type
        A dataclass.
    measured : sequence of str
        The columns that ``measure`` returns.
    measure : callable
        Measures a task; a function of a module. Where data are made before, which is not to
        count, it returns ``seconds``, too.
    """
    key = [*(field.name for field in fields(setting)), "method", "seed"]
    _let_workers_import(measure)
    return Sweep(key, [*key, *measured, "seconds"], _Row(measure))


def _let_workers_import(function: Callable[..., Any]) -> None:
    """Give a function of the running command the name by which other processes import it.

    Python's workers do not import the ``__main__`` of a package that runs as ``python -m``.
    """
    command = sys.modules["__main__"]
    if function.__module__ == "__main__" and command.__spec__ is not None:
        function.__module__ = command.__spec__.name
        sys.modules[function.__module__] = command


def select(runs: pd.DataFrame, setting: Any, method: str) -> pd.DataFrame:
    """Return the runs of a method at a setting."""
    chosen = runs["method"] == method
    for name, value in asdict(setting).items():
        chosen &= runs[name] == value
    return runs[chosen]
