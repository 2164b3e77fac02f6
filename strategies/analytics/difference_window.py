"""Window of a difference of arms: the interval to which numbers are clipped before noise is added.

Plans draw the windows that the same noise would make a run choose.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from scipy.special import ndtri

from ldp_flower.randomizers import FrequencyOracle
from ldp_flower.validation import Floats

from ..forecasts.columns import SPREAD
from ..numerics.denoising import project_on_simplex
from .cells import ShareEstimator
from .levels import Levels, rounded

LEVELS = 9  # number of levels to which users round the numbers that determine the window
# Standard error of the arms' difference by clipping, over the mean distance of numbers from the
# window.
_BEYOND = 0.75
_HALVES = np.linspace(0.1, 1.0, 19)  # candidate half-widths of the window
_MIDDLES = 41  # number of candidates for its middle
_DRAWS = 100  # number of windows that a plan draws
_PLACES = (np.arange(500) + 0.5) / 500
#: Columns that plans assume, in [-1, 1]: the column of ColumnUsers, and exponential numbers with a
#: mean of a fifth of the bounds' distance.
HUMP = np.clip(2 * SPREAD * (1 + ndtri(_PLACES)), -1, 1)
SKEWED = np.minimum(-0.4 * np.log1p(-_PLACES) - 1, 1)


class Window(NamedTuple):
    """An interval within [-1, 1] to which numbers are clipped."""

    middle: float = 0.0
    half: float = 1.0
    beyond: float = 0.0  # mean distance of the numbers from the window

    def error(self, noise: float) -> float:
        """Return the standard error of a difference, with the error by clipping.

        ``noise`` is its standard error by noise if the window is scaled to [-1, 1].
        """
        return math.hypot(self.half * noise, _BEYOND * self.beyond)


def best_window(shares: Floats, noise: float) -> Window:
    """Return the window with the smallest standard error of the difference.

    ``shares`` are the shares of numbers at evenly spaced levels from -1 to 1. ``noise`` is the
    variance of the difference by noise if the window is the whole range.
    """
    levels, half = np.linspace(-1, 1, len(shares)), _HALVES[:, None]
    middles = np.linspace(-1, 1, _MIDDLES) * (1 - half)
    beyond = np.maximum(np.abs(levels - middles[..., None]) - half[..., None], 0.0) @ shares
    errors = noise * half**2 + (_BEYOND * beyond) ** 2
    place = np.unravel_index(int(errors.argmin()), errors.shape)
    return Window(float(middles[place]), float(_HALVES[place[0]]), float(beyond[place]))


def stated_errors(numbers: Floats, noise: float, levels: Levels, pilots: int) -> Floats:
    """Return the standard errors that simulated runs state, by which a plan is made.

    numbers: Equally frequent numbers in [-1, 1].
    noise: Largest variance of the difference by noise without a window, as in :func:`best_window`.
    pilots: Number of users who report for the window; 0 if it is the whole range.
    """
    windows = [Window()]
    if pilots:
        (oracle,) = pilot_oracles(levels.epsilon, pilots)
        shares = np.append(rounded(numbers, LEVELS).mean(axis=0), 0.0)  # none is missing
        covariance = oracle.covariance(shares) / pilots
        drawn = default_rng(0).multivariate_normal(shares, covariance, _DRAWS)[:, :-1]
        windows = [best_window(project_on_simplex(each / each.sum()), noise) for each in drawn]
    found = []
    for each in windows:
        within = np.clip((numbers - each.middle) / each.half, -1, 1)
        share = levels.variance_of(within) / levels.variance
        found.append(each.error(math.sqrt(noise * share)))
    return np.array(found)


def pilot_oracles(epsilon: float, pilots: int) -> list[FrequencyOracle]:
    """Return the mechanism of the users who report for the window, in a list, which may be empty.

    ``pilots`` is the number of these users.
    """
    return ShareEstimator(epsilon, LEVELS).oracles([pilots] if pilots else [])
