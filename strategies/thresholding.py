"""The projections of sparse estimation: pure functions of the server's estimates."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.thresholding import keep_largest, project_on_ball

__all__ = ["keep_above", "keep_largest", "project_on_ball", "shrink"]

Floats = NDArray[np.float64]


def keep_above(vector: Floats, threshold: Floats | float) -> Floats:
    """Set the entries whose magnitude is at most ``threshold`` to zero."""
    return np.where(np.abs(vector) > threshold, vector, 0.0)


def garrote(vector: Floats, threshold: float) -> Floats:
    """Set what is below ``threshold`` to zero and shrink what is barely above.

    The factor ``1 - (threshold / entry)**4`` leaves entries of twice the threshold almost as
    they are, and makes noise that happens to stand out small (a garrote, Breiman 1995,
    of a higher power).
    """
    sizes = np.maximum(np.abs(vector), max(threshold, np.finfo(float).tiny))
    return np.asarray(vector * (1 - (threshold / sizes) ** 4))


def shrink(vector: Floats, variance: float) -> Floats:
    """Shorten an estimate by what noise adds to its length, as James and Stein (1961).

    ``variance`` is that of every coordinate.
    """
    surplus = max(len(vector) - 2, 0) * variance
    square = float(vector @ vector)
    return vector * (1 - surplus / square) if square > surplus else np.zeros_like(vector)
