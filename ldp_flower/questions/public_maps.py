"""Public random maps: projections, Fourier features of a kernel, rotations, synthetic features.

Both halves generate a map from its seed, with the same result under all versions of NumPy. The
privacy guarantee does not depend on this module. A row's result never depends on the other rows.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import ndtri

from ..randomizers.elementwise import cos_and_sin, hadamard, padded_size
from ..randomness import KeyedRandom, derive
from ..validation import Floats


def rotate(values: Floats, signs: Floats) -> Floats:
    """Return ``H D values / sqrt(K)`` for every row, shape (rows, K).

    Rows are padded with zeros to ``K``, a power of two. H is the Hadamard matrix, and D is the
    diagonal matrix of random ``signs``, shape (dim,). Lengths do not change. For random signs, the
    magnitude of a coordinate exceeds ``t`` with probability at most
    ``2 exp(-K t**2 / (2 |v|**2))`` (Hoeffding), for any vector v.
    """
    rows, dim = values.shape
    wide = np.zeros((rows, padded_size(dim)))
    wide[:, :dim] = values * signs
    return hadamard(wide)


def rotate_back(values: Floats, signs: Floats) -> Floats:
    """Return the rows before :func:`rotate`, shape (rows, dim), from its result."""
    return hadamard(values)[:, : len(signs)] * signs


def seed_of(salt: int) -> int:
    """Return a run's public seed of random maps, from its salt: an integer exact as a float."""
    return 1 + int(derive(salt, 7)[0] >> np.uint64(12))


def reach(projected_dim: int) -> float:
    """Return a length that the projection of a vector of length 1 rarely exceeds.

    Strategies have projected rows shortened to it.

    The length is about 2.8 standard deviations above 1. Less than one vector in 100 exceeds it.
    """
    return 1 + 2 / math.sqrt(projected_dim)


@lru_cache(maxsize=4)
def projection(seed: int, dim: int, projected_dim: int) -> Floats:
    """Return a matrix of normals of variance ``1 / projected_dim``, shape (dim, projected_dim).

    The projection keeps lengths and inner products on average (Johnson & Lindenstrauss 1984).
    """
    rows = KeyedRandom(derive(seed, 0, np.arange(dim))).normals((dim, projected_dim))
    rows /= math.sqrt(projected_dim)
    rows.flags.writeable = False
    return rows


def project(rows: ArrayLike, matrix: Floats) -> Floats:
    """Return ``rows @ matrix``.

    The rows form a sparse matrix, whose product adds up each row separately and in a fixed order.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    places = np.tile(np.arange(rows.shape[1]), len(rows))
    ends = rows.shape[1] * np.arange(len(rows) + 1)
    return np.asarray(csr_array((rows.ravel(), places, ends), rows.shape) @ matrix)


@lru_cache(maxsize=16)
def frequencies(seed: int, dim: int, num_features: int) -> Floats:
    """Return random frequencies of the Gaussian kernel, shape (dim, num_features / 2).

    Each frequency is a standard normal vector, up to its sign. In each coordinate, the range is cut
    into equally likely strata, and each stratum has one frequency (a Latin hypercube; McKay,
    Beckman & Conover 1979). A small number of such frequencies approximates the kernel better than
    independent ones.
    """
    count = num_features // 2
    draws = KeyedRandom(derive(seed, 1, np.arange(dim)))
    strata = np.argsort(draws.words((dim, count)), axis=1)
    places = (strata + draws.uniforms((dim, count))) / count
    # The sign of a frequency changes no cosine, and only the sign of a sine. So the first
    # coordinate can be chosen positive, which halves the width of its strata.
    places[0] = (1 + places[0]) / 2
    found = ndtri(places)
    found.flags.writeable = False
    return np.asarray(found)


def fourier_features(rows: ArrayLike, frequencies: Floats, length_scale: float) -> Floats:
    """Return the Fourier features of rows, shape (rows, num_features); each row has length 1.

    Source: Rahimi & Recht (2007). The features are cosines and sines. The inner product of two
    rows' features is on average ``exp(-|x - z|**2 / (2 length_scale**2))``. Pairs of a cosine and a
    sine have a constant length and less variance than cosines with random phases.
    """
    phases = project(np.asarray(rows, np.float64) / length_scale, frequencies)
    waves = np.concatenate(cos_and_sin(phases), axis=1)
    return np.asarray(waves / math.sqrt(frequencies.shape[1]))


_LABEL = 0x53594E5448  # separates the draws of synthetic features from other draws of a seed


def synthetic_features(seed: int, rows: int, dim: int) -> Floats:
    """Return independent uniform features in ``[-sqrt(3 / rows), sqrt(3 / rows)]``, (rows, dim).

    The mean of ``X'X`` is the identity. So columns have a mean squared length of 1, and answers
    ``X theta`` on these features are about as long as ``theta``.
    """
    draws = KeyedRandom(derive(_LABEL, seed, np.arange(rows))).uniforms((rows, dim))
    return np.asarray((2 * draws - 1) * np.sqrt(3 / rows))
