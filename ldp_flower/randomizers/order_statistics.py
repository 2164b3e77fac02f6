"""Expected order statistics of the inner products of random directions with a vector."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaln, gammaln, ndtr, roots_legendre

from ..validation import Floats

_NODES = 1500  # number of nodes of the quadrature
_WIDEST = 14.0  # limit of the integral, in standard deviations of a coordinate


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = roots_legendre(_NODES)
    return nodes, weights


def _best(w: Floats, density: Floats, above: Floats, number: int) -> tuple[Floats, Floats]:
    """Return the expected sums of w and w**2 over the r largest of ``number`` independent w.

    Entry r - 1 is ``number`` times the integral of w (or w**2) against its density times the
    probability that at most r - 1 of the others exceed it. ``density`` includes the weights of
    the quadrature, and ``above`` is the probability that one other exceeds w.
    """
    others = np.arange(number, dtype=np.float64)[:, None]
    logs = gammaln(number) - gammaln(others + 1) - gammaln(number - others)
    above = np.clip(above, 1e-300, 1 - 1e-16)  # so that logarithms are finite
    logs = logs + others * np.log(above)
    logs += (number - 1 - others) * np.log1p(-above)
    # The integrals for exactly 0, 1, ... others that exceed w. Their cumulative sum is the result.
    exactly = np.exp(logs, out=logs) @ np.stack([density * w, density * w * w], axis=1)
    sums, squares = number * np.cumsum(exactly, axis=0).T
    return sums, squares


@lru_cache(maxsize=256)
def of_directions(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return the expected sums of W and W**2 over the best r of ``number`` random directions.

    W is a direction's inner product with a unit vector of R^dim; the directions are
    independent. The quadrature is over the angle a with w = sin(a), in which the density is
    proportional to cos(a)**(dim - 2). Entry r - 1 belongs to the best r.
    """
    limit = min(math.pi / 2, _WIDEST / math.sqrt(dim))
    nodes, weights = _quadrature()
    angle = limit * nodes
    w = np.sin(angle)
    log_density = (dim - 2) * np.log(np.cos(angle)) - betaln((dim - 1) / 2, 0.5)
    upper = betainc((dim - 1) / 2, 0.5, np.cos(angle) ** 2) / 2
    above = np.where(w >= 0, upper, 1 - upper)
    return _best(w, limit * weights * np.exp(log_density), above, number)


@lru_cache(maxsize=256)
def of_axes(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return the sums of :func:`of_directions` for ``number`` axes of R^dim after one random turn.

    The coordinates of a random direction are those of a normal vector divided by its length. The
    length and the direction are independent, so the best coordinates are those of the normal
    vector, divided by the length.
    """
    nodes, weights = _quadrature()
    w = _WIDEST * nodes
    density = _WIDEST * weights * np.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    sums, squares = _best(w, density, ndtr(-w), number)
    length = math.sqrt(2) * math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2))
    return sums / length, squares / dim
