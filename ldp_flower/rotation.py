"""Random rotation: what a vector holds in few coordinates, spread over all of them.

Clients rotate, the server rotates back; nothing here is part of the guarantee.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def padded(dim: int) -> int:
    """Return the smallest power of two that is at least ``dim``."""
    return 1 << (dim - 1).bit_length()


def _hadamard(values: Floats) -> Floats:
    """Multiply rows by Sylvester's matrix over the root of its order, element by element."""
    order = values.shape[1]
    half = 1
    while half < order:
        pairs = values.reshape(len(values), -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        values = np.stack([first + second, first - second], axis=2)
        half *= 2
    return np.asarray(values.reshape(-1, order) / np.sqrt(order))


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
    return _hadamard(wide)


def rotate_back(values: Floats, signs: Floats) -> Floats:
    """Undo :func:`rotate`, shape (rows, dim)."""
    return _hadamard(values)[:, : len(signs)] * signs
