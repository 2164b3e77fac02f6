"""Random rotation: what a vector holds in few coordinates, spread over all of them.

Clients rotate, the server rotates back; nothing here is part of the guarantee.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def padded(dim: int) -> int:
    """Return the smallest power of two that is at least ``dim``."""
    return 1 << (dim - 1).bit_length()


_BLOCK = 32  # the first five halvings are one product with a matrix


@cache
def _matrix(order: int) -> Floats:
    """Return Sylvester's matrix."""
    signs = np.ones((1, 1))
    while len(signs) < order:
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs


def hadamard(values: Floats) -> Floats:
    """Multiply rows by Sylvester's matrix over the root of its order.

    Each row alone, in an order of additions that follows from its length alone.
    """
    rows, order = values.shape
    half = min(order, _BLOCK)
    values = values.reshape(rows, -1, half) @ _matrix(half)
    spare = np.empty((order // half // 2, half) if order > half else (0,))
    for row in values:
        width = half
        while width < order:
            pairs = row.reshape(-1, 2, width)
            first, second = pairs[:, 0], pairs[:, 1]
            difference = np.subtract(first, second, out=spare.reshape(first.shape))
            first += second
            second[:] = difference
            width *= 2
    values /= math.sqrt(order)
    return np.asarray(values.reshape(rows, order))


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
