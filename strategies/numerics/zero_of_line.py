"""Where a direction is zero that was asked at several positions, and what is not known of it.

A direction is taken for ``slope * (zero - position)`` in every coordinate, plus noise. Slopes are 1
if curvatures, and what shortening leaves of a direction, are what they are taken for; they are
fitted to the coordinates that are clear of zero. Early positions lie far from the zero, where
neither is the same: their errors grow with the distance, as fast as the directions show.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

#: Of the squared distance to the zero, what a step may leave of it.
LEFT = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
_SLOPE_ERROR = 0.5  # of the common slope, before anything is known of it
_LEAST, _MOST = 0.2, 50.0  # slopes; of a coordinate over the common one, 0.2 at least, too
_CLEAR = 2.0  # times the noise
_ROUNDS = 2  # of weighting by the distance from the zero so far; more change nothing


@dataclass(frozen=True)
class Zero:
    """The zero of a line, shape (coordinates,).

    ``std_error`` is with what is not known of slopes, ``noise`` without.
    """

    place: Floats
    std_error: Floats
    noise: Floats
    slopes: Floats


def by_chance(number: int) -> float:
    """Return how many standard errors the largest of so many zeros hardly is from zero."""
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
        Of the directions; infinite where nothing was asked.
    uncertain : ndarray, shape (coordinates,)
        Relative error of each coordinate's own slope, given the common one.
    distances : callable
        From a zero to the mean squared distance of every position from it, shape (steps,), in the
        units of positions.
    left : sequence of float
        What steps may leave of that distance, of which the likeliest is taken.
    """

    def fitted(far: Floats, clear: NDArray[np.bool_]) -> tuple[float, Zero]:
        """Return a zero, and minus twice the logarithm of its likelihood."""
        total = variances + far
        found = _weighted(positions, directions, variances, total, uncertain, clear)
        missed = directions - found.slopes * (found.place - positions)
        return float(np.sum((missed**2 / total + np.log(total))[np.isfinite(total)])), found

    number = positions.shape[1]
    zero = fitted(np.zeros((len(positions), 1)), np.zeros(number, bool))[1]
    for _ in range(_ROUNDS):
        # What is uncertain for its slope only is clear, too: or slopes would never be fitted.
        error = np.minimum(zero.std_error, _CLEAR * zero.noise)
        clear = np.abs(zero.place) > by_chance(number) * error
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
    """Return the zero, with slopes of the coordinates that are ``clear`` of it.

    ``noises`` are what of the variances is noise.
    """
    weights = 1 / variances
    total = weights.sum(axis=0)
    place = (weights * positions).sum(axis=0) / total
    direction = (weights * directions).sum(axis=0) / total
    moved, turned = positions - place, directions - direction
    information = np.where(clear, (weights * moved**2).sum(axis=0), 0.0)
    # Positions have gone along the noise of earlier directions, which then seems to turn back: on
    # average by 1 less the first one's weight, where each position is the zero of those before it,
    # and all of their variance is noise.
    share = np.divide(noises, variances, out=np.zeros_like(weights), where=weights > 0)
    gone_along = (1 - weights[0] / total) * (weights * share).sum(axis=0) / total
    turning = -(weights * moved * turned).sum(axis=0) - gone_along
    turning = np.where(clear, turning, 0.0)
    known = 1 / _SLOPE_ERROR**2
    common = (known + turning.sum()) / (known + information.sum())
    common = min(max(float(common), _LEAST), _MOST)
    prior = 1 / np.maximum(uncertain * common, 1e-9) ** 2
    slopes = np.maximum((prior * common + turning) / (prior + information), _LEAST * common)
    variance = 1 / (prior + information) + (slopes / common) ** 2 / (known + information.sum())
    noise = 1 / np.sqrt(total) / slopes
    std_error = np.hypot(noise, direction * np.sqrt(variance) / slopes**2)
    return Zero(place + direction / slopes, std_error, noise, slopes)
