"""One run of a method on a problem, and what is kept of it."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ldp_flower.compare.sweep import Sweep

from ...harness.runs import Task, sweep_of
from . import problems
from .methods import METHODS
from .problems import Problem

Make = Callable[[int, Path | None], Problem]

PROBLEMS: dict[str, Make] = {
    "a9a, 10 rows a user": lambda seed, folder: problems.a9a(10, seed, folder),
    "flights": lambda seed, folder: problems.flights(seed),
    "sparse regression": lambda seed, folder: problems.sparse(seed),
    "digits, softmax": lambda seed, folder: problems.digits(3000, 0, seed),
    "digits, net": lambda seed, folder: problems.digits(2000, 32, seed),
    "a9a, 1 row a user": lambda seed, folder: problems.a9a(1, seed, folder),
}


@dataclass(frozen=True)
class Setting:
    """A problem, and the epsilon of the method; infinity if it has none."""

    problem: str
    epsilon: float


@lru_cache(maxsize=1)
def _problem(name: str, seed: int, folder: Path | None) -> Problem:
    return PROBLEMS[name](seed, folder)


def run(folder: Path | None, task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    problem = _problem(task.setting.problem, task.seed, folder)
    started = time.perf_counter()
    outcome = METHODS[task.method].run(problem, task.setting.epsilon, task.seed)
    guarantee = asdict(outcome.guarantee)
    return {
        "score": outcome.score,
        "unit": guarantee["unit"],
        "trusted": guarantee["trusted"],
        "true_epsilon": guarantee["epsilon"],
        "delta": guarantee["delta"],
        "users": problem.num_users,
        "rounds": outcome.rounds,
        "bytes_per_user": outcome.bytes_per_user,
        "seconds": round(time.perf_counter() - started, 1),
    }


_MEASURED = [
    "score",
    "unit",
    "trusted",
    "true_epsilon",
    "delta",
    "users",
    "rounds",
    "bytes_per_user",
]


def sweep_in(folder: Path | None) -> Sweep[Task]:
    """Return the sweep over problems whose data lie in a folder."""
    return sweep_of(Setting, _MEASURED, partial(run, folder))
