"""One run of one method on one split, and the row that is kept of it."""

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ldp_flower.sweep import Sweep, Task, key_columns

from .data import split
from .methods import METHODS, lasso


@dataclass(frozen=True)
class Setting:
    """A data set, and the privacy parameter of each user's one report."""

    data: str
    epsilon: float


KEY = key_columns(Setting)
COLUMNS = [*KEY, "users", "mse", "lasso_mse", "r2", "outcome", "seconds"]


def run(folder: Path | None, task: Task) -> dict[str, Any]:
    """Return the row of a run."""
    setting: Setting = task.setting
    divided = split(setting.data, folder, task.seed)
    started = time.perf_counter()
    error, outcome = METHODS[task.method](divided, setting.epsilon, task.seed)
    seconds = time.perf_counter() - started
    return {
        **asdict(setting),
        "method": task.method,
        "seed": task.seed,
        "users": len(divided.users),
        "mse": error,
        "lasso_mse": lasso(setting.data, folder, task.seed),
        "r2": 1 - error / float(np.var(divided.held_out.raw)),
        "outcome": outcome,
        "seconds": round(seconds, 3),
    }


def sweep_of(folder: Path | None) -> Sweep[Task]:
    """Return the sweep over data sets in a folder."""
    return Sweep(KEY, COLUMNS, partial(run, folder))
