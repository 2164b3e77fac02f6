"""Area under a ROC curve of which some points are known with noise.

Let u be the share of all rows below a threshold, and J(u) the true less the false positive rate
there, the gap. The area is 1/2 plus the integral of J over u. J is modelled as that of two normal
distributions of equal spread, as in :mod:`.two_normals`, plus a Brownian bridge. The bridge takes
the curve through the points: between them it departs from the normal one along straight lines. Its
variance is what the points leave open.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from ldp_flower.validation import Floats

# Standard deviation of the bridge's scale, over the largest gap of the normal curve. Half of the
# distance between two straight lines and a normal curve with one point in common is .34 of it.
_DEPARTURE = 0.5
_AREAS = np.linspace(0.002, 0.998, 250)  # of normal curves, all equally likely before
_SCORES = np.linspace(-8.0, 8.0, 801)  # a grid for shares below a score
_END = 1e-3  # smallest share of rows below or above a threshold


def area(
    below: Floats, below_error: float, gaps: Floats, gap_error: float, share: float
) -> tuple[float, float]:
    """Return the area and its standard error: mean and standard deviation of the posterior.

    below: Shares of all rows below increasing thresholds, each with the same error.
    gaps: True less false positive rates at the thresholds, each with the same error.
    share: The class's share, within (0, 1).
    """
    up, down = np.maximum.accumulate(below), np.minimum.accumulate(below[::-1])[::-1]
    u = np.clip((up + down) / 2, _END, 1 - _END)
    normal, slopes, largest = _normal_curves(u, share)
    scales = (_DEPARTURE * largest[:, None, None]) ** 2
    noise = gap_error**2 + (slopes * below_error) ** 2
    bridge = scales * (np.minimum.outer(u, u) - np.outer(u, u))
    covariance = bridge + noise[:, :, None] * np.eye(len(u))
    left, with_area = (gaps - normal)[:, :, None], scales * (u * (1 - u) / 2)[:, None]
    of_gaps, of_area = np.split(
        np.linalg.solve(covariance, np.concatenate([left, with_area], axis=2)), 2, axis=2
    )
    means = _AREAS + (with_area * of_gaps).sum(axis=(1, 2))
    variances = scales[:, 0, 0] / 12 - (with_area * of_area).sum(axis=(1, 2))
    misfit = (left * of_gaps).sum(axis=(1, 2)) + np.linalg.slogdet(covariance)[1]
    weights = np.exp(-0.5 * (misfit - misfit.min()))
    weights /= weights.sum()
    mean = float(weights @ means)
    return mean, math.sqrt(float(weights @ (variances + (means - mean) ** 2)))


def _normal_curves(u: Floats, share: float) -> tuple[Floats, Floats, Floats]:
    """Return gaps of normal curves and their slopes, shape (areas, shares u), and largest gaps."""
    distances = math.sqrt(2) * ndtri(_AREAS)[:, None]
    own, other = _SCORES - distances * (1 - share), _SCORES + distances * share
    levels = share * ndtr(own) + (1 - share) * ndtr(other)
    gaps = ndtr(other) - ndtr(own)
    # The ratio of both densities at a score, cut where its exponential would overflow.
    ratio = np.exp(np.clip((other**2 - own**2) / 2, -500, 500))
    slopes = (1 - ratio) / (share * ratio + 1 - share)
    at = [np.interp(u, *each) for each in zip(levels, gaps, strict=True)]
    rising = [np.interp(u, *each) for each in zip(levels, slopes, strict=True)]
    return np.array(at), np.array(rising), np.abs(gaps).max(axis=1)
