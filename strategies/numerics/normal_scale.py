"""Quantile function of a column from a noisy histogram: lines between knots, in normal scores.

Noise in empty cells would move mass to the ends of wide bounds. So knots are only where the mass
between them exceeds the noise. Beyond the first and the last knot the tails are those of a normal
distribution, as wide as the column is between this knot and its median.
"""

import numpy as np
from scipy.special import ndtri

from ldp_flower.validation import Floats

_CLEAR = 3.0  # standard errors that the mass between two knots has to exceed
_OUTSIDE = 3.0  # normal score of a bound, if no knot is on its side of the median
_EDGE = 1e-9  # smallest share whose normal score is computed


def knots(edges: Floats, shares: Floats, errors: Floats) -> Floats:
    """Return the knots of a quantile function: values, and shares of the entries below them.

    Parameters
    ----------
    edges : ndarray, shape (cells + 1,)
        Increasing ends of the histogram's cells; the first and the last are the bounds.
    shares, errors : ndarray, shape (cells,)
        Unbiased shares of the cells, and their standard errors.

    Returns
    -------
    ndarray of float64, shape (2, knots)
        Both rows increase. The first value and the last are the bounds, with shares 0 and 1.
    """
    found, below, mass, variance = [0], [0.0], 0.0, 0.0
    for place, (share, error) in enumerate(zip(shares, errors, strict=True), 1):
        mass, variance = mass + share, variance + error**2
        if mass > _CLEAR * np.sqrt(variance) and place < len(shares):
            found.append(place)
            below.append(below[-1] + mass)
            mass = variance = 0.0
    # The mass beyond the last knot does not exceed its noise, but may well be there.
    total = below[-1] + max(mass, np.sqrt(variance) / 2)
    return np.stack([edges[[*found, -1]], [*(np.array(below) / max(total, _EDGE)), 1.0]])


def quantiles(found: Floats, levels: Floats) -> Floats:
    """Return the quantiles at ``levels``, from the knots ``found`` that :func:`knots` returned."""
    (low, *values, high), (_, *below, _) = found
    scores = ndtri(np.clip(below, _EDGE, 1 - _EDGE)).tolist()
    if not scores or scores[0] >= 0:
        values, scores = [low, *values], [-_OUTSIDE, *scores]
    if scores[-1] <= 0:
        values, scores = [*values, high], [*scores, _OUTSIDE]
    median = float(np.interp(0.0, scores, values))
    wanted = ndtri(np.clip(levels, _EDGE, 1 - _EDGE))
    there = np.interp(wanted, scores, values)
    for end, beyond in (0, np.minimum), (-1, np.maximum):
        width = (values[end] - median) / scores[end]
        there += width * beyond(wanted - scores[end], 0.0)
    return np.asarray(np.clip(there, low, high))
