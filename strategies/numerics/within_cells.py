"""Positions of rows within cells, with the correlations that columns have between cells."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ldp_flower.validation import Floats

_SWEEPS = 5  # number of Gibbs sweeps; the cells already fix most of a score
_LEAST = 0.02  # smallest eigenvalue of the correlation matrix, so that no score is certain
_NEWTON = 8  # number of Newton steps for a correlation
_EDGE = 1e-9  # smallest probability whose normal score is computed


def positions(codes: NDArray[np.int64], rng: Generator) -> Floats:
    """Return positions from 0 to 1 in rank within the cells of columns of numbers.

    Every row has normal scores, one for each column, between the scores of the ends of its cell.
    Scores are drawn from a joint normal distribution within these limits by Gibbs sampling. Its
    correlations are chosen such that the cells' mean scores have the moments that rows show.

    Parameters
    ----------
    codes : ndarray of int64, shape (rows, columns)
        The cells, numbered in ascending order.
    rng : Generator
        Source of public randomness.

    Returns
    -------
    ndarray of float64, shape (rows, columns)
    """
    low, high, middle = (np.empty(codes.shape) for _ in range(3))
    for column, own in enumerate(codes.T):
        shares = np.bincount(own) / len(own)
        ends = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(shares)]), _EDGE, 1 - _EDGE))
        density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
        low[:, column], high[:, column] = ends[own], ends[own + 1]
        middle[:, column] = ((density[:-1] - density[1:]) / np.maximum(shares, _EDGE))[own]
    precision = np.linalg.inv(_correlations(middle))
    scores = np.clip(middle, low, high)
    below, above = ndtr(low), ndtr(high)
    for column in list(range(codes.shape[1])) * _SWEEPS:
        spread = precision[column, column] ** -0.5
        others = scores[:, column] - spread**2 * (scores @ precision[:, column])
        first, last = (ndtr((ends[:, column] - others) / spread) for ends in (low, high))
        place = np.clip(first + (last - first) * rng.random(len(codes)), _EDGE, 1 - _EDGE)
        drawn = others + spread * ndtri(place)
        scores[:, column] = np.clip(drawn, low[:, column], high[:, column])
    return np.asarray((ndtr(scores) - below) / np.maximum(above - below, _EDGE))


def _correlations(middle: Floats) -> Floats:
    """Return the correlations of scores, from the moments of the cells' mean scores.

    Let k be the part of a score's variance that is between cells. If two scores have the
    correlation r, the product of their mean scores is a series in r, ``k k' r`` and further odd
    powers, which is ``sqrt(k k')`` at 1. All higher powers are approximated by one term in
    ``r**3``.
    """
    moments = middle.T @ middle / len(middle)
    between = np.diag(moments).clip(_EDGE, 1.0)
    first = np.outer(between, between)
    third = np.sqrt(first) - first
    wanted = np.clip(moments, -np.sqrt(first), np.sqrt(first))
    found = wanted / np.sqrt(first)
    for _ in range(_NEWTON):
        found -= (first * found + third * found**3 - wanted) / (first + 3 * third * found**2)
    np.fill_diagonal(found, 1.0)
    values, vectors = np.linalg.eigh(found)
    positive = (vectors * np.maximum(values, _LEAST)) @ vectors.T
    scale = np.sqrt(np.diag(positive))
    return np.asarray(positive / np.outer(scale, scale))
