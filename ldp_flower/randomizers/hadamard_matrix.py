"""Products with Sylvester's matrix (Hadamard's of order a power of two), row by row."""

import math
from functools import cache

import numpy as np

from ..validation import Floats

_BLOCK = 32  # the first five halvings are one product with a matrix


def padded(dim: int) -> int:
    """Return the smallest power of two that is at least ``dim``."""
    return 1 << (dim - 1).bit_length()


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
