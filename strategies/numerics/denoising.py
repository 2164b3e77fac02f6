"""What takes noise off an estimate: thresholds, shortening, sets that the truth lies in."""

import numpy as np

from ldp_flower.validation import Floats


def keep_above(vector: Floats, threshold: Floats | float) -> Floats:
    """Set the entries whose magnitude is at most ``threshold`` to zero."""
    return np.where(np.abs(vector) > threshold, vector, 0.0)


def soften(vector: Floats, amount: float) -> Floats:
    """Move every entry towards 0 by ``amount``, the proximal map of a sum of absolute values."""
    return np.asarray(np.sign(vector) * np.maximum(np.abs(vector) - amount, 0.0))


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


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the closest vector whose absolute values add up to at most ``radius``.

    Source: Duchi, Shalev-Shwartz, Singer & Chandra (2008). Subtracts from all absolute
    values the one amount that leaves those above it with the sum ``radius``.
    """
    sizes = np.abs(vector)
    if sizes.sum() <= radius:
        return vector
    descending = np.sort(sizes)[::-1]
    amounts = (np.cumsum(descending) - radius) / np.arange(1, len(vector) + 1)
    amount = amounts[np.flatnonzero(descending > amounts)[-1]]
    return soften(vector, float(amount))


def raise_eigenvalues(matrix: Floats, least: float = 0.0) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below ``least``.

    With 0 that is the projection on the cone of positive semidefinite matrices.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)
