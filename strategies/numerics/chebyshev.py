"""Smooth functions on an interval by their Chebyshev coefficients, and polynomials for them.

A function f on [-reach, reach] is held as the coefficients a_k in
``f(t) = sum_k a_k T_k(t / reach)``; beyond its interval it has the value of the closer end.
Polynomials are held as their coefficients, lowest first.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, hermite_e

from ldp_flower.validation import Floats

_NODES = 64  # of a quadrature that is exact for polynomials up to degree 127
_ZERO = 1e-9  # an even coefficient below this is rounding


def interpolated(function: Callable[[Floats], Floats], reach: float) -> Floats:
    """Return the Chebyshev coefficients of a function, to rounding if it is smooth."""
    degree = 64 + 16 * math.ceil(reach)
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    return np.asarray(chebyshev.chebfit(points, function(reach * points), degree))


def value(coefficients: Floats, reach: float, argument: Floats) -> Floats:
    """Return the function's values."""
    return np.asarray(chebyshev.chebval(np.clip(argument / reach, -1, 1), coefficients))


def is_odd(coefficients: Floats) -> bool:
    """Whether the function is odd, as that of the logistic model is."""
    return bool((np.abs(coefficients[::2]) <= _ZERO * np.abs(coefficients).max()).all())


def truncated(coefficients: Floats, reach: float, degree: int) -> Floats:
    """Return the polynomial that the expansion up to ``degree`` is."""
    polynomial = chebyshev.cheb2poly(coefficients[: degree + 1])
    return np.asarray(polynomial / reach ** np.arange(float(len(polynomial))))


def fitted(coefficients: Floats, reach: float, degree: int, mean: float, spread: float) -> Floats:
    """Return the polynomial that is closest in mean square where arguments are normal.

    ``mean`` and ``spread`` are those of the arguments; for an odd function the mean is
    taken for 0, and the polynomial is odd.
    """
    nodes, weights = hermite_e.hermegauss(_NODES)
    odd = is_odd(coefficients)
    points = np.clip((0.0 if odd else mean) + spread * nodes, -reach, reach)
    powers = np.arange(1, degree + 1, 2) if odd else np.arange(degree + 1)
    # Powers of points over their size are well-conditioned, whatever their scale.
    size = float(np.sqrt(weights @ points**2 / weights.sum()))
    root = np.sqrt(weights)
    design = root[:, None] * (points[:, None] / size) ** powers
    solved = np.linalg.lstsq(design, root * value(coefficients, reach, points))[0]
    polynomial = np.zeros(degree + 1)
    polynomial[powers] = solved / size**powers
    return polynomial


def largest_slope(polynomial: Floats, reach: float) -> float:
    """Return a bound on the absolute slope of a polynomial on [-reach, reach]."""
    powers = np.arange(len(polynomial))
    return float((np.abs(polynomial) * powers) @ reach ** (powers - 1.0))
