"""Privacy losses: what reports of one user lose together, by the law of all their losses.

The loss of a report is the logarithm of how much likelier one value makes it than another. What
pure mechanisms lose at most is what randomized response loses (:func:`losses_of`), a discrete law;
Gaussian noise is added in closed form (:func:`smallest_epsilon`).
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..randomizers.real_valued.gaussian import log_gaussian_delta
from ..validation import Floats

_NEGLIGIBLE = 50.0  # in nats: what is so much less likely than delta changes nothing of it
_MOST_LOSSES = 1 << 16  # that are told apart, where epsilons are many
_MARGIN = 1e-9  # of delta, far more than rounding changes, and than what is left out
_SMALLEST_DELTA = 1e-300  # at which probabilities on a grid do not vanish


class Losses(NamedTuple):
    """A discrete law of losses: each with the logarithm of its probability."""

    losses: Floats
    log_probabilities: Floats


def losses_of(counts: Mapping[float, int], delta: float) -> Losses:
    """Return the law of the loss of so many randomized responses of each epsilon.

    It is exact but for what does not change ``delta`` unless epsilons are so many that there are
    more than 65,536 losses; then they lie on a grid, which loses at least as much.
    """
    unlikely = _NEGLIGIBLE - math.log(delta)
    laws = [_of_equal(epsilon, count, unlikely) for epsilon, count in counts.items()]
    laws.sort(key=lambda law: len(law.losses))
    losses, log_probabilities = _of_all(laws, delta)
    # Larger losses lie on the safe side: these are larger by what rounding took from their sums.
    rounded = 2 * len(laws) * sys.float_info.epsilon * sum(law.losses.max() for law in laws)
    return Losses(losses + rounded, log_probabilities)


def _of_all(laws: Sequence[Losses], delta: float) -> Losses:
    """Return the law of the sum of losses, from the law of fewest losses on."""
    total = Losses(np.zeros(1), np.zeros(1))
    if len(laws) > 1 and math.prod(len(law.losses) for law in laws) > _MOST_LOSSES:
        if delta < _SMALLEST_DELTA:  # as if all that can be lost were lost
            return Losses(np.array([sum(law.losses.max() for law in laws)]), np.zeros(1))
        return _on_grid(laws)
    for law in laws:
        losses = np.add.outer(total.losses, law.losses).ravel()
        logs = np.add.outer(total.log_probabilities, law.log_probabilities).ravel()
        total = Losses(losses, logs)
    return total


def _of_equal(epsilon: float, count: int, unlikely: float) -> Losses:
    """Return the law for equal randomized responses: a binomial number of them are answered so.

    What has a probability below exp(-unlikely) is left out.
    """
    share = 1 / (1 + math.exp(min(epsilon, 700.0)))
    # Bernstein's inequality: no number further away is likelier.
    reach = 2 * unlikely / 3 + math.sqrt(2 * unlikely * count * share * (1 - share))
    first = max(0, math.floor(count * share - reach))
    last = min(count, math.ceil(count * share + reach))
    others = np.arange(first, last + 1, dtype=np.float64)  # answered as the other value would
    steps = np.log((count - others[:-1]) / others[1:]) - epsilon
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    logs -= logs.max()
    logs -= math.log(np.exp(logs).sum())
    kept = logs > -unlikely
    return Losses(((count - 2 * others) * epsilon)[kept], logs[kept])


def _on_grid(laws: Sequence[Losses]) -> Losses:
    """Return the law of the sum of losses, each moved to both its neighbours on a grid.

    Such that the probabilities of either value stay: all deltas are larger then, in compositions,
    too, and little: Doroshenko, Ghazi, Kamath, Kumar & Manurangsi (2022), "connect the dots".
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
    """Return the smallest epsilon at which these losses and Gaussian noise have a delta.

    ``mu`` is that of all Gaussian reports together, 0 without any; ``most`` is an epsilon that is
    large enough. The result is rounded up.

    Notes
    -----
    The delta of two mechanisms together at epsilon is the mean, over the loss L of one, of the
    other's at epsilon - L: that of Gaussian reports is Balle & Wang's (2018, Theorem 8), and
    without these it is ``max(0, 1 - exp(epsilon - L))``: Kairouz, Oh & Viswanath's (2015,
    Theorem 3.3), where all epsilons are equal.
    """
    from scipy.optimize import brentq  # slow to import: a node's process starts without

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
    return min(epsilon * (1 + 8 * sys.float_info.epsilon), most)  # no rounding is as large


def _log_excess(epsilon: Floats) -> Floats:
    """Return the logarithm of ``max(0, 1 - exp(epsilon))``."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(np.minimum(epsilon, 0.0))))
