"""Privacy loss distributions of all reports of one user together.

The loss of a report is the logarithm of the ratio of its probabilities under two values. A pure
mechanism loses at most as much as randomized response, whose loss has a discrete distribution
(:func:`losses_of`). Gaussian reports are added in closed form (:func:`smallest_epsilon`).
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..randomizers.real_valued.gaussian import log_gaussian_delta
from ..validation import Floats

_NEGLIGIBLE = 50.0  # in nats; a loss that is less likely than delta by this factor is negligible
_MOST_LOSSES = 1 << 16  # largest number of different losses; with more, a grid is used
_MARGIN = 1e-9  # relative margin of delta, far more than rounding and omitted losses change
_SMALLEST_DELTA = 1e-300  # smallest delta for which probabilities on a grid do not vanish


class Losses(NamedTuple):
    """Discrete distribution of losses, with the logarithms of their probabilities."""

    losses: Floats
    log_probabilities: Floats


def losses_of(counts: Mapping[float, int], delta: float) -> Losses:
    """Return the distribution of the total loss of ``counts[epsilon]`` randomized responses each.

    It is exact, except for losses that are too unlikely to change ``delta``. If different epsilons
    give more than 65,536 different losses, they are moved to a grid, which overstates the loss.
    """
    unlikely = _NEGLIGIBLE - math.log(delta)
    laws = [_of_equal(epsilon, count, unlikely) for epsilon, count in counts.items()]
    laws.sort(key=lambda law: len(law.losses))
    losses, log_probabilities = _of_all(laws, delta)
    # Larger losses are on the safe side: increase them by the largest rounding error of the sums.
    rounded = 2 * len(laws) * sys.float_info.epsilon * sum(law.losses.max() for law in laws)
    return Losses(losses + rounded, log_probabilities)


def _of_all(laws: Sequence[Losses], delta: float) -> Losses:
    """Return the distribution of the sum of independent losses, one from each of ``laws``.

    ``laws`` starts with the distribution of the fewest losses.
    """
    total = Losses(np.zeros(1), np.zeros(1))
    if len(laws) > 1 and math.prod(len(law.losses) for law in laws) > _MOST_LOSSES:
        if delta < _SMALLEST_DELTA:  # assume the largest possible loss
            return Losses(np.array([sum(law.losses.max() for law in laws)]), np.zeros(1))
        return _on_grid(laws)
    for law in laws:
        losses = np.add.outer(total.losses, law.losses).ravel()
        logs = np.add.outer(total.log_probabilities, law.log_probabilities).ravel()
        total = Losses(losses, logs)
    return total


def _of_equal(epsilon: float, count: int, unlikely: float) -> Losses:
    """Return the distribution of the total loss of ``count`` randomized responses at one epsilon.

    The number of flipped responses is binomial. Losses with a probability below exp(-unlikely)
    are left out.
    """
    share = 1 / (1 + math.exp(min(epsilon, 700.0)))
    # By Bernstein's inequality, all numbers outside this range are less likely than that.
    reach = 2 * unlikely / 3 + math.sqrt(2 * unlikely * count * share * (1 - share))
    first = max(0, math.floor(count * share - reach))
    last = min(count, math.ceil(count * share + reach))
    others = np.arange(first, last + 1, dtype=np.float64)  # numbers of flipped responses
    steps = np.log((count - others[:-1]) / others[1:]) - epsilon
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    logs -= logs.max()
    logs -= math.log(np.exp(logs).sum())
    kept = logs > -unlikely
    return Losses(((count - 2 * others) * epsilon)[kept], logs[kept])


def _on_grid(laws: Sequence[Losses]) -> Losses:
    """Return the distribution of the sum of losses on a grid.

    The probability of each loss is divided between its two neighbours on the grid such that the
    total probabilities under both values do not change. All deltas are then slightly larger, also
    after composition: Doroshenko, Ghazi, Kamath, Kumar & Manurangsi (2022), "connect the dots".
    """
    step = sum(float(np.ptp(law.losses)) for law in laws) / _MOST_LOSSES
    lowest, total = 0.0, np.ones(1)
    for law in laws:
        lowest += float(law.losses.min())
        above = (law.losses - law.losses.min()) / step
        places = np.floor(above).astype(np.int64)
        lower = np.expm1((places + 1 - above) * step) / math.expm1(step)
        shares, size = np.exp(law.log_probabilities), int(places.max()) + 2
        masses = np.bincount(places, shares * lower, size)
        masses += np.bincount(places + 1, shares * (1 - lower), size)
        total = np.convolve(total, masses)
    kept = np.flatnonzero(total)
    return Losses(np.asarray(lowest + kept * step), np.log(total[kept]))


def smallest_epsilon(law: Losses, mu: float, delta: float, most: float) -> float:
    """Return the smallest epsilon for ``delta``, given losses and Gaussian reports together.

    ``mu`` is the mu of all Gaussian reports together, or 0 if there are none. ``most`` is an
    epsilon that is large enough. The result is rounded up.

    Notes
    -----
    The delta of two mechanisms together at epsilon is the mean, over the loss L of one mechanism,
    of the other's delta at epsilon - L. The delta of Gaussian reports is by Balle & Wang (2018,
    Theorem 8). Without Gaussian reports it is ``max(0, 1 - exp(epsilon - L))``; if all epsilons
    are equal, the result is that of Kairouz, Oh & Viswanath (2015, Theorem 3.3).
    """
    from scipy.optimize import brentq  # slow to import, so a node's process starts without it

    aim = math.log(delta) + math.log1p(-_MARGIN)

    def excess(epsilon: float) -> float:
        rest = epsilon - law.losses
        logs = law.log_probabilities + (log_gaussian_delta(rest, mu) if mu else _log_excess(rest))
        return float(np.logaddexp.reduce(np.clip(logs, -1e4, None))) - aim

    if excess(0.0) <= 0:
        return 0.0
    if excess(most) > 0:
        return most
    epsilon = float(brentq(excess, 0.0, most, xtol=5e-324, rtol=1e-14))
    step = 1e-15
    while epsilon < most and excess(epsilon) > 0:
        epsilon, step = epsilon * (1 + step), 2 * step
    return min(epsilon * (1 + 8 * sys.float_info.epsilon), most)  # more than any rounding error


def _log_excess(epsilon: Floats) -> Floats:
    """Return the logarithm of ``max(0, 1 - exp(epsilon))`` for each epsilon."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(np.minimum(epsilon, 0.0))))
