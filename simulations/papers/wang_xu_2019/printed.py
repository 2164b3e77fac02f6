"""Wang & Xu's algorithms with the noise that they print, and what that noise is worth.

None of these is a method of the library, and none has the privacy that it is called by: each
comes with its true epsilon.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ldp_flower.accounting import gaussian_epsilon
from ldp_flower.questions.sparse import keep_largest, project_on_ball

from .data import LABEL_NOISE

Floats = NDArray[np.float64]

DELTA = 1e-3
_STEP = 0.2
_CONSTANT = 1.0  # c of Algorithm 3, which the paper leaves open


def label_noise(epsilon: float) -> float:
    """Return sigma_1 of Algorithm 2: sqrt(32 ln(1.25 / delta)) C / epsilon."""
    return math.sqrt(32 * math.log(1.25 / DELTA)) * LABEL_NOISE / epsilon


def label_epsilon(epsilon: float, sparsity: int) -> float:
    """Return the true epsilon, at delta, of that noise.

    The labels of the experiment range over 2 (|theta|_1 + C), |theta|_1 being s / 2 on average.
    """
    label_range = 2 * (sparsity / 2 + LABEL_NOISE)
    return gaussian_epsilon(label_range / label_noise(epsilon), DELTA)


def noisy_labels(y: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return labels with the printed noise."""
    return np.asarray(y + label_noise(epsilon) * rng.standard_normal(len(y)))


def label_ldp_iht(
    x: Floats, labels: Floats, sparsity: int, rng: np.random.Generator, sign: float
) -> Floats:
    """Run Algorithm 2 on noisy labels as the experiments do.

    A random normal start, steps of 0.2, ceil(log(n / p)) of them, no projection on
    a ball in which the coefficients do not lie. ``sign`` is -1 as printed, 1 as meant.
    """
    rows, dim = x.shape
    theta = rng.standard_normal(dim)
    for _ in range(max(0, math.ceil(math.log(rows / dim)))):
        step = x.T @ (labels - x @ theta) / rows
        theta = keep_largest(theta + sign * _STEP * step, sparsity)
    return theta


def silo_noise(epsilon: float, steps: int, rows: int) -> float:
    """Return sigma of Algorithm 3 for gradients of length at most 1 and c = 1."""
    return math.sqrt(_CONSTANT * steps * math.log(1 / DELTA)) / (rows * epsilon)


def silo_epsilon(epsilon: float) -> float:
    """Return the true epsilon, at delta, of that noise: any number of steps and rows."""
    mu = 2 / silo_noise(epsilon, 1, 1)  # steps and rows cancel
    return gaussian_epsilon(mu, DELTA)


def dp_iht(
    x: Floats,
    y: Floats,
    sparsity: int,
    epsilon: float,
    ridge: float,
    rng: np.random.Generator,
    steps: int = 400,
) -> Floats:
    """Run Algorithm 3 on logistic loss: 400 steps with the printed noise.

    The step size is that of a line search without noise, 2 over the largest curvature
    or so: what the paper's tool would find, which is not private either.
    """
    rows, dim = x.shape
    sigma = silo_noise(epsilon, steps, rows)
    largest = float(np.linalg.eigvalsh(x.T @ x / rows)[-1])
    step = 1 / (0.25 * largest + ridge)
    theta = np.zeros(dim)
    for _ in range(steps):
        gradient = x.T @ (expit(x @ theta) - y) / rows + ridge * theta
        theta = keep_largest(theta - step * (gradient + sigma * rng.standard_normal(dim)), sparsity)
    return project_on_ball(theta, 1e3)
