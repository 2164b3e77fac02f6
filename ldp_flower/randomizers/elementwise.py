"""Functions whose result for one number, bit by bit, does not depend on neighbouring numbers.

NumPy's own functions process several numbers at once if the processor can. They may use a
different method for the last few numbers of an array, or for all numbers that are processed
together with a number out of range. If the numbers belong to different users, the last bit would
then depend on a neighbour. SciPy's functions, and NumPy's functions of complex numbers, process
one number after the other.

NumPy does not specify the order in which it adds up a row either: einsum cuts long rows where its
buffer ends, and the buffer may begin with another row. This module therefore has a sum with a
fixed order. Products with Sylvester's matrix (Hadamard's matrix whose order is a power of two)
are computed row by row as well.
"""

import math
from functools import cache

import numpy as np
from scipy.linalg import hadamard as sylvester
from scipy.special import expit, xlogy

from ..validation import Floats

_BLOCK = 32  # the first five steps of hadamard() are one product with a matrix of this order
_CACHED_ENTRIES = 1 << 15


def log(x: Floats) -> Floats:
    """Return the natural logarithm of each number."""
    return np.asarray(xlogy(1.0, x))


def log2(x: Floats) -> Floats:
    """Return the binary logarithm of each number; it is exact for powers of two."""
    fraction, exponent = np.frexp(x)
    return np.asarray(exponent + log(fraction) / math.log(2.0))


def tanh(x: Floats) -> Floats:
    """Return the hyperbolic tangent of each number, with an error of some 1e-16."""
    return np.asarray(2 * expit(2 * x) - 1)


def cos_and_sin(x: Floats) -> tuple[Floats, Floats]:
    """Return two arrays: the cosine and the sine of each entry."""
    turned = np.zeros(np.shape(x), np.complex128)
    turned.imag = x
    turned = np.exp(turned)
    return turned.real.copy(), turned.imag.copy()


def row_dots(rows: Floats, others: Floats) -> Floats:
    """Return the sums over the last axis of ``rows * others``; ``others`` is broadcast.

    The order of the additions depends on the length of a row alone: neighbours are added
    three times, then the two halves of the remaining terms are added repeatedly. A few rows are
    processed at a time, so that they stay in the cache.
    """
    others = np.broadcast_to(others, rows.shape)
    sums = np.empty(rows.shape[:-1])
    length, width = rows.shape[-1], -(-rows.shape[-1] // 8)
    step = max(1, _CACHED_ENTRIES // math.prod(rows.shape[1:]))
    padded = np.zeros((min(step, len(rows)), *rows.shape[1:-1], 8 * width))
    for start in range(0, len(rows), step):
        run = slice(start, start + step)
        products = padded[: len(rows[run])]
        np.multiply(rows[run], others[run], out=products[..., :length])
        flat = products.reshape(-1)
        for _ in range(3):
            flat = flat[::2] + flat[1::2]
        terms = np.ascontiguousarray(flat.reshape(-1, width).T)
        while (left := len(terms)) > 1:
            half = (left + 1) // 2
            terms[: left - half] += terms[half:]
            terms = terms[:half]
        sums[run] = terms[0].reshape(products.shape[:-1])
    return sums


def row_norms(rows: Floats) -> Floats:
    """Return the Euclidean length of each row."""
    return np.asarray(np.sqrt(row_dots(rows, rows)))


def directions(rows: Floats) -> tuple[Floats, Floats]:
    """Return unit vectors and lengths of finite rows; a zero row gets the first axis.

    Each row is first divided by its largest absolute entry, so that squares neither overflow nor
    vanish. A direction therefore has length 1 for every row, as guarantees require.
    """
    largest = np.abs(rows).max(axis=1)
    unit = rows / np.where(largest > 0, largest, 1.0)[:, None]
    unit[largest == 0, 0] = 1.0
    length = row_norms(unit)
    unit /= length[:, None]
    with np.errstate(over="ignore"):
        return unit, largest * length


def lift(values: Floats, radius: float) -> Floats:
    """Return rows shortened to the ball and lifted to the unit sphere in one more dimension.

    The added coordinate brings each row to length 1, so that one rule serves vectors of all
    lengths.
    """
    unit, length = directions(values)
    fraction = np.minimum(length / radius, 1.0)
    height = np.sqrt((1 - fraction) * (1 + fraction))
    return np.concatenate([fraction[:, None] * unit, height[:, None]], axis=1)


def padded_size(dim: int) -> int:
    """Return the smallest power of two that is at least ``dim``."""
    return 1 << (dim - 1).bit_length()


@cache
def _matrix(order: int) -> Floats:
    """Return Sylvester's Hadamard matrix, with entries 1 and -1, of an order that is a power of 2.

    :func:`hadamard` uses it for the first steps of its transform.
    """
    return np.asarray(sylvester(order), np.float64)


def hadamard(values: Floats) -> Floats:
    """Return rows multiplied by Sylvester's matrix divided by the square root of its order.

    Each row is processed alone, and the order of additions depends on the row's length alone.
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
