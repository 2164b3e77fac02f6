"""Budget of a plan of noisy sums: conversion of (epsilon, delta) to rho, and of rho to epsilon.

If one user changes a report's sum by at most D, and the discrete Gaussian noise has standard
deviation s, the report costs ``D**2 / (2 s**2)`` of the plan's rho. Two conversions are valid, and
the better one counts:

* zero-concentrated differential privacy (Canonne, Kamath & Steinke 2020), which holds of the
  discrete noise itself;
* the exact profile of the continuous Gaussian (Balle & Wang 2018). The discrete Gaussian is almost
  a rounded continuous one. The noise is then 6 to 8 % smaller. docs/accounting.md has the proof. A
  part of delta pays for the distance of the two, which grows with the plan's draws and with
  e^epsilon, so there is a largest epsilon.
"""

import math
from functools import lru_cache

from .discrete_gaussian import SIGMA
from .real_valued.gaussian import gaussian_mu, zcdp_epsilon, zcdp_rho

#: Largest number of coordinates of all reports of a plan together.
MOST_DRAWS = 1 << 28
# Total variation between one draw and a rounded Gaussian is at most this (docs/accounting.md).
_DISTANCE = 0.0202 / SIGMA**2
_OF_DISTANCE = 0.1  # share of delta that pays for the distance: the noise grows by half a per cent


@lru_cache(maxsize=256)
def plan_rho(epsilon: float, delta: float) -> float:
    """Return the largest total rho of a plan's reports that keeps the plan (epsilon, delta)-DP."""
    by_zcdp = zcdp_rho(epsilon, delta)
    # e^epsilon + 1 times the distance of all draws is the share of delta at this epsilon.
    odds = _OF_DISTANCE * delta / (MOST_DRAWS * _DISTANCE) - 1
    if odds <= 1:
        return by_zcdp
    mu = gaussian_mu(min(epsilon, math.log(odds)), (1 - _OF_DISTANCE) * delta)
    return max(by_zcdp, mu**2 / 2)


@lru_cache(maxsize=256)
def plan_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon of a plan whose reports cost ``rho`` together, at ``delta``.

    It is the smallest one, or slightly more.
    """
    from scipy.optimize import brentq  # slow to import, so a node's process starts without it

    most = zcdp_epsilon(rho, delta)
    least = most / 2
    if not (most > 0 and plan_rho(least, delta) < rho < plan_rho(most, delta)):
        return most
    found = brentq(lambda epsilon: plan_rho(epsilon, delta) / rho - 1, least, most, xtol=1e-12)
    return min(most, float(found) * (1 + 1e-9))
