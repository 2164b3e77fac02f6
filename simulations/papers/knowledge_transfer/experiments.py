"""Settings, methods and runs."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import GeneratedUsers, Users, simulate
from ldp_flower.compare.sweep import Sweep
from ldp_flower.questions.sparse import iht
from ldp_flower.strategies import (
    DpIht,
    KnowledgeTransfer,
    LdpStrategy,
    PeelingDpIht,
    PeelingTransfer,
    PrivateFrankWolfe,
)

from ...baselines.two_stage import TwoStage
from ...harness.runs import Task, sweep_of
from .data import NOISE, coefficients, silos, table
from .printed import printed_transfer

Floats = NDArray[np.floating]

DELTA = 0.01
REAL_DELTA = 1e-5
_VARIANCE = 1 / 3  # of a feature of the paper's design
_LOG_VOLATILITY = 4.0  # size of logarithms of volatilities of stocks, as is known of them
_NODES = 12  # so that few silos are in memory at a time
_RESTRICTED_CONVEXITY = {"identity": 1 / 6, "logistic": 1 / 24}  # mu of Corollary 4.7, assumed


@dataclass(frozen=True)
class Setting:
    """One point: ``design`` is ``uniform``, the paper's, or the name of a real table."""

    design: str
    link: str
    num_silos: int
    rows: int
    dim: int
    sparsity: int
    epsilon: float

    @property
    def delta(self) -> float:
        """Delta of record-level protocols."""
        return DELTA if self.design == "uniform" else REAL_DELTA

    @property
    def public(self) -> dict[str, Any]:
        """What record-level protocols are told: prior means, never facts of the data."""
        told: dict[str, Any] = {
            "sparsity": self.sparsity,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "link": self.link,
        }
        if self.design == "e2006":
            told["target_scale"] = _LOG_VOLATILITY
        elif self.link == "identity":
            # Of standard normal coefficients.
            told["target_scale"] = math.sqrt(self.sparsity * _VARIANCE + NOISE**2)
        return told

    @property
    def shape(self) -> dict[str, float]:
        """The features' variance and the noise's, as far as there is one."""
        told = {"feature_variance": _VARIANCE if self.design == "uniform" else 1.0}
        return told | ({"noise_scale": NOISE} if self.link == "identity" else {})


@dataclass(frozen=True)
class Outcome:
    """Coefficients, and the epsilon that holds for them; None without a guarantee."""

    coef: Floats
    epsilon: float | None


Method = Callable[[Setting, Users | GeneratedUsers, int], Outcome]


def _private(strategy: Callable[[Setting], LdpStrategy[Any]]) -> Method:
    def run(setting: Setting, users: Users | GeneratedUsers, seed: int) -> Outcome:
        nodes = min(_NODES, setting.num_silos)
        result = simulate(strategy(setting), users, seed=seed, num_nodes=nodes)
        return Outcome(result.coef, result.privacy.epsilon)

    return run


def _peeling(setting: Setting) -> PeelingDpIht:
    return PeelingDpIht(setting.dim, **setting.public, **setting.shape)


def _peeling_transfer(setting: Setting) -> PeelingTransfer:
    return PeelingTransfer(setting.dim, **setting.public, **setting.shape)


def _frank_wolfe(setting: Setting) -> PrivateFrankWolfe:
    mean_norm = setting.sparsity * math.sqrt(2 / math.pi)
    return PrivateFrankWolfe(setting.dim, l1_radius=mean_norm, **setting.public)


def _dp_ight(setting: Setting) -> DpIht:
    told = setting.public
    scale = told.pop("target_scale", None)
    return DpIht(
        setting.dim,
        num_steps=5,
        row_bound=1.05 * math.sqrt(setting.dim * setting.shape["feature_variance"]),
        residual_bound=None if scale is None else 1.5 * scale,
        largest_moment=1.0,
        **told,
    )


