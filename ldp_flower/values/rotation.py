"""Random rotation: what a vector holds in few coordinates, spread over all of them.

Clients rotate, the server rotates back; nothing here is part of the guarantee.
"""

import numpy as np

from ..randomizers.hadamard_matrix import hadamard, padded
from ..validation import Floats


def rotate(values: Floats, signs: Floats) -> Floats:
    """Return ``H D values / sqrt(K)`` for every row, shape (rows, K).

    Parameters
    ----------
    values : ndarray of float64, shape (rows, dim)
        The vectors; they are padded with zeros to ``K``, a power of two.
    signs : ndarray of float64, shape (dim,)
        The diagonal of D, of random signs.

    Notes
    -----
    Lengths do not change. Over random signs a coordinate exceeds ``t`` with probability
    at most ``2 exp(-K t**2 / (2 |v|**2))`` (Hoeffding), however the vector's own
    coordinates are distributed. A row's result does not depend on other rows.
    """
    rows, dim = values.shape
    wide = np.zeros((rows, padded(dim)))
    wide[:, :dim] = values * signs
    return hadamard(wide)


def rotate_back(values: Floats, signs: Floats) -> Floats:
    """Undo :func:`rotate`, shape (rows, dim)."""
    return hadamard(values)[:, : len(signs)] * signs
