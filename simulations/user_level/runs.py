"""One run of one method, and the row that is kept of it."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from ldp_flower.sweep import Sweep, Task, key_columns

from ..baselines.ldpprox import LdpProx
from .user_level import methods
from .user_level.methods import Estimate, Method
from .user_level.population import Population, Setting


def ldpprox(population: Population) -> Estimate:
    """LDPPROX, at user level and (epsilon, n ** -1.1)."""
    setting = population.setting
    users = (user for batch in population.batches() for user in zip(*batch, strict=True))
    rng = np.random.default_rng(population.seed)
    coef = LdpProx(setting.dim, setting.num_users, setting.epsilon).estimate(users, rng)
    return Estimate(coef, np.flatnonzero(coef))


METHODS: dict[str, Method] = methods.METHODS | {"LDPPROX": ldpprox}


KEY = key_columns(Setting)
COLUMNS = [*KEY, "error", "f1", "support", "scale_declared", "seconds"]


def run(task: Task) -> dict[str, Any]:
    """Return the row of a run."""
    started = time.perf_counter()
    population = Population(task.setting, task.seed)
    estimate = METHODS[task.method](population)
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
