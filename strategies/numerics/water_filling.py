"""Water-filling: how a limited amount of information is best shared by coordinates."""

import numpy as np

from ldp_flower.validation import Floats


def water_fill(variances: Floats, information: float) -> Floats:
    """Return the shares of information that leave the least total variance.

    Parameters
    ----------
    variances : ndarray of float64, shape (dim,)
        Variance of each coordinate now.
    information : float
        What a coordinate that got all of it would gain in precision.

    Returns
    -------
    ndarray of float64, shape (dim,)
        Non-negative shares of sum 1 that minimise
        ``sum 1 / (1 / variances + information * shares)``: precisions are filled up to
        one common level, and a coordinate above it gets nothing.
    """
    precision = 1 / variances
    ordered = np.sort(precision)
    levels = (information + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    level = levels[np.flatnonzero(levels > ordered)[-1]]
    return np.asarray(np.maximum(level - precision, 0.0) / information)
