"""Zero-concentrated differential privacy, and what it implies."""

import math

import numpy as np
from numpy.typing import NDArray

from ...validation import check_fraction, check_positive

# Any order gives a valid bound; a grid this fine is within 1e-4 of the best.
_ORDERS_LESS_ONE = np.exp(np.linspace(-6.0, 25.0, 20_000))


def _zcdp_offsets(delta: float) -> NDArray[np.float64]:
    excess = _ORDERS_LESS_ONE
    log_factor = (1 + excess) * np.log(excess / (1 + excess)) - np.log(excess)
    return np.asarray((log_factor - math.log(delta)) / excess)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta).

    Notes
    -----
    Source: Canonne, Kamath & Steinke (2020), Proposition 12: for every order a > 1,
    delta = exp((a - 1) (a rho - epsilon)) / (a - 1) * (1 - 1/a)**a, solved for epsilon.
    """
    check_positive("rho", rho)
    check_fraction("delta", delta)
    return max(0.0, float(np.min((1 + _ORDERS_LESS_ONE) * rho + _zcdp_offsets(delta))))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which :func:`zcdp_epsilon` is at most ``epsilon``."""
    check_positive("epsilon", epsilon)
    check_fraction("delta", delta)
    rho = float(np.max((epsilon - _zcdp_offsets(delta)) / (1 + _ORDERS_LESS_ONE)))
    if rho <= 0:
        raise ValueError(f"Expected a larger epsilon or delta, got {epsilon} and {delta}.")
    return rho * (1 - 1e-12)
