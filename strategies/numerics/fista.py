"""FISTA: accelerated proximal gradient descent."""

import math
from collections.abc import Callable

import numpy as np

from ldp_flower.validation import Floats


def fista(
    gradient: Callable[[Floats], Floats],
    proximal: Callable[[Floats, float], Floats],
    smoothness: float,
    start: Floats,
    num_steps: int = 500,
) -> Floats:
    """Minimise a smooth convex function plus a simple one.

    proximal: Function of a vector and a step size t: the minimiser of the simple function plus the
        squared distance over 2 t. For a constraint it is the projection.
    num_steps: Gradients at most; fewer once a step changes nothing.

    The last iterate, within ``2 smoothness distance**2 / (num_steps + 1)**2`` of the minimum.

    Source: Beck & Teboulle (2009).
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
