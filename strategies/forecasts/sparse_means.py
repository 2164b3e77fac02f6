"""How far a sparse mean is off after one collection: noise, and what thresholds take away."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..numerics.denoising import garrote

Floats = NDArray[np.float64]

#: The mean that is assumed: of this length, in bounds, spread evenly over so many features.
LENGTH, SUPPORT = 0.5, 8

_NOISES = np.geomspace(1e-7, 10.0, 241)
_NORMALS = np.linspace(-8, 8, 1601)
_WEIGHTS = np.exp(-(_NORMALS**2) / 2) / np.exp(-(_NORMALS**2) / 2).sum()


def distance(noise: float, dim: int) -> float:
    """Return the root mean square distance of the estimate to the mean that is assumed.

    A coordinate is its value plus normal noise, put through :func:`~..numerics.denoising.garrote`
    at ``noise sqrt(2 log(dim))``; the squared errors of ``min(dim, 8)`` equal ones and of the
    others, which are 0, add up. Where coordinates begin to stand out the distance has a hump;
    as more noise is no gain, what is returned is the largest up to this noise.
    """
    return float(np.interp(math.log(max(noise, 1e-300)), np.log(_NOISES), _distances(dim)))


@lru_cache(64)
def _distances(dim: int) -> Floats:
    support = min(dim, SUPPORT)
    size = LENGTH / math.sqrt(support)
    found = [support * _risk(size, noise, dim) for noise in _NOISES]
    found = [
        one + (dim - support) * _risk(0, noise, dim)
        for one, noise in zip(found, _NOISES, strict=True)
    ]
    return np.sqrt(np.maximum.accumulate(found))


def _risk(value: float, noise: float, dim: int) -> float:
    """Return the mean squared error of one coordinate, by a fine grid: it has kinks."""
    threshold = noise * math.sqrt(2 * math.log(max(dim, 2)))
    return float((garrote(value + noise * _NORMALS, threshold) - value) ** 2 @ _WEIGHTS)
