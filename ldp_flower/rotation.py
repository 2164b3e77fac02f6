"""A public random rotation, after which a vector's length is spread over all coordinates.

Mechanisms for a box fit vectors in a ball badly unless no coordinate stands out. A
randomised Hadamard transform (random signs, then the Walsh-Hadamard transform), applied
twice, makes the coordinates of any fixed vector behave like independent normals, in
O(d log d) and exactly invertible. It is public: no guarantee rests on it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from .randomness import Words, derive

Floats = NDArray[np.float64]

_ROUNDS = 2


def rotated_size(size: int) -> int:
    """Return the number of coordinates of a rotated vector: the next power of two."""
    return 1 << (size - 1).bit_length()


def rotate(vector: Floats, seed: Words) -> Floats:
    """Rotate a vector, padded with zeros.

    Parameters
    ----------
    vector : ndarray of float64, shape (size,)
        The vector.
    seed : ndarray of uint64, shape (1,)
        What the rotation depends on.

    Returns
    -------
    ndarray of float64, shape (rotated_size(size),)
        A vector of the same length.
    """
    rotated = np.zeros(rotated_size(len(vector)))
    rotated[: len(vector)] = vector
    for signs in _signs(len(rotated), seed):
        rotated = _transform(rotated * signs)
    return rotated


def rotate_back(rotated: Floats, seed: Words, size: int) -> Floats:
    """Undo :func:`rotate` for a vector of ``size`` coordinates."""
    for signs in reversed(_signs(len(rotated), seed)):
        rotated = _transform(rotated) * signs
    return rotated[:size]


def _signs(size: int, seed: Words) -> list[Floats]:
    index = np.arange(size, dtype=np.uint64)
    words = [derive(seed, number, index) for number in range(_ROUNDS)]
    return [1.0 - 2.0 * (word >> np.uint64(63)).astype(np.float64) for word in words]


def _transform(vector: Floats) -> Floats:
    """Return the orthonormal Walsh-Hadamard transform, its own inverse."""
    size = half = len(vector)
    while half > 1:
        half //= 2
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
    return vector / math.sqrt(size)
