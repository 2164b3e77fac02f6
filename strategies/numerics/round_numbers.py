"""Round numbers: those that are told with few digits."""

import math

import numpy as np
from numpy.typing import NDArray

_FEWEST = 1e-15  # of a number: what a float tells


def roundest(low: float, high: float, near: float) -> float:
    """Return the roundest number from ``low`` to ``high``: the nearest one of the coarsest step.

    Steps are 10, 5 and 2 times a power of 10. If ``high`` is not above ``low``, ``near``.
    """
    size = max(abs(low), abs(high))
    if not high > low or not math.isfinite(size):
        return near
    power = math.ceil(math.log10(size)) + 1
    while 10.0**power > _FEWEST * size:
        for factor in (10, 5, 2):
            step = factor * 10.0 ** (power - 1)
            first, last = math.ceil(low / step), math.floor(high / step)
            if first <= last:
                multiple = min(max(round(near / step), first), last)
                # By a division where the step is a fraction: 7 / 10 is 0.7, 7 * 0.1 is not.
                return multiple * step if step >= 1 else multiple / (round(1 / step))
        power -= 1
    return near


def coarsest_step(span: float) -> float:
    """Return the largest power of 10 that is at most half as much."""
    return 10.0 ** math.floor(math.log10(span / 2))


def steps_from(step: float, number: int) -> NDArray[np.float64]:
    """Return ``step`` and so many in all, each a multiple of the next: 10, 5, 1, 0.5, ..."""
    places = np.arange(number)
    return np.asarray(step / (10.0 ** (places // 2) * (1 + places % 2)), np.float64)
