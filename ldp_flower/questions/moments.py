"""Packed tensor powers of vectors: each monomial occurs once, with a weight that keeps lengths.

Clients pack, and the server unpacks. The privacy guarantee does not depend on this module.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from ..validation import Floats, Integers

MAX_DEGREE = 7  # largest degree of a polynomial whose gradient is estimated


def num_monomials(dim: int, degree: int) -> int:
    """Return the number of monomials: products of ``degree`` factors among ``dim`` coordinates."""
    return math.comb(dim + degree - 1, degree)


def num_moments(dim: int, powers: Sequence[int]) -> int:
    """Return the number of moments: ``dim`` products with a target, and packed tensor powers.

    ``powers`` are the exponents of the tensor powers.
    """
    return dim + sum(num_monomials(dim, power) for power in powers)


def tensor_powers(degree: int, stride: int) -> Sequence[int]:
    """Return the exponents of the tensor powers that the gradient of a polynomial loss needs.

    With ``stride`` 1, these are the exponents in ``(c_0 + c_1 <w, x> + ...) x``. With ``stride`` 2,
    they are those for an odd polynomial.
    """
    return range(stride, degree + 2, stride)


def tensor_weight(powers: Sequence[int]) -> float:
    """Return the number by which all parts of :class:`~.features.TensorMoments` are multiplied.

    It keeps the whole value in the unit ball. ``powers`` are the exponents of the tensor powers.
    """
    return 1 / math.sqrt(1 + len(powers))


@lru_cache(maxsize=16)
def monomials(dim: int, degree: int) -> tuple[Integers, Floats]:
    """Return the coordinates of each monomial, and its weight.

    Coordinates, shape (monomials, degree), are in lexical order. For degree 2 this is the order of
    ``numpy.triu_indices``. The weights are the roots of the multinomial coefficients. With them the
    packed power of a vector x has length ``|x|**degree``, and the inner product of two packed
    powers is ``<x, z>**degree``.
    """
    chosen = list(combinations_with_replacement(range(dim), degree))
    coordinates = np.array(chosen, np.int64).reshape(len(chosen), degree)
    # A multinomial coefficient is degree! over the product of the factorials of the run lengths,
    # where a run is a sequence of equal coordinates.
    runs = np.ones((len(chosen), degree), np.int64)
    for place in range(1, degree):
        same = coordinates[:, place] == coordinates[:, place - 1]
        runs[:, place] = np.where(same, runs[:, place - 1] + 1, 1)
    return coordinates, np.sqrt(math.factorial(degree) / runs.prod(axis=1))


def packed_power(rows: Floats, degree: int, part: slice = slice(None)) -> Floats:
    """Return the packed ``degree``-th tensor power of each row, shape (rows, monomials).

    ``part`` selects monomials, by default all. A row's result does not depend on other rows.
    """
    coordinates, weights = monomials(rows.shape[1], degree)
    powers = rows[:, coordinates[part, 0]] * weights[part]
    for factor in coordinates[part, 1:].T:
        powers *= rows[:, factor]
    return powers


def unpacked_square(packed: Floats) -> Floats:
    """Return a symmetric matrix, shape (dim, dim), from its packed form.

    A server reads the mean of :func:`packed_power` with degree 2 by it.
    """
    dim = (math.isqrt(8 * len(packed) + 1) - 1) // 2
    coordinates, weights = monomials(dim, 2)
    matrix = np.empty((dim, dim))
    first, second = coordinates.T
    # An off-diagonal pair is packed as sqrt(2) times its entry.
    matrix[first, second] = matrix[second, first] = packed / weights
    return matrix


def contracted(packed: Floats, vector: Floats, degree: int) -> Floats:
    """Return the mean of ``<vector, x>**(degree - 1) x``, a vector, over rows x.

    ``packed`` is the packed mean of the rows' tensor powers of this degree. A server adds up such
    vectors to the gradient of a polynomial loss.
    """
    coordinates, weights = monomials(len(vector), degree)
    terms = packed * weights / degree
    total = np.zeros(len(vector))
    for place in range(degree):
        others = np.delete(coordinates, place, axis=1)
        products = terms * vector[others].prod(axis=1)
        total += np.bincount(coordinates[:, place], products, len(vector))
    return total
