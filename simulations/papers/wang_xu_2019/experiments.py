"""Settings, methods and runs of both experiments."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, simulate
from ldp_flower.compare.sweep import Sweep
from ldp_flower.questions.sparse import iht, objective
from ldp_flower.strategies import DpIht, LabelLdpIht
from ldp_flower.strategies.runtime.coefficients import LinearResult

from ...harness.runs import Task, sweep_of
from . import printed
from .data import covertype, labelled

Floats = NDArray[np.float64]

RIDGE = 1e-3


@dataclass(frozen=True)
class Setting:
    """One point of an experiment: ``labels`` (Figure 1) or ``silos`` (Figure 2)."""

    experiment: str
    rows: int
    dim: int
    sparsity: int
    epsilon: float


@dataclass(frozen=True)
class Outcome:
    """What a method found, and what it costs.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The coefficients.
    epsilon : float or None
        The true epsilon; None if there is no privacy at all.
    delta : float
        Its delta.
    """

    coef: Floats
    epsilon: float | None
    delta: float


def _private(result: LinearResult) -> Outcome:
    assert result.privacy is not None
    return Outcome(result.coef, result.privacy.epsilon, result.privacy.delta)


# ------------------------------------------------------------------- labels (Figure 1)


def _honest(**options: Any) -> Callable[[Setting, Floats, Floats, int], Outcome]:
    def run(setting: Setting, x: Floats, y: Floats, seed: int) -> Outcome:
        strategy = LabelLdpIht(
            setting.dim, sparsity=setting.sparsity, epsilon=setting.epsilon, **options
        )
        return _private(simulate(strategy, Users.from_rows(x, y), seed=seed))

    return run


def _printed_noise(
    solve: Callable[[Floats, Floats, int, np.random.Generator], Floats],
) -> Callable[[Setting, Floats, Floats, int], Outcome]:
    def run(setting: Setting, x: Floats, y: Floats, seed: int) -> Outcome:
        rng = np.random.default_rng(seed)
        labels = printed.noisy_labels(y, setting.epsilon, rng)
        true = printed.label_epsilon(setting.epsilon, setting.sparsity)
        return Outcome(solve(x, labels, setting.sparsity, rng), true, printed.DELTA)

    return run


def _no_noise(setting: Setting, x: Floats, y: Floats, seed: int) -> Outcome:
    return Outcome(iht(x, y, setting.sparsity), None, 0.0)


LABEL_METHODS = {
    "LabelLdpIht": _honest(),
    "LabelLdpIht, Lasso": _honest(solver="lasso"),
    "LabelLdpIht, one round": _honest(method="paper"),
    "LabelLdpIht, one bit": _honest(mechanism="bit"),
    "LabelLdpIht, Gaussian": _honest(delta=printed.DELTA),
    "printed noise, solved well": _printed_noise(lambda x, y, s, rng: iht(x, y, s)),
    "printed noise, printed solver": _printed_noise(
        lambda x, y, s, rng: printed.label_ldp_iht(x, y, s, rng, 1.0)
    ),
    "printed noise, printed sign": _printed_noise(
        lambda x, y, s, rng: printed.label_ldp_iht(x, y, s, rng, -1.0)
    ),
    "no noise": _no_noise,
}

# -------------------------------------------------------------------- silos (Figure 2)


def _over_silos(silos: int, steps: int) -> Callable[[Setting, Floats, Floats, int], Outcome]:
    def run(setting: Setting, x: Floats, y: Floats, seed: int) -> Outcome:
        offsets = np.linspace(0, len(x), silos + 1).astype(np.int64)
        strategy = DpIht(
            setting.dim,
            sparsity=setting.sparsity,
            epsilon=setting.epsilon,
            delta=printed.DELTA,
            num_steps=steps,
            ridge=RIDGE,
        )
        return _private(simulate(strategy, Users(x, y, offsets), seed=seed))

    return run


def _printed_silo(setting: Setting, x: Floats, y: Floats, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    coef = printed.dp_iht(x, y, setting.sparsity, setting.epsilon, RIDGE, rng)
    return Outcome(coef, printed.silo_epsilon(setting.epsilon), printed.DELTA)


SILO_METHODS = {
    "DpIht, one silo": _over_silos(1, 50),
    "DpIht, 10 silos": _over_silos(10, 50),
    "DpIht, one silo, 400 steps": _over_silos(1, 400),
    "printed noise (c = 1), 400 steps": _printed_silo,
}

METHODS = {"labels": LABEL_METHODS, "silos": SILO_METHODS}


@lru_cache(maxsize=4)
def _silo_data(setting: Setting, seed: int, file: Path | None) -> tuple[Floats, Floats, float, str]:
    """Return a random part of Covertype, and the smallest loss that IHT finds on it."""
    x, y, name = covertype(file)
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(x), setting.rows, replace=False)
    x, y = np.ascontiguousarray(x[rows, : setting.dim]), y[rows]
    best = iht(x, y, setting.sparsity, link="logistic", ridge=RIDGE)
    return x, y, objective(best, x, y, link="logistic", ridge=RIDGE), name


def run(task: Task, covertype_file: Path | None = None) -> dict[str, Any]:
    """Return what is measured of a run; Covertype is read from a file, if there is one.

    The error is that of the coefficients over their length (labels), or the loss above
    the smallest that was found without privacy (silos).
    """
    setting = task.setting
    method = METHODS[setting.experiment][task.method]
    if setting.experiment == "labels":
        name = "synthetic"
        x, y, theta = labelled(setting.rows, setting.dim, setting.sparsity, task.seed)
        found = method(setting, x, y, task.seed)
        error = float(np.linalg.norm(found.coef - theta) / np.linalg.norm(theta))
    else:
        x, y, best, name = _silo_data(replace(setting, epsilon=0.0), task.seed, covertype_file)
        found = method(setting, x, y, task.seed)
        error = objective(found.coef, x, y, link="logistic", ridge=RIDGE) - best
    return {
        "data": name,
        "true_epsilon": None if found.epsilon is None else round(found.epsilon, 3),
        "delta": found.delta,
        "error": error,
    }


# ------------------------------------------------------------------------------- grids

_LABELS = Setting("labels", 8000, 400, 10, 2.0)
_SILOS = Setting("silos", 100_000, 54, 10, 0.5)
_LABEL_ROWS = (1000, 2000, 4000, 8000, 16_000)
_SILO_ROWS = (5000, 20_000, 100_000)

#: By experiment and what is varied: the values.
VARIED: dict[str, dict[str, tuple[float, ...]]] = {
    "labels": {"dim": (100, 400, 1600), "sparsity": (5, 10, 20), "epsilon": (0.5, 1.0, 2.0, 4.0)},
    "silos": {"dim": (10, 54), "sparsity": (5, 10, 20), "epsilon": (0.25, 0.5, 1.0)},
}
BASES = {"labels": _LABELS, "silos": _SILOS}
ROWS = {"labels": _LABEL_ROWS, "silos": _SILO_ROWS}
#: What is drawn in every panel, and its name there; the table has all methods, at the base setting.
CURVES = {
    "labels": {
        "LabelLdpIht": "rounds",
        "LabelLdpIht, one round": "one round",
        "printed noise, solved well": "printed",
    },
    "silos": {"DpIht, one silo": "honest", "printed noise (c = 1), 400 steps": "printed"},
}


def tasks(seeds: Iterable[int], quick: bool) -> list[Task]:
    """Return all runs, seed by seed, so that what is done when interrupted covers all settings."""
    found: dict[Task, None] = {}
    for seed in seeds:
        for experiment, base in BASES.items():
            if quick:
                base = replace(base, rows=ROWS[experiment][0 if experiment == "silos" else 1])
            for method in METHODS[experiment]:
                found[Task(base, method, seed)] = None
            for name, values in {} if quick else VARIED[experiment].items():
                for value in values:
                    for rows in ROWS[experiment]:
                        setting = replace(base, **{name: value, "rows": rows})  # type: ignore[arg-type]
                        for method in CURVES[experiment]:
                            found[Task(setting, method, seed)] = None
    return list(found)


def sweep(covertype_file: Path | None) -> Sweep[Task]:
    """Return the sweep that reads Covertype from a file, if there is one."""
    measured = ["data", "true_epsilon", "delta", "error"]
    return sweep_of(Setting, measured, partial(run, covertype_file=covertype_file))
