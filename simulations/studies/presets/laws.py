"""Features, noise and coefficients, on which protocols are tried with nothing declared."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator


def _scales(rng: Rng, dim: int) -> Floats:
    return np.asarray(rng.permutation(np.geomspace(0.25, 1, dim)))


#: Laws of features, from a generator, a number of rows and one of columns. The first ones were
#: looked at while protocols were built; those from ``JUDGED`` on were not.
FEATURES: dict[str, Callable[[Rng, int, int], Floats]] = {
    "signs": lambda rng, n, d: rng.choice([-1.0, 1.0], (n, d)),
    "uniform": lambda rng, n, d: rng.uniform(-1, 1, (n, d)),
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "0/1": lambda rng, n, d: (rng.random((n, d)) < 0.33).astype(float),
    "one-hot": lambda rng, n, d: np.eye(d)[rng.integers(0, d, n)],
    "heavy-tailed": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "unlike scales": lambda rng, n, d: rng.uniform(-1, 1, (n, d)) * _scales(rng, d),
    "off-centre": lambda rng, n, d: rng.uniform(-0.6, 0.6, d) + rng.uniform(-0.4, 0.4, (n, d)),
    "triangular": lambda rng, n, d: rng.triangular(-1, 0.3, 1, (n, d)),
    "ends": lambda rng, n, d: 2 * rng.beta(0.5, 0.5, (n, d)) - 1,
    "counts": lambda rng, n, d: rng.poisson(0.7, (n, d)).astype(float),
    "lognormal": lambda rng, n, d: rng.lognormal(0, 0.8, (n, d)),
    "one factor": lambda rng, n, d: (
        0.6 * rng.standard_normal((n, 1)) + 0.8 * rng.standard_normal((n, d))
    ),
    "two kinds": lambda rng, n, d: (
        rng.standard_normal((n, d)) * np.where(rng.random((n, 1)) < 0.3, 2.0, 0.5)
    ),
    "far away": lambda rng, n, d: 40 + 5 * rng.standard_normal((n, d)),
}
JUDGED = "triangular"

#: Noise of mean 0 and variance 1.
NOISES: dict[str, Callable[[Rng, int], Floats]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "Laplace": lambda rng, n: rng.laplace(0, 0.5**0.5, n),
    "skewed": lambda rng, n: rng.exponential(1, n) - 1,
    "heavy-tailed": lambda rng, n: rng.standard_t(3, n) / 3**0.5,
}

COEFFICIENTS = ("equal", "normal", "one far larger", "beyond the ball")


def coefficients(kind: str, rng: Rng, dim: int) -> Floats:
    """Return four coefficients that differ from zero, five beyond the unit ball."""
    theta = np.zeros(dim)
    support = rng.choice(dim, 5 if kind == "beyond the ball" else 4, replace=False)
    if kind == "equal":
        theta[support] = rng.choice([-0.5, 0.5], 4)
    elif kind == "normal":
        theta[support] = rng.standard_normal(4)
    elif kind == "one far larger":
        theta[support] = 1.0, 0.1, -0.1, 0.1
    else:
        theta[support] = 2 * rng.uniform(0, 1, 5)
    return theta
