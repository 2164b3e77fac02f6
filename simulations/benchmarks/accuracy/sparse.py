"""Measure SparseMean and SparseRegression for classes on synthetic data.

They are tables of simulations/user_level/README.md.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from ldp_flower import Users, simulate
from ldp_flower.strategies import (
    SparseMean,
    SparseRegression,
    SparseResult,
    TooFewReports,
    UserLevelMean,
)

Floats = NDArray[np.float64]

SEEDS = 20
SPARSITY = 8


def sparse(dim: int, norm: float, rng: np.random.Generator) -> Floats:
    """Return eight equal sizes with random signs at random places."""
    vector = np.zeros(dim)
    places = rng.choice(dim, SPARSITY, replace=False)
    vector[places] = norm / np.sqrt(SPARSITY) * rng.choice([-1, 1], SPARSITY)
    return vector


def judged(result: SparseResult, truth: Floats) -> tuple[float, float, float]:
    """Return the error, F1 of the support and coverage of two standard errors on it."""
    found, true = set(result.support.tolist()), np.flatnonzero(truth)
    error = result.coef - truth
    f1 = 2 * len(found & set(true.tolist())) / (len(found) + len(true))
    within = np.abs(error[true]) < 2 * result.std_error[true]
    return float(np.linalg.norm(error)), f1, float(within.mean())


def print_rows(measure: Callable[..., list[float]], settings: list[tuple[Any, ...]]) -> None:
    """Print means over seeds, the first column's with its standard error."""
    for setting in settings:
        rows = np.array([measure(seed, *setting) for seed in range(SEEDS)])
        cells = [f"{np.mean(column):.3f}" for column in rows.T]
        cells[0] += f" ({np.std(rows[:, 0]) / SEEDS**0.5:.3f})"
        print(f"| {' | '.join(map(str, setting))} | {' | '.join(cells)} |", flush=True)


def mean_errors(seed: int, n: int, m: int, d: int, epsilon: float, differ: float) -> list[float]:
    """Return what became of a sparse mean, and the error of the mean of all coordinates."""
    rng = np.random.default_rng(seed)
    truth = sparse(d, 0.32**0.5, rng)
    # A row that is the mean of m; how many rows it stands for is nowhere used.
    spread = np.hypot(m**-0.5, differ)
    users = Users.from_rows(truth + spread * rng.standard_normal((n, d)))
    dense = UserLevelMean(d, epsilon=epsilon, bound=1.0)
    dense_error = float(np.linalg.norm(simulate(dense, users, seed=seed).coef - truth))
    with suppress(TooFewReports):
        result = simulate(SparseMean(d, epsilon=epsilon), users, seed=seed)
        return [*judged(result, truth), dense_error]
    # Too few users to estimate the scale: it is declared, a tenth too large.
    scale = 1.1 * float(np.sqrt(0.32 + d * spread**2))
    declared = SparseMean(d, epsilon=epsilon, scale=scale)
    return [*judged(simulate(declared, users, seed=seed), truth), dense_error]


def measure_means() -> None:
    """Print errors of the sparse mean beside those of the mean of all coordinates."""
    print("| n | m | d | epsilon | users differ by | error | F1 | within 2 | UserLevelMean |")
    settings: list[tuple[Any, ...]] = [(400, 100, 256, 4.0, 0.0)]
    settings += [(400, 100, 256, epsilon, 0.0) for epsilon in (2.0, 6.0)]
    settings += [(n, 100, 256, 4.0, 0.0) for n in (200, 2000)]
    settings += [(400, 50, 256, 4.0, 0.0), (400, 100, 16, 4.0, 0.0), (400, 100, 4096, 4.0, 0.0)]
    settings += [(2000, 100, 256, 1.0, 0.0), (400, 100, 256, 4.0, 0.1)]
    print_rows(mean_errors, settings)


FEATURES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape) - 1,
}


def class_errors(
    seed: int, n: int, m: int, d: int, epsilon: float, norm: float, features: str
) -> list[float]:
    """Return what became of logistic coefficients, and the error without privacy."""
    rng = np.random.default_rng(seed)
    truth = sparse(d, norm, rng)
    x = FEATURES[features](rng, (n * m, d))
    y = (rng.uniform(size=len(x)) < 1 / (1 + np.exp(-x @ truth))).astype(float)
    strategy = SparseRegression(d, epsilon=epsilon, samples_per_user=m, link="logistic")
    result = simulate(strategy, Users(x, y, m * np.arange(n + 1)), seed=seed)
    places = np.flatnonzero(truth)
    oracle = LogisticRegression(C=np.inf, fit_intercept=False).fit(x[:, places], y)
    return [*judged(result, truth), float(np.linalg.norm(oracle.coef_[0] - truth[places]))]


def measure_classes() -> None:
    """Print errors of logistic coefficients beside those of a fit on the support, not private."""
    print("| n | m | d | epsilon | norm | features | error | F1 | within 2 | no privacy |")
    settings: list[tuple[Any, ...]] = [
        (400, 100, 256, 4.0, norm, "normal") for norm in (1.0, 2.0, 4.0)
    ]
    settings += [(800, 100, 64, 4.0, 1.0, features) for features in FEATURES]
    settings += [(400, 100, 256, 2.0, 2.0, "normal"), (2000, 100, 256, 2.0, 1.0, "normal")]
    settings += [(2000, 100, 64, 1.0, 1.0, "normal"), (800, 30, 64, 4.0, 1.0, "normal")]
    print_rows(class_errors, settings)
