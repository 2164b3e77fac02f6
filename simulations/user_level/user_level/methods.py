"""The methods that are compared, by name; each knows no more than a user of it would.

A strategy for users with many records is one entry of ``METHODS``, such as
``"SparseRegression": Method(USER_LEVEL, of_users(SparseRegression))``.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from ldp_flower import simulate
from ldp_flower.strategies import (
    LdpIht,
    LinearResult,
    MultiRoundRegression,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
)
from ldp_flower.validation import check_choice

from .ldpprox import LdpProx
from .population import DECLARED_SCALE, SPARSITY, Floats, Population, Setting

_PENALTY = 0.6  # of local Lassos, in units of the universal penalty
_FEATURE_BOUND = 3.0  # of a normal feature, for protocols that want them in [-1, 1]


@dataclass(frozen=True)
class Estimate:
    """What a method says.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The coefficients.
    support : ndarray of int64
        The features that it selects.
    scale_declared : bool
        Whether it was told the scale of the targets, which it could not estimate.
    """

    coef: Floats
    support: NDArray[np.int64]
    scale_declared: bool = field(default=False)


USER_LEVEL = "user-level LDP"
_GUARANTEES = (
    USER_LEVEL,
    "user-level LDP, delta n^-1.1",
    "record-level LDP",
    "none",
    "asks nothing",
)
_WITHOUT_EPSILON = ("none", "asks nothing")


@dataclass(frozen=True)
class Method:
    """An estimator, and what it promises to the people whose records it sees.

    Parameters
    ----------
    guarantee : str
        One of ``_GUARANTEES``; the epsilon is the setting's.
    estimate : function of a Population
        Returns what the method says.
    """

    guarantee: str
    estimate: Callable[[Population], Estimate]

    def __post_init__(self) -> None:
        check_choice("guarantee", self.guarantee, _GUARANTEES)

    def epsilon(self, setting: Setting) -> float | None:
        """Return the epsilon that it spends, None if it promises none."""
        return None if self.guarantee in _WITHOUT_EPSILON else setting.epsilon


def of_users(strategy: Callable[..., Any], **options: Any) -> Callable[[Population], Estimate]:
    """Return the method of a strategy that asks each user once about all its records.

    Parameters
    ----------
    strategy : type of LdpStrategy
        Called with the dimension, ``epsilon``, ``samples_per_user`` and the options.
    **options
        Further arguments of its constructor.
    """

    def run(population: Population) -> Estimate:
        setting = population.setting
        known = options | {
            "epsilon": setting.epsilon,
            "samples_per_user": setting.samples_per_user,
        }
        if setting.scale == "estimated":
            # Whether users suffice to learn the scale depends on public numbers alone,
            # and the strategy says so before it asks anything.
            with suppress(TooFewReports):
                return _estimate(strategy(setting.dim, **known), population)
        known["target_scale"] = DECLARED_SCALE
        return _estimate(strategy(setting.dim, **known), population, scale_declared=True)

    return run


def _estimate(strategy: Any, population: Population, scale_declared: bool = False) -> Estimate:
    result: LinearResult = simulate(strategy, population.users(), seed=population.seed)
    return Estimate(result.coef, result.support, scale_declared)


def ldp_iht(population: Population) -> Estimate:
    """LDP-IHT as if every record were a user: ``n m`` reports, each at the full epsilon.

    Its guarantee is per record only. It is told the true sparsity.
    """
    strategy = LdpIht(
        population.setting.dim,
        sparsity=SPARSITY,
        epsilon=population.setting.epsilon,
    )
    records = population.single_records(_FEATURE_BOUND)
    coef = simulate(strategy, records, seed=population.seed).coef / _FEATURE_BOUND
    return Estimate(coef, np.flatnonzero(coef))


def local_lasso(population: Population) -> Estimate:
    """Average of the Lassos that users fit to their own records; not private.

    Each user's penalty is 0.6 of the universal one, ``sqrt(2 log(d) / m)`` times the root
    mean square of its own targets: no truth is needed. What any user selects is selected.
    """
    setting = population.setting
    universal = math.sqrt(2 * math.log(setting.dim) / setting.samples_per_user)
    total = np.zeros(setting.dim)
    for features, targets in population.batches():
        for x, y in zip(features, targets, strict=True):
            penalty = _PENALTY * universal * math.sqrt(np.mean(y**2))
            model = Lasso(alpha=penalty, fit_intercept=False, precompute=False)
            total += model.fit(x, y).coef_
    coef = total / setting.num_users
    return Estimate(coef, np.flatnonzero(coef))


def ldpprox(population: Population) -> Estimate:
    """LDPPROX, at user level and (epsilon, n ** -1.1)."""
    setting = population.setting
    users = (user for batch in population.batches() for user in zip(*batch, strict=True))
    rng = np.random.default_rng(population.seed)
    coef = LdpProx(setting.dim, setting.num_users, setting.epsilon).estimate(users, rng)
    return Estimate(coef, np.flatnonzero(coef))


def oracle(population: Population) -> Estimate:
    """Least squares on all records, given the true support; not private."""
    gram, moment = np.zeros((SPARSITY, SPARSITY)), np.zeros(SPARSITY)
    for features, targets in population.batches():
        x = features.reshape(-1, population.setting.dim)[:, population.support]
        gram += x.T @ x
        moment += x.T @ targets.ravel()
    coef = np.zeros(population.setting.dim)
    coef[population.support] = np.linalg.solve(gram, moment)
    return Estimate(coef, population.support)


def zero(population: Population) -> Estimate:
    """Return zero: what everybody can say without any data."""
    return Estimate(np.zeros(population.setting.dim), np.zeros(0, np.int64))


METHODS: dict[str, Method] = {
    "SparseRegression": Method(USER_LEVEL, of_users(SparseRegression)),
    "two-round": Method(USER_LEVEL, of_users(TwoRoundRegression, sparsity=SPARSITY)),
    "multi-round": Method(USER_LEVEL, of_users(MultiRoundRegression, sparsity=SPARSITY)),
    "LDP-IHT, per record": Method("record-level LDP", ldp_iht),
    "local Lasso": Method("none", local_lasso),
    "LDPPROX": Method("user-level LDP, delta n^-1.1", ldpprox),
    "oracle": Method("none", oracle),
    "zero": Method("asks nothing", zero),
}


def error(coef: Floats, population: Population) -> float:
    """Return the (unsquared) Euclidean norm of the coefficients' error."""
    return float(np.linalg.norm(coef - population.coef))


def f1(support: NDArray[np.int64], population: Population) -> float:
    """Return the harmonic mean of the selection's precision and recall."""
    found = len(np.intersect1d(support, population.support))
    return 2 * found / (len(support) + len(population.support))
