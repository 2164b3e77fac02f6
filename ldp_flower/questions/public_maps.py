"""Public random maps: projections, Fourier features of a kernel, rotations, synthetic features.

Both halves make them from a seed, whatever their version of NumPy; nothing here is
part of the guarantee. A row's result never depends on the other rows.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import ndtri

from ..randomizers.elementwise import cos_and_sin, hadamard, padded
from ..randomness import KeyedRandom, derive
from ..validation import Floats


def rotate(values: Floats, signs: Floats) -> Floats:
    """Return ``H D values / sqrt(K)`` for every row, shape (rows, K).

    Rows are padded with zeros to ``K``, a power of two; D is the diagonal of random ``signs``,
    shape (dim,). Lengths do not change. Over random signs a coordinate exceeds ``t`` with
    probability at most ``2 exp(-K t**2 / (2 |v|**2))`` (Hoeffding), however the vector's own
    coordinates are distributed.
    """
    rows, dim = values.shape
    wide = np.zeros((rows, padded(dim)))
    wide[:, :dim] = values * signs
    return hadamard(wide)


def rotate_back(values: Floats, signs: Floats) -> Floats:
    """Undo :func:`rotate`, shape (rows, dim)."""
    return hadamard(values)[:, : len(signs)] * signs


def seed_of(salt: int) -> int:
    """Return a run's seed of public maps, an integer that a float holds exactly."""
    return 1 + int(derive(salt, 7)[0] >> np.uint64(12))


def reach(projected_dim: int) -> float:
    """Return a length that the projection of a vector of length 1 seldom exceeds.

    Some 2.8 standard deviations above 1, which less than one vector in 100 exceeds.
    """
    return 1 + 2 / math.sqrt(projected_dim)


@lru_cache(maxsize=4)
def projection(seed: int, dim: int, projected_dim: int) -> Floats:
    """Return a matrix of normals of variance ``1 / projected_dim``, shape (dim, projected_dim).

    It keeps lengths and inner products of rows on average (Johnson & Lindenstrauss 1984).
    """
    rows = KeyedRandom(derive(seed, 0, np.arange(dim))).normals((dim, projected_dim))
    rows /= math.sqrt(projected_dim)
    rows.flags.writeable = False
    return rows


def project(rows: ArrayLike, matrix: Floats) -> Floats:
    """Return ``rows @ matrix``.

    The product with a sparse matrix adds up one row after the other, in one order.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    places = np.tile(np.arange(rows.shape[1]), len(rows))
    ends = rows.shape[1] * np.arange(len(rows) + 1)
    return np.asarray(csr_array((rows.ravel(), places, ends), rows.shape) @ matrix)


@lru_cache(maxsize=16)
def frequencies(seed: int, dim: int, num_features: int) -> Floats:
    """Return random frequencies of the Gaussian kernel, shape (dim, num_features / 2).

    Every frequency is a standard normal vector, up to its sign. In each coordinate the
    frequencies fall into equally likely strata, one each (a Latin hypercube; McKay, Beckman &
    Conover 1979): with few of them the kernel is closer than with independent ones.
    """
    count = num_features // 2
    draws = KeyedRandom(derive(seed, 1, np.arange(dim)))
    strata = np.argsort(draws.words((dim, count)), axis=1)
    places = (strata + draws.uniforms((dim, count))) / count
    # The sign of a frequency changes no feature's cosine and only the sine's sign, so the
    # first coordinate can be taken positive, which makes its strata half as wide.
    places[0] = (1 + places[0]) / 2
    found = ndtri(places)
    found.flags.writeable = False
    return np.asarray(found)


def fourier_features(rows: ArrayLike, frequencies: Floats, length_scale: float) -> Floats:
    """Return cosines and sines of rows, shape (rows, num_features), each of length 1.

    Source: Rahimi & Recht (2007). The inner product of two rows' features is on average
    ``exp(-|x - z|**2 / (2 length_scale**2))``. Pairs of a cosine and a sine have a constant
    length and less variance than cosines with random phases.
    """
    phases = project(np.asarray(rows, np.float64) / length_scale, frequencies)
    waves = np.concatenate(cos_and_sin(phases), axis=1)
    return np.asarray(waves / math.sqrt(frequencies.shape[1]))


_LABEL = 0x53594E5448  # keeps these draws apart from others of the same seed


def synthetic_features(seed: int, rows: int, dim: int) -> Floats:
    """Return independent uniform features in ``[-sqrt(3 / rows), sqrt(3 / rows)]``, (rows, dim).

    Columns have length 1 on average. Answers ``X theta`` on them are about as long as ``theta``:
    the mean of ``X'X`` is the identity.
    """
    draws = KeyedRandom(derive(_LABEL, seed, np.arange(rows))).uniforms((rows, dim))
    return np.asarray((2 * draws - 1) * np.sqrt(3 / rows))
