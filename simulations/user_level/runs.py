"""One run of one method, and what is kept of it."""

from typing import Any

from ..harness.runs import Task, sweep_of
from .user_level import methods
from .user_level.population import Population, Setting


def run(task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    population = Population(task.setting, task.seed)
    estimate = methods.METHODS[task.method].estimate(population)
    return {
        "error": methods.error(estimate.coef, population),
        "f1": methods.f1(estimate.support, population),
        "support": len(estimate.support),
        "scale_declared": estimate.scale_declared,
    }


sweep = sweep_of(Setting, ["error", "f1", "support", "scale_declared"], run)
