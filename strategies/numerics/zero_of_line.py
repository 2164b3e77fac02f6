"""Estimate of the position where a direction is zero, from noisy directions at several positions.

In every coordinate a direction is modelled as ``slope * (zero - position)`` plus noise. A slope is
1 if the assumed curvature, and the assumed part of a direction that shortening leaves, are right.
Slopes are fitted to the coordinates whose zero is clearly not 0. Early positions may lie far from
the zero, where both may differ. So their errors grow with the distance, at a rate that is fitted to
the directions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

#: Candidate rates at which the variance of a direction grows with its squared distance to the zero.
LEFT = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
_SLOPE_ERROR = 0.5  # prior standard deviation of the common slope
# Smallest and largest common slope. _MIN_SLOPE is also the smallest ratio of a coordinate's slope
# to the common one.
_MIN_SLOPE, _MAX_SLOPE = 0.2, 50.0
# Largest standard error that counts in the test for clear coordinates, over the noise.
_MAX_ERROR_OVER_NOISE = 2.0
_ROUNDS = 2  # number of times that weights are recomputed from distances; more change nothing


@dataclass(frozen=True)
class Zero:
    """The zero of a line, shape (coordinates,).

    ``std_error`` includes the uncertainty of slopes, ``noise`` does not.
    """

    place: Floats  # position of the zero
    std_error: Floats
    noise: Floats
    slopes: Floats  # slope of the direction in each coordinate


def largest_noise(number: int) -> float:
    """Return a bound on the largest of ``number`` normal noises, in their standard deviations.

    It is hardly ever exceeded, so estimates beyond it are significant.
    """
    return math.sqrt(2 * math.log(max(number, 2))) + 1


def zero_of_line(
    positions: Floats,
    directions: Floats,
    variances: Floats,
    uncertain: Floats,
    distances: Callable[[Zero], Floats],
    left: Sequence[float] = LEFT,
) -> Zero:
    """Return the zero of directions at positions, shape (steps, coordinates).

    Parameters
    ----------
    variances : ndarray, shape (steps, coordinates)
        Variances of the directions; infinite for coordinates that were not asked.
    uncertain : ndarray, shape (coordinates,)
        Relative error of each coordinate's own slope, given the common one.
    distances : callable
        Function of a zero that returns the mean squared distance of every position from it, shape
        (steps,), in the units of positions.
    left : sequence of float
        Candidate rates at which variances grow with that distance. The most likely one is used.
    """

    def fitted(far: Floats, clear: NDArray[np.bool_]) -> tuple[float, Zero]:
        """Return minus twice the log-likelihood of a fitted line, and the line's zero."""
        total = variances + far
        found = _weighted(positions, directions, variances, total, uncertain, clear)
        missed = directions - found.slopes * (found.place - positions)
        return float(np.sum((missed**2 / total + np.log(total))[np.isfinite(total)])), found

    number = positions.shape[1]
    zero = fitted(np.zeros((len(positions), 1)), np.zeros(number, bool))[1]
    for _ in range(_ROUNDS):
        # Coordinates whose error comes mostly from the slope count as clear, too. Otherwise slopes
        # would never be fitted.
        error = np.minimum(zero.std_error, _MAX_ERROR_OVER_NOISE * zero.noise)
        clear = np.abs(zero.place) > largest_noise(number) * error
        apart = distances(zero)[:, None]
        zero = min((fitted(some * apart, clear) for some in left), key=lambda found: found[0])[1]
    return zero


def _weighted(
    positions: Floats,
    directions: Floats,
    noises: Floats,
    variances: Floats,
    uncertain: Floats,
    clear: NDArray[np.bool_],
) -> Zero:
    """Return the zero, with slopes fitted to the coordinates that are ``clear``.

    ``noises`` are the parts of the variances that are noise.
    """
    weights = 1 / variances
    total = weights.sum(axis=0)
    place = (weights * positions).sum(axis=0) / total
    direction = (weights * directions).sum(axis=0) / total
    moved, turned = positions - place, directions - direction
    information = np.where(clear, (weights * moved**2).sum(axis=0), 0.0)
    # Positions have followed the noise of earlier directions, so later directions seem to turn
    # back. If each position is the zero of those before it, and all variance is noise, this adds 1
    # minus the first weight on average.
    share = np.divide(noises, variances, out=np.zeros_like(weights), where=weights > 0)
    gone_along = (1 - weights[0] / total) * (weights * share).sum(axis=0) / total
    turning = -(weights * moved * turned).sum(axis=0) - gone_along
    turning = np.where(clear, turning, 0.0)
    known = 1 / _SLOPE_ERROR**2
    common = (known + turning.sum()) / (known + information.sum())
    common = min(max(float(common), _MIN_SLOPE), _MAX_SLOPE)
    prior = 1 / np.maximum(uncertain * common, 1e-9) ** 2
    slopes = np.maximum((prior * common + turning) / (prior + information), _MIN_SLOPE * common)
    variance = 1 / (prior + information) + (slopes / common) ** 2 / (known + information.sum())
    noise = 1 / np.sqrt(total) / slopes
    std_error = np.hypot(noise, direction * np.sqrt(variance) / slopes**2)
    return Zero(place + direction / slopes, std_error, noise, slopes)
