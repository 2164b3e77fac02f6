"""One run of a method on a problem, and the row that is kept of it."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ldp_flower.sweep import Sweep

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
class Task:
    """A method on a problem at an epsilon; infinity if it has none."""

    problem: str
    method: str
    epsilon: float
    seed: int
    folder: Path | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells a row of the file from others."""
        return self.problem, self.method, str(self.epsilon), str(self.seed)

    @property
    def label(self) -> str:
        """What to show while it runs."""
        epsilon = "" if math.isinf(self.epsilon) else f", epsilon {self.epsilon:g}"
        return f"{self.problem}: {self.method}{epsilon}, seed {self.seed}"


@lru_cache(maxsize=1)
def _problem(name: str, seed: int, folder: Path | None) -> Problem:
    return PROBLEMS[name](seed, folder)


def run(task: Task) -> dict[str, Any]:
    """Return the row of a run."""
    problem = _problem(task.problem, task.seed, task.folder)
    started = time.perf_counter()
    outcome = METHODS[task.method].run(problem, task.epsilon, task.seed)
    guarantee = asdict(outcome.guarantee)
    return {
        "problem": task.problem,
        "method": task.method,
        "epsilon": task.epsilon,
        "seed": task.seed,
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


KEY = ["problem", "method", "epsilon", "seed"]
COLUMNS = [
    *KEY,
    "score",
    "unit",
    "trusted",
    "true_epsilon",
    "delta",
    "users",
    "rounds",
    "bytes_per_user",
    "seconds",
]
sweep = Sweep(KEY, COLUMNS, run)