def _transfer(**options: Any) -> Callable[[Setting], KnowledgeTransfer]:
    def strategy(setting: Setting) -> KnowledgeTransfer:
        return KnowledgeTransfer(
            setting.dim,
            sparsity=setting.sparsity,
            epsilon=setting.epsilon,
            radius=1.25 * math.sqrt(setting.sparsity),
            link=setting.link,
            **options,
        )

    return strategy


def _printed(setting: Setting, users: Users | GeneratedUsers, seed: int) -> Outcome:
    everyone = users.take(np.arange(setting.num_silos))
    result = printed_transfer(
        everyone.features,
        everyone.targets,
        setting.sparsity,
        epsilon=setting.epsilon,
        delta=setting.delta,
        rng=np.random.default_rng(seed),
        link=setting.link,
        convexity=_RESTRICTED_CONVEXITY[setting.link],
    )
    return Outcome(result.coef, result.epsilon)


def _two_stage(setting: Setting, users: Users | GeneratedUsers, seed: int) -> Outcome:
    """Return what the one silo computes; it is told what the strategies are told."""
    everyone, told = users.take(np.arange(1)), setting.public
    method = TwoStage(
        sparsity=setting.sparsity,
        epsilon=setting.epsilon,
        delta=setting.delta,
        row_bound=1.25 * math.sqrt(setting.sparsity * _VARIANCE),
        target_bound=1.5 * told["target_scale"],
        radius=1.25 * math.sqrt(setting.sparsity),
    )
    x, y = everyone.features.astype(np.float64), everyone.targets.astype(np.float64)
    return Outcome(method.estimate(x, y, np.random.default_rng(seed)), setting.epsilon)


def _no_privacy(setting: Setting, users: Users | GeneratedUsers, seed: int) -> Outcome:
    everyone = users.take(np.arange(setting.num_silos))
    steps = 1000 if setting.design == "uniform" else 60
    coef = iht(
        everyone.features, everyone.targets, setting.sparsity, link=setting.link, max_steps=steps
    )
    return Outcome(coef, None)


METHODS: dict[str, Method] = {
    "PeelingDpIht": _private(_peeling),
    "PeelingTransfer": _private(_peeling_transfer),
    "PrivateFrankWolfe": _private(_frank_wolfe),
    "DpIht (DP-IGHT)": _private(_dp_ight),
    "KnowledgeTransfer": _private(_transfer()),
    "KnowledgeTransfer, one wave": _private(_transfer(num_waves=1)),
    "KnowledgeTransfer, answers": _private(_transfer(num_answers=500)),
    "two stages (Kifer et al.)": _two_stage,
    "printed (no guarantee)": _printed,
    "no privacy": _no_privacy,
}


def run(task: Task, folder: Path | None = None) -> dict[str, Any]:
    """Return what is measured of a run; the paper's real data are in a folder.

    The error is that of the coefficients over their length, or on a real table the share
    of test records that are classified wrongly, or the mean square of their residuals.
    """
    setting, method = task.setting, METHODS[task.method]
    if setting.design == "uniform":
        theta = coefficients(setting.dim, setting.sparsity, task.seed)
        users = silos(theta, setting.rows, setting.num_silos, setting.link, task.seed)
        found = method(setting, users, task.seed)
        error = float(np.linalg.norm(found.coef - theta) / np.linalg.norm(theta))
    else:
        x, y, test_x, test_y = table(setting.design, task.seed, folder)
        one_silo = Users(x, y, np.array([0, len(x)]))
        found = method(setting, one_silo, task.seed)
        fitted = test_x @ found.coef
        wrong = (fitted > 0) != test_y if setting.link == "logistic" else (fitted - test_y) ** 2
        error = float(np.mean(wrong))
    return {
        "true_epsilon": found.epsilon,
        "delta": 0.0 if task.method.startswith("Knowledge") else setting.delta,
        "error": error,
    }


def sweep(folder: Path | None) -> Sweep[Task]:
    """Return the sweep that reads the paper's real data from a folder."""
    return sweep_of(Setting, ["true_epsilon", "delta", "error"], partial(run, folder=folder))


# ------------------------------------------------------------------------------- grids

