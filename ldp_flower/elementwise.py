"""Functions whose result for one number has the same bits whatever stands beside it.

NumPy's own take several numbers at once where the processor can, and may take another way
for the last few of an array, or for all that share a step with a number out of range:
where the numbers are different users', the last bit would tell of a neighbour. SciPy's
functions, and NumPy's of complex numbers, take one number after the other.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

Floats = NDArray[np.float64]


def log(x: Floats) -> Floats:
    """Return the natural logarithm."""
    return np.asarray(xlogy(1.0, x))


def log2(x: Floats) -> Floats:
    """Return the binary logarithm, that of a power of two exactly."""
    fraction, exponent = np.frexp(x)
    return np.asarray(exponent + log(fraction) / log(np.float64(2.0)))


def tanh(x: Floats) -> Floats:
    """Return the hyperbolic tangent, to some 1e-16."""
    return np.asarray(2 * expit(2 * x) - 1)


def cos_and_sin(x: Floats) -> tuple[Floats, Floats]:
    """Return the cosine and the sine."""
    turned = np.zeros(np.shape(x), np.complex128)
    turned.imag = x
    turned = np.exp(turned)
    return turned.real.copy(), turned.imag.copy()
