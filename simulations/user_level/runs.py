"""One run of one method, and what is kept of it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..baselines.item_level import ItemLevel
from ..harness.runs import Task, sweep_of
from .user_level import methods
from .user_level.methods import USER_LEVEL, Estimate, Method
from .user_level.population import DECLARED_SCALE, SPARSITY, Floats, Population, Setting


def item_level(protects_users: bool) -> Callable[[Population], Estimate]:
    """Return the method that randomises every record by itself.

    Each report costs epsilon, or epsilon / m, so that all m of a user cost epsilon together. It is
    told the scale of the targets, and the true sparsity.
    """

    def estimate(population: Population) -> Estimate:
        setting = population.setting
        shares = setting.samples_per_user if protects_users else 1
        method = ItemLevel(
            dim=setting.dim,
            sparsity=SPARSITY,
            epsilon=setting.epsilon / shares,
            target_scale=DECLARED_SCALE,
        )
        coef = method.estimate(_records(population), np.random.default_rng(population.seed))
        return Estimate(coef, np.flatnonzero(coef))

    return estimate


def _records(population: Population) -> Iterator[tuple[Floats, Floats]]:
    for features, targets in population.batches():
        yield features.reshape(-1, population.setting.dim), targets.ravel()


#: The app's methods, and baselines that it does not carry along.
METHODS = methods.METHODS | {
    "each record": Method("record-level LDP", item_level(False)),
    "each record at epsilon / m": Method(USER_LEVEL, item_level(True)),
}


def run(task: Task) -> dict[str, Any]:
    """Return what is measured of a run."""
    population = Population(task.setting, task.seed)
    estimate = METHODS[task.method].estimate(population)
    return {
        "error": methods.error(estimate.coef, population),
        "f1": methods.f1(estimate.support, population),
        "support": len(estimate.support),
        "scale_declared": estimate.scale_declared,
    }


sweep = sweep_of(Setting, ["error", "f1", "support", "scale_declared"], run)