_FIRST = Setting("uniform", "identity", 1, 800, 1000, 10, 2.0)
_SECOND = replace(_FIRST, rows=4000, dim=5000, sparsity=50)
_NAMES = Setting("names", "logistic", 1, 27_405, 2000, 10, 1.0)
_E2006 = Setting("e2006", "identity", 1, 8044, 25_000, 2000, 1.5)
_RCV1 = Setting("rcv1", "logistic", 1, 10_121, 20_000, 500, 2.0)
_DIGITS = Setting("digits", "logistic", 1, 1437, 2081, 10, 5.0)
_CENTRAL = (
    "PeelingDpIht",
    "PrivateFrankWolfe",
    "DpIht (DP-IGHT)",
    "printed (no guarantee)",
    "no privacy",
)
_CENTRAL_LINEAR = (*_CENTRAL, "two stages (Kifer et al.)")
_REAL = tuple(name for name in _CENTRAL if not name.startswith("printed"))
_FEW = ("PeelingDpIht", "PeelingTransfer", "DpIht (DP-IGHT)")
_MANY = ("KnowledgeTransfer", "KnowledgeTransfer, one wave", "KnowledgeTransfer, answers")


@dataclass(frozen=True)
class Grid:
    """A panel: what is varied, where, and the methods there.

    ``points`` are pairs of a setting and its methods.
    """

    title: str
    varied: str
    points: tuple[tuple[Setting, tuple[str, ...]], ...]


def _over_epsilon(
    title: str, base: Setting, epsilons: tuple[float, ...], methods: tuple[str, ...]
) -> Grid:
    points = tuple((replace(base, epsilon=epsilon), methods) for epsilon in epsilons)
    return Grid(title, "epsilon", points)


def _over_silos(title: str, epsilon: float) -> Grid:
    few, many = replace(_FIRST, epsilon=epsilon), replace(_FIRST, epsilon=epsilon, rows=200)
    points = [(replace(few, num_silos=silos), _FEW) for silos in (1, 5, 20)]
    points += [(replace(many, num_silos=silos), _MANY) for silos in (100, 300, 1000, 3000)]
    return Grid(title, "num_silos", tuple(points))


_LINEAR, _LOGISTIC = (0.8, 2.0, 3.5, 5.0), (2.0, 5.0, 10.0)
GRIDS: dict[str, Grid] = {
    "i": _over_epsilon("(i) n=800, d=1000, s=10, linear", _FIRST, _LINEAR, _CENTRAL_LINEAR),
    "i-logistic": _over_epsilon(
        "(i) logistic", replace(_FIRST, link="logistic"), _LOGISTIC, _CENTRAL
    ),
    "ii": _over_epsilon("(ii) n=4000, d=5000, s=50, linear", _SECOND, _LINEAR, _CENTRAL_LINEAR),
    "ii-logistic": _over_epsilon(
        "(ii) logistic", replace(_SECOND, link="logistic"), _LOGISTIC, _CENTRAL
    ),
    "silos": _over_silos("epsilon 2: up to 20 silos of 800 records, more of 200", 2.0),
    "silos-4": _over_silos("epsilon 4: the same", 4.0),
    "names": _over_epsilon("27,405 first names, d=2000, s=10", _NAMES, (0.25, 0.5, 1, 2), _REAL),
    "e2006": _over_epsilon("E2006-tfidf (MSE)", _E2006, (0.8, 1.5, 2.5, 3.5, 4.5), _REAL),
    "rcv1": _over_epsilon("RCV1", _RCV1, (2.0, 4.0, 6.0, 8.0), _REAL),
    "digits": _over_epsilon("1,437 digits, d=2081, s=10", _DIGITS, _LOGISTIC, _REAL),
}
QUICK = ("i", "i-logistic")


def tasks(names: list[str], seeds: Iterable[int]) -> list[Task]:
    """Return all runs, seed by seed, so that what is done when interrupted covers all settings."""
    return [
        Task(setting, method, seed)
        for seed in seeds
        for name in names
        for setting, methods in GRIDS[name].points
        for method in methods
    ]
