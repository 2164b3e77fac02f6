"""Convex minimisation by gradients: FISTA, and SIGM for gradients with noise and bias."""

import math
from collections.abc import Callable, Iterator

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
    squared distance over 2 t; for a constraint this is the projection. The method stops early once
    a step changes nothing. The last iterate is within
    ``2 smoothness distance**2 / (num_steps + 1)**2`` of the minimum.
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


# Weight of every gradient and of every new point (alpha and B of the source).
_WEIGHT = 1 / math.sqrt(2)


def damping(k: int, smoothness: float, noise: float, radius: float) -> float:
    """Return the divisor of the k-th step of :func:`sigm` (beta); a larger one shortens the step.

    The convergence proof requires that it never decreases in k and exceeds ``smoothness``.
    """
    return float(smoothness + 2**0.75 * noise / radius * math.sqrt(k + 2))


def sigm(
    gradients: Iterator[Callable[[Floats], Floats]],
    project: Callable[[Floats], Floats],
    start: Floats,
    *,
    smoothness: float,
    noise: float,
    radius: float,
) -> Floats:
    """Minimise a convex function over a convex set from a sequence of noisy gradients.

    Each gradient is used at one point, and the method ends with the last one. It returns the last
    average (y of the source), whose excess over the minimum is of the order of
    ``smoothness radius**2 / k + noise radius / sqrt(k) + bias``. Source: Dvurechensky & Gasnikov
    (2016), the Euclidean method of order p = 1, in which bias does not accumulate. The constants
    satisfy the conditions of its proof.

    smoothness: Lipschitz constant of the true gradient.
    noise: Root mean square length of a gradient's noise.
    radius: Distance from the start within which the minimum lies.
    """
    for name, value in (("smoothness", smoothness), ("noise", noise), ("radius", radius)):
        check_positive(name, value)
    summed, total = np.zeros_like(start), 0.0
    average = point = start
    for k, gradient in enumerate(gradients):
        step = damping(max(k - 1, 0), smoothness, noise, radius)
        point = project(start - summed / step)
        found = gradient(point)
        summed = summed + _WEIGHT * found
        total += _WEIGHT
        reached = project(point - _WEIGHT / step * found)
        average = (1 - _WEIGHT / total) * average + _WEIGHT / total * reached
    return np.asarray(average)
