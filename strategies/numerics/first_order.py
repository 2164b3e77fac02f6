"""Convex minimisation by gradients: FISTA, and SIGM for gradients with noise and bias."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ldp_flower.validation import Floats, check_positive


def fista(
    gradient: Callable[[Floats], Floats],
    proximal: Callable[[Floats, float], Floats],
    smoothness: float,
    start: Floats,
    num_steps: int = 500,
) -> Floats:
    """Minimise a smooth convex function plus a simple one (Beck & Teboulle, 2009).

    ``proximal`` maps a vector and a step size t to the minimiser of the simple function plus the
    squared distance over 2 t: for a constraint, the projection. Gradients are fewer once a step
    changes nothing. The last iterate is within ``2 smoothness distance**2 / (num_steps + 1)**2`` of
    the minimum.
    """
    step = 1 / smoothness
    current = ahead = start
    momentum = 1.0
    for _ in range(num_steps):
        following = proximal(ahead - step * gradient(ahead), step)
        moved = following - current
        grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / grown * moved
        current, momentum = following, grown
        if np.abs(moved).max() <= 1e-12 * np.abs(current).max(initial=1e-300):
            break
    return current


@dataclass(frozen=True)
class StepSizes:
    """The sequences that the method steps by; ``k`` counts from 0.

    The convergence proof needs ``weight(0) <= 1``, ``damping`` not falling and above
    ``smoothness``, ``weight(k) <= share(k)``, and ``weight(k)**2 damping(k) <= share(k)
    damping(k - 1) <= A(k) damping(k - 1)``, A the sum of weights up to the k-th.
    """

    smoothness: float  # Lipschitz constant of the true gradient
    noise: float  # root mean square length of a gradient's noise
    radius: float  # distance from the start within which the minimum lies
    # Between 1 and 2: 1 is slowest but adds up no bias, 2 is the fast gradient method
    order: float = 1.0

    def __post_init__(self) -> None:
        check_positive("smoothness", self.smoothness)
        check_positive("noise", self.noise)
        check_positive("radius", self.radius)
        if not 1 <= self.order <= 2:
            raise ValueError(f"Expected 1 <= order <= 2, got {self.order}.")

    @property
    def _scale(self) -> float:
        return float(math.sqrt(2) ** (2 * self.order - 1))

    def weight(self, k: int) -> float:
        """Weight of the k-th gradient (alpha)."""
        return float((1 + k / self.order) ** (self.order - 1) / self._scale)

    def damping(self, k: int) -> float:
        """Divisor of the k-th step (beta)."""
        q = self.order
        factor = 2 ** ((5 - 2 * q) / 4) * q ** ((1 - 2 * q) / 2)
        growth = (k + q + 1) ** ((2 * q - 1) / 2)
        return float(self.smoothness + factor * self.noise / self.radius * growth)

    def share(self, k: int) -> float:
        """Weight of the k-th new point (B)."""
        return float(self._scale * self.weight(k) ** 2)


def sigm(
    gradients: Iterator[Callable[[Floats], Floats]],
    project: Callable[[Floats], Floats],
    steps: StepSizes,
    start: Floats,
) -> Floats:
    """Minimise a convex function over a convex set from one noisy gradient after the other.

    Each gradient is used at one point, and the method ends with the last. Returned is the last
    average (y of the source), whose excess is of the order of ``smoothness radius**2 / k**order +
    noise radius / sqrt(k) + k**(order - 1) bias``. Source: Dvurechensky & Gasnikov (2016),
    Euclidean; the constants are those that satisfy the conditions of :class:`StepSizes`.
    """
    found = next(gradients)(start)
    summed = steps.weight(0) * found
    average = project(start - steps.weight(0) / steps.damping(0) * found)
    total = steps.weight(0)
    for k, gradient in enumerate(gradients):
        weight, share, damping = steps.weight(k + 1), steps.share(k + 1), steps.damping(k)
        mixing = weight / share
        dual = project(start - summed / damping)
        point = mixing * dual + (1 - mixing) * average
        found = gradient(point)
        summed = summed + weight * found
        total += weight
        reached = project(dual - weight / damping * found)
        new = mixing * reached + (1 - mixing) * average
        average = (1 - share / total) * average + share / total * new
    return np.asarray(average)
