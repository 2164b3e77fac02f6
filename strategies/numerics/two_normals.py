"""Scores of two classes as two normal distributions of one spread.

They are ``distance`` of their standard deviations apart. Then the logit of a class is linear in
the score (Fisher's discriminant), and one number, how much more often the class scores above
the mean than others do, gives distance, AUC and slope.
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
_PRIOR_DISTANCE = 0.7  # of distances, as half of a normal distribution
_NORMAL = 1.959964  # standard errors to each end of 95 % of a normal law
_GRID = np.linspace(0.0005, 0.9995, 1000)  # of AUCs, likewise


@dataclass(frozen=True)
class Ranked:
    """How well a score ranks."""

    # Probability that a row of the class scores higher than another, and its error
    auc: float
    std_error: float
    # Between the classes, in the mean of those that may be, given the covariance: drawn to what is
    # usual as far as that is noisy. Above 0: more than how far slopes reach is not known of scores
    # that seem to rank a little worse than by chance.
    distance: float


def ranked(covariance: float, std_error: float, share: float) -> Ranked:
    """Return what the covariance of a class and the sign of its score give.

    covariance: Mean of ``(1 or 0 - share) * sign(score - mean score)``.
    share: The class's share, within (0, 1).
    """
    most = _covariance(_MAX_DISTANCE, share)
    possible = float(np.clip(covariance, -most, most))
    below, auc, above = (
        float(ndtr(_distance(possible + moved, share) / math.sqrt(2)))
        for moved in (-_NORMAL * std_error, 0.0, _NORMAL * std_error)
    )
    misfit = ((covariance - _covariance(_DISTANCES, share)) / std_error) ** 2
    weights = np.exp(-0.5 * ((_DISTANCES / _PRIOR_DISTANCE) ** 2 + misfit - misfit.min()))
    likely = float(weights @ _DISTANCES / weights.sum())
    # The larger of both: on one side there may be no AUC that is farther off.
    noise = max(auc - below, above - auc) / _NORMAL
    # Scores need not be normal. Of all concave ROC curves through the one point that is known, the
    # least area is of two straight lines; the largest one is about as far above that of normals.
    lines = 0.5 + possible / (4 * share * (1 - share))
    return Ranked(auc, math.hypot(noise, (auc - lines) / _NORMAL), likely)


def discriminant(distance: float, share: float) -> tuple[float, float]:
    """Return the logit at the mean score, and its slope for scores of standard deviation 1."""
    own = share * (1 - share)
    level = math.log(share / (1 - share)) - distance**2 * (0.5 - share)
    return level, distance * math.sqrt(1 + own * distance**2)


def likely_share(found: float, std_error: float) -> tuple[float, float]:
    """Return mean and spread of a share within (0, 1), of which an estimate is known."""
    # The offset keeps the largest weight at 1, however far the estimate is off.
    offset = 0.5 * ((float(np.clip(found, _GRID[0], _GRID[-1])) - found) / std_error) ** 2
    weights = np.exp(-0.5 * ((_GRID - found) / std_error) ** 2 + offset)
    weights /= weights.sum()
    mean = float(weights @ _GRID)
    return mean, math.sqrt(float(weights @ (_GRID - mean) ** 2))


def _covariance(distance: Floats | float, share: float) -> Any:
    above = ndtr((1 - share) * distance) + ndtr(share * distance) - 1
    return 2 * share * (1 - share) * above


def _distance(covariance: float, share: float) -> float:
    """Return the distance that has this covariance, with its sign."""
    size = abs(covariance)
    if _covariance(_MAX_DISTANCE, share) <= size:
        return math.copysign(_MAX_DISTANCE, covariance)
    found = brentq(lambda distance: _covariance(distance, share) - size, 0.0, _MAX_DISTANCE)
    return math.copysign(found, covariance)
