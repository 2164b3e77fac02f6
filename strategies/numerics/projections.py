"""Projections on convex sets that estimates are known to lie in."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the closest vector whose absolute values add up to at most ``radius``.

    Notes
    -----
    Source: Duchi, Shalev-Shwartz, Singer & Chandra (2008). Subtracts from all absolute
    values the one amount that leaves those above it with the sum ``radius``.
    """
    sizes = np.abs(vector)
    if sizes.sum() <= radius:
        return vector
    descending = np.sort(sizes)[::-1]
    amounts = (np.cumsum(descending) - radius) / np.arange(1, len(vector) + 1)
    amount = amounts[np.flatnonzero(descending > amounts)[-1]]
    return np.asarray(np.sign(vector) * np.maximum(sizes - amount, 0.0))


def raise_eigenvalues(matrix: Floats, least: float = 0.0) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below ``least``.

    With 0 that is the projection on the cone of positive semidefinite matrices.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)
