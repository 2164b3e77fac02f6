"""Wang & Gu's knowledge transfer as printed, for study: it comes with no guarantee.

Its noise hides one record if the teacher depends on each record as little as Theorem 4.3
says. A sparse model does not: which coefficients it has can hang on one record. Nothing of
this is a strategy, a statistic or a mechanism of the library, so that no client can be asked
for it.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldp_flower.accounting import gaussian_epsilon
from ldp_flower.questions.sparse import iht

Floats = NDArray[np.float64]

_VARIANCE = 1 / 3  # of a synthetic feature, uniform in [-1, 1]


@dataclass(frozen=True)
class PrintedResult:
    """A student, and what is known of its privacy: nothing.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The student's coefficients.
    nominal_epsilon, nominal_delta : float
        What the noise was calibrated to, which is a guarantee only under conditions on
        the private data that nobody can check privately.
    epsilon : None
        There is no unconditional guarantee.
    """

    coef: Floats
    nominal_epsilon: float
    nominal_delta: float
    epsilon: None = field(default=None, init=False)


def claimed_distance(rows: int, sparsity: int, convexity: float, gradient_bound: float) -> float:
    """Return how far one record moves the teacher at most, by the proof of Theorem 4.3."""
    return 2 * gradient_bound * math.sqrt(sparsity) / (rows * convexity)


def answer_noise(distance: float, num_answers: int, epsilon: float, delta: float) -> float:
    """Return the printed sigma, of each of so many answers, for teachers that far apart."""
    length = math.sqrt(num_answers * _VARIANCE) * distance
    return length * math.sqrt(2 * math.log(2.5 / delta)) / epsilon


def printed_transfer(
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    sparsity: int,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    link: str = "identity",
    ridge: float = 0.0,
    convexity: float | None = None,
    gradient_bound: float = 1.0,
) -> PrintedResult:
    """Run Algorithm 1: as many noisy answers as records, then the student.

    Parameters
    ----------
    x, y : ndarray, shapes (rows, dim) and (rows,)
        The private records.
    sparsity : int
        Of teacher and student.
    epsilon, delta : float
        Nominal privacy parameters.
    rng : Generator
        Draws synthetic features and noise.
    link, ridge
        The teacher's loss.
    convexity : float, optional
        By default ``ridge`` (Theorem 4.3); or the mu that Corollary 4.7 assumes.
    gradient_bound : float (default: 1.0)
        The gamma that both assume.
    """
    rows, dim = x.shape
    teacher = iht(x, y, sparsity, link=link, ridge=ridge)
    distance = claimed_distance(rows, sparsity, convexity or ridge, gradient_bound)
    synthetic = rng.uniform(-1, 1, (rows, dim))
    noise = answer_noise(distance, rows, epsilon, delta) * rng.standard_normal(rows)
    student = iht(synthetic, synthetic @ teacher + noise, sparsity)
    return PrintedResult(student, epsilon, delta)


def counter_example(rows: int, last_in_first: bool) -> tuple[Floats, Floats]:
    """Return records on two axes, all with target 1; the last one decides the majority.

    ``rows`` is odd. Of the others one half is ``((1, 0), 1)``, the other ``((0, 1), 1)``.
    """
    in_first = np.arange(rows) < rows // 2
    in_first[-1] = last_in_first
    return np.stack([in_first, ~in_first], axis=1).astype(np.float64), np.ones(rows)


def true_epsilon(rows: int, ridge: float, epsilon: float, delta: float) -> float:
    """Return the epsilon, at delta, of the answers on the counter-example.

    Exact but for the length of the synthetic answers, which is taken for its root mean
    square; the number of answers cancels.
    """
    teachers = [iht(*counter_example(rows, last), 1, ridge=ridge) for last in (True, False)]
    distance = float(np.linalg.norm(teachers[0] - teachers[1]))
    sigma = answer_noise(claimed_distance(rows, 1, ridge, 1.0), 1, epsilon, delta)
    return gaussian_epsilon(math.sqrt(_VARIANCE) * distance / sigma, delta)
