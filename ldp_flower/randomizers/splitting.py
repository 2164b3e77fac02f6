"""How to divide an epsilon over the parts of one report."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar

from ..validation import check_positive
from .base import Randomizer
from .composed import sum_rounded_up

_SWEEPS = 20
_GAIN = 1e-4  # relative, of a sweep that is worth another one
_MIN_SHARE = 1e-2  # of what two parts have together


def split_epsilon(
    epsilon: float,
    mechanisms: Sequence[Callable[[float], Randomizer]],
    weights: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Divide an epsilon over parts so that the weighted sum of their variances is small.

    Parameters
    ----------
    epsilon : float
        What the parts may cost together.
    mechanisms : sequence of callable
        For each part, a function from its epsilon to its mechanism.
    weights : sequence of float, optional
        What a part's ``variance`` (of a coordinate) counts; by default its ``size``,
        which makes the sum that of all coordinates' variances.

    Returns
    -------
    tuple of float
        The parts' epsilons. Their exact sum, and the epsilon that :class:`Composed`
        claims for it, are at most ``epsilon``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or epsilon is too small for the parts.

    Notes
    -----
    Minimises ``sum_i w_i v_i(epsilon_i)`` subject to ``sum_i epsilon_i = epsilon``. For little
    privacy loss ``v_i = c_i / epsilon_i**2`` and ``epsilon_i`` is proportional to
    ``(w_i c_i)**(1/3)``. From there neighbouring parts exchange epsilon as long as the exact
    variances fall. The sum is separable and, but for small jumps where a mechanism changes its
    design, convex, so this ends close to the minimum.
    """
    check_positive("epsilon", epsilon)
    if not mechanisms:
        raise ValueError("Expected at least one part.")
    equal = [mechanism(epsilon / len(mechanisms)) for mechanism in mechanisms]
    if weights is None:
        weights = [part.size for part in equal]
    if len(weights) != len(mechanisms):
        raise ValueError(f"Expected {len(mechanisms)} weights, got {len(weights)}.")
    for weight in weights:
        check_positive("weights", weight)

    def cost(part: int, share: float) -> float:
        return weights[part] * mechanisms[part](share).variance

    scale = [math.cbrt(weight * part.variance) for weight, part in zip(weights, equal, strict=True)]
    shares = [epsilon * part / sum(scale) for part in scale]
    costs = [cost(part, share) for part, share in enumerate(shares)]
    for _ in range(_SWEEPS if len(shares) > 1 else 0):
        before = sum(costs)
        for i, j in pairwise([*range(len(shares)), 0]):
            _exchange(i, j, shares, costs, cost)
        if sum(costs) > (1 - _GAIN) * before:
            break
    while sum_rounded_up(shares) > epsilon:
        shares = [share * (1 - np.finfo(float).eps) for share in shares]
    return tuple(map(float, shares))


def _exchange(
    i: int,
    j: int,
    shares: list[float],
    costs: list[float],
    cost: Callable[[int, float], float],
) -> None:
    """Divide what two parts have together anew, if that makes their costs smaller."""
    both = shares[i] + shares[j]
    found = minimize_scalar(
        lambda share: cost(i, share) + cost(j, both - share),
        bounds=(_MIN_SHARE * both, (1 - _MIN_SHARE) * both),
        method="bounded",
        options={"xatol": 1e-4 * both},
    )
    if found.fun < costs[i] + costs[j]:
        shares[i], shares[j] = float(found.x), both - float(found.x)
        costs[i], costs[j] = cost(i, shares[i]), cost(j, shares[j])
