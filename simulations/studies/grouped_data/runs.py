"""One run of one method on one split, and what is kept of it."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ldp_flower.sweep import Sweep

from ...harness.runs import Task, sweep_of
from .data import split
from .methods import METHODS, lasso


@dataclass(frozen=True)
class Setting:
    """A data set, and the privacy parameter of each user's one report."""

    data: str
    epsilon: float


def run(folder: Path | None, task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    setting: Setting = task.setting
    divided = split(setting.data, folder, task.seed)
    started = time.perf_counter()
    error, outcome = METHODS[task.method](divided, setting.epsilon, task.seed)
    seconds = time.perf_counter() - started
    return {
        "users": len(divided.users),
        "mse": error,
        "lasso_mse": lasso(setting.data, folder, task.seed),
        "r2": 1 - error / float(np.var(divided.held_out.raw)),
        "outcome": outcome,
        "seconds": round(seconds, 3),
    }


def sweep_in(folder: Path | None) -> Sweep[Task]:
    """Return the sweep over data sets in a folder."""
    return sweep_of(Setting, ["users", "mse", "lasso_mse", "r2", "outcome"], partial(run, folder))
