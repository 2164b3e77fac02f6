"""One run of one method, and the row that is kept of it."""

import time
from dataclasses import asdict
from typing import Any

from ldp_flower.sweep import Sweep, Task, key_columns

from .user_level import methods
from .user_level.population import Population, Setting

KEY = key_columns(Setting)
COLUMNS = [*KEY, "error", "f1", "support", "scale_declared", "seconds"]


def run(task: Task) -> dict[str, Any]:
    """Return the row of a run."""
    started = time.perf_counter()
    population = Population(task.setting, task.seed)
    estimate = methods.METHODS[task.method].estimate(population)
    return {
        **asdict(task.setting),
        "method": task.method,
        "seed": task.seed,
        "error": methods.error(estimate.coef, population),
        "f1": methods.f1(estimate.support, population),
        "support": len(estimate.support),
        "scale_declared": estimate.scale_declared,
        "seconds": round(time.perf_counter() - started, 3),
    }


sweep = Sweep(KEY, COLUMNS, run)
