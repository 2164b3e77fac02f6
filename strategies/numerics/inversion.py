"""Confidence intervals of a quantile by inversion of tests, whatever the distribution."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inverted(
    excess: Floats, variance: Floats, shared: Floats, curve: Floats, z: float
) -> tuple[int, int]:
    """Return between which thresholds a quantile lies.

    A value is below the interval only if reports at thresholds from it on say that the
    distribution function is below the level there, which monotonicity forbids for all of them
    alike; above it, likewise. Values are tested from the bounds inwards, each by one test, and the
    first one that is not rejected ends the interval: each end is wrong with the probability of one
    test. Nothing is assumed of the distribution, which may have ties, gaps and steps.

    Parameters
    ----------
    excess, variance : ndarray, shape (k,)
        Estimates of the distribution function less the level, and their variances, in the order
        of the thresholds.
    shared : ndarray, shape (k,)
        Standard deviation of an error that all of them share, times which each has it.
    curve : ndarray, shape (k,)
        What the excess may be. Reports are weighed by it: a good guess gives short intervals, a
        bad one long ones, and neither wrong ones.
    z : float
        Standard errors from which a test rejects.

    Returns
    -------
    lower, upper : int
        Places of the thresholds; -1 and k are the bounds.
    """
    lower = _first_kept(-excess, variance, shared, np.maximum(-curve, 0.0), z) - 1
    back = [each[::-1] for each in (excess, variance, shared, np.maximum(curve, 0.0))]
    upper = len(excess) - _first_kept(*back, z)
    return min(lower, upper), max(lower, upper)


def _first_kept(
    deficit: Floats, variance: Floats, shared: Floats, weights: Floats, z: float
) -> int:
    """Return the first place from which on reports do not say that there is a deficit."""

    def onwards(terms: Floats) -> Floats:
        return np.asarray(np.cumsum(terms[::-1])[::-1])

    precise = weights / variance
    found = onwards(precise * deficit)
    spread = np.sqrt(onwards(precise * weights) + onwards(precise * shared) ** 2)
    return int(np.argmax(np.append((found < z * spread) | (spread <= 0), True)))
