"""Model of the scores of two classes as two normal distributions of equal spread.

Their means are ``distance`` standard deviations apart. The logit of a class is then linear in the
score (Fisher's discriminant). One number determines distance, AUC and slope: how much more often
the class scores above the mean than others do.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from ldp_flower.validation import Floats

_MAX_DISTANCE = 6.0  # standard deviations; AUC is .99999
_DISTANCES = np.linspace(0.0, _MAX_DISTANCE, 241)  # a grid for sums over the posterior
_PRIOR_DISTANCE = 0.7  # scale of the prior of distances, half of a normal distribution
_GRID = np.linspace(0.0005, 0.9995, 1000)  # a grid for sums over the posterior of a share


@dataclass(frozen=True)
class Ranked:
    """Ranking quality of a score: AUC and distance between the classes."""

    # Probability that a row of the class scores higher than another row, and its standard error
    auc: float
    std_error: float
    # Posterior mean of the distance between the classes. The prior shrinks a noisy covariance
    # towards the usual distance. The distance is above 0 even if the score seems to rank slightly
    # worse than chance.
    distance: float


def ranked(covariance: float, std_error: float, share: float, z: float) -> Ranked:
    """Return AUC and distance from the covariance of a class and the sign of its score.

    covariance: Mean of ``(1 or 0 - share) * sign(score - mean score)``.
    share: The class's share, within (0, 1).
    z: Half-width of the intervals from which errors are computed, in standard errors.
    """
    most = _covariance(_MAX_DISTANCE, share)
    possible = float(np.clip(covariance, -most, most))
    below, auc, above = (
        float(ndtr(_distance_of(possible + moved, share) / math.sqrt(2)))
        for moved in (-z * std_error, 0.0, z * std_error)
    )
    misfit = ((covariance - _covariance(_DISTANCES, share)) / std_error) ** 2
    weights = np.exp(-0.5 * ((_DISTANCES / _PRIOR_DISTANCE) ** 2 + misfit - misfit.min()))
    likely = float(weights @ _DISTANCES / weights.sum())
    # The larger of the two sides is used, since one side may have reached the largest AUC.
    noise = max(auc - below, above - auc) / z
    # Scores need not be normal. Of all concave ROC curves through the one known point, that of two
    # straight lines has the smallest area. The largest area is about as far above the normal one.
    lines = 0.5 + possible / (4 * share * (1 - share))
    return Ranked(auc, math.hypot(noise, (auc - lines) / z), likely)


def discriminant(distance: float, share: float) -> tuple[float, float]:
    """Return the intercept and slope of a class's logit, linear in the score.

    Scores have mean 0 and standard deviation 1; ``distance`` is that of the classes' means.
    """
    own = share * (1 - share)
    level = math.log(share / (1 - share)) - distance**2 * (0.5 - share)
    return level, distance * math.sqrt(1 + own * distance**2)


def likely_share(found: float, std_error: float) -> tuple[float, float]:
    """Return the posterior mean and standard deviation of a share, from a noisy estimate of it.

    The estimate ``found`` may be below 0 or above 1. All shares between are equally likely before.
    """
    # The offset keeps the largest weight at 1, however far the estimate is off.
    offset = 0.5 * ((float(np.clip(found, _GRID[0], _GRID[-1])) - found) / std_error) ** 2
    weights = np.exp(-0.5 * ((_GRID - found) / std_error) ** 2 + offset)
    weights /= weights.sum()
    mean = float(weights @ _GRID)
    return mean, math.sqrt(float(weights @ (_GRID - mean) ** 2))


def _covariance(distance: Floats | float, share: float) -> Any:
    above = ndtr((1 - share) * distance) + ndtr(share * distance) - 1
    return 2 * share * (1 - share) * above


def _distance_of(covariance: float, share: float) -> float:
    """Return the distance of two normal classes that gives this covariance, and has its sign."""
    size = abs(covariance)
    if _covariance(_MAX_DISTANCE, share) <= size:
        return math.copysign(_MAX_DISTANCE, covariance)
    found = brentq(lambda distance: _covariance(distance, share) - size, 0.0, _MAX_DISTANCE)
    return math.copysign(found, covariance)
