"""One run of one method on one split, and what is kept of it."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ldp_flower.compare.sweep import Sweep

from ...harness.runs import Task, sweep_of
from .data import split
from .methods import METHODS


@dataclass(frozen=True)
class Setting:
    """A table, and the privacy parameter of each user's one report."""

    data: str
    epsilon: float


def run(folder: Path | None, task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    setting: Setting = task.setting
    divided = split(setting.data, folder, task.seed)
    users = divided.users
    started = time.perf_counter()
    score, outcome = METHODS[task.method](divided, setting.epsilon, task.seed)
    seconds = time.perf_counter() - started
    return {
        "users": len(users),
        "score": round(score, 5),
        "outcome": outcome,
        "seconds": round(seconds, 2),
    }


def sweep_in(folder: Path | None) -> Sweep[Task]:
    """Return the sweep over the tables, some of which are files of a folder."""
    return sweep_of(Setting, ["users", "score", "outcome"], partial(run, folder))
