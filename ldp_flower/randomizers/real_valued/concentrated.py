"""zCDP, and plans of equal shares: reports of different kinds, each for its part of a budget."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...validation import check_fraction, check_positive
from .records import RecordGaussian, RecordMechanism

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


@dataclass(frozen=True)
class Concentrated(RecordMechanism):
    """Base class: each of ``steps`` reports is (rho / steps)-zCDP, whatever its kind.

    Zero-concentrated privacy adds up, also over mechanisms that are chosen adaptively, so
    that a plan may choose coordinates with one kind of report and ask for values with
    another: ``steps`` counts the reports of all kinds.

    Guarantee
    ---------
    1. Protected: every record of a silo, against any other record in its place, at
       (rho / steps)-zCDP a report, rho = ``zcdp_rho(epsilon, delta)``; hence at
       (``epsilon``, ``delta``) for the whole plan, in real arithmetic. Leaving a record
       out is covered.
    2. Records are brought into the domain one by one, first, and a value that is not finite
       becomes 0, so the guarantee holds for every input.
    3. Each class says in its own third point why a report costs no more.
    """

    @property
    def plan(self) -> str:
        """What identifies the plan, within a run: its parameters, not the mechanism."""
        return f"zCDP {self.epsilon!r} {self.delta!r} {self.steps}"

    @cached_property
    def rho(self) -> float:
        """Zero-concentrated privacy parameter of one report."""
        return zcdp_rho(self.epsilon, self.delta) / self.steps


@dataclass(frozen=True)
class ConcentratedGaussian(Concentrated, RecordGaussian):
    """Randomiser of silos that adds Gaussian noise, in a plan with reports of other kinds.

    Notes
    -----
    Source: Bun & Steinke (2016), Proposition 6. A plan of such reports alone needs some
    10 % less noise by the exact composition of :class:`RecordGaussian`.

    Guarantee
    ---------
    1. As the first of :class:`Concentrated`.
    2. As the second of :class:`Concentrated`.
    3. The sums of two silos that differ in one record differ by at most the diameter
       D = ``2 radius``; the noise's variance is ``D**2 steps / (2 rho)``.
    """

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate of a sum."""
        return 2 * self.radius / float((2 * self.rho) ** 0.5)
