"""Random rotation: what a vector holds in few coordinates, spread over all of them.

Clients rotate, the server rotates back; nothing here is part of the guarantee.
"""

import numpy as np
from numpy.typing import NDArray

from ..randomness import Words, derive

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


def rotate_twice(vector: Floats, seed: Words) -> Floats:
    """Rotate one vector with signs from a seed, and the result again.

    After two rotations the coordinates of any fixed vector behave like independent
    normals.

    Parameters
    ----------
    vector : ndarray of float64, shape (size,)
        The vector.
    seed : ndarray of uint64, shape (1,)
        What the signs depend on.

    Returns
    -------
    ndarray of float64, shape (padded(size),)
        A vector of the same length.
    """
    rotated = np.zeros((1, padded(len(vector))))
    rotated[0, : len(vector)] = vector
    for signs in _signs(rotated.shape[1], seed):
        rotated = rotate(rotated, signs)
    return np.asarray(rotated[0])


def rotate_twice_back(rotated: Floats, seed: Words, size: int) -> Floats:
    """Undo :func:`rotate_twice` for a vector of ``size`` coordinates."""
    vector = rotated[None]
    for signs in reversed(_signs(len(rotated), seed)):
        vector = rotate_back(vector, signs)
    return np.asarray(vector[0, :size])


def _signs(size: int, seed: Words) -> list[Floats]:
    words = [derive(seed, number, np.arange(size)) for number in range(2)]
    return [1.0 - 2.0 * (word >> np.uint64(63)).astype(np.float64) for word in words]
