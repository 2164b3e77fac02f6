"""Gaussian mechanism: a vector in an l2 ball plus Gaussian noise, at (epsilon, delta)."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from ...randomness import RandomSource, Words
from ...validation import Floats, check_fraction, check_positive, plain_arguments
from ..base import Reports
from ..elementwise import directions
from . import RealVector

_ROUNDING = 4e-15  # relative rounding error of a term of delta, added to be on the safe side
_SMALL_MU = 1e-4  # for smaller mu, delta is computed from a derivative, not from a difference
_FAR = 50.0
_MAX_TAIL = 12.0  # standard deviations of noise after which reports are cut off
# Any order gives a valid bound. The best order of this grid is within 1e-4 of the best bound.
_ORDERS_LESS_ONE = np.exp(np.linspace(-6.0, 25.0, 20_000))


def _gaussian_terms(epsilon: float, mu: float) -> tuple[float, float]:
    shift = epsilon / mu
    first = float(log_ndtr(mu / 2 - shift))
    return math.exp(first), math.exp(min(first, epsilon + float(log_ndtr(-mu / 2 - shift))))


@plain_arguments
def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta of a Gaussian mechanism at an epsilon of at least 0.

    ``mu`` is the sensitivity divided by the standard deviation of the noise. In the local model,
    the sensitivity is the diameter of the values' domain.

    Source: Balle & Wang (2018), Theorem 8: Phi(mu/2 - epsilon/mu) - e^epsilon
    Phi(-mu/2 - epsilon/mu). It is computed in logarithms, since e^epsilon overflows.
    """
    check_positive("mu", mu)
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"Expected epsilon >= 0 and finite, got {epsilon}.")
    return math.exp(float(log_gaussian_delta(np.array([epsilon]), mu)[0]))


def log_gaussian_delta(epsilon: Floats, mu: float) -> Floats:
    """Return the logarithm of :func:`gaussian_delta`, at epsilons of any sign.

    With t = epsilon / mu - mu / 2, delta is Phi(-t) - e^epsilon Phi(-t - mu), and e^epsilon is
    phi(t) / phi(t + mu). For large epsilon, the formula therefore needs no exponential of epsilon.
    """
    if mu < _SMALL_MU:
        return _log_small_delta(epsilon, mu)
    t = epsilon / mu - mu / 2
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        beyond = t + mu
        right = np.maximum(t, 0.0)
        tail = (erfcx(right / math.sqrt(2)) - erfcx((right + mu) / math.sqrt(2))) / 2
        far = -(right**2) / 2 + np.log(tail)
        left = np.minimum(t, 0.0)
        scaled = np.exp(-(left**2) / 2) * erfcx(np.maximum(beyond, 0.0) / math.sqrt(2)) / 2
        second = np.where(beyond > 0, scaled, np.exp(np.minimum(epsilon, 0.0)) * ndtr(-beyond))
        near = np.log(ndtr(-left) - second)
    return np.asarray(np.where(t > 0, far, near))


def _log_small_delta(epsilon: Floats, mu: float) -> Floats:
    """Return :func:`log_gaussian_delta` for a small ``mu``.

    The difference of the two terms would be lost in rounding. Delta is phi(t) times an integral
    of a convex function over a length of mu. The trapezoidal rule bounds it from above, with an
    error of at most 2e-9. For epsilon below 0, it follows from the value at -epsilon:
    delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon).
    """
    with np.errstate(over="ignore", divide="ignore"):
        t = np.abs(epsilon) / mu - mu / 2
        slopes = _slope(t / math.sqrt(2)) + _slope((t + mu) / math.sqrt(2))
        above = -(t**2) / 2 + math.log(mu) + np.log(slopes / math.sqrt(32))
        below = np.minimum(epsilon, 0.0)
        return np.asarray(np.logaddexp(np.log(-np.expm1(below)), below + above))


def _slope(x: Floats) -> Floats:
    """Return minus the derivative of erfcx, or an upper bound where exp(-x**2) is negligible."""
    x = np.minimum(x, _FAR)
    return np.asarray(2 / math.sqrt(math.pi) - 2 * x * erfcx(x))


def surely_at_most(epsilon: float, mu: float, delta: float) -> bool:
    """Return True if delta(epsilon; mu) <= delta even with the largest rounding error."""
    first, second = _gaussian_terms(epsilon, mu)
    return first - second + _ROUNDING * first * (1 + abs(math.log(max(first, 1e-300)))) <= delta


@plain_arguments
@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu with ``gaussian_delta(epsilon, mu) <= delta``, rounded down.

    A Gaussian mechanism with sensitivity D needs noise of standard deviation ``D / mu``.
    """
    from scipy.optimize import brentq  # slow to import, so a node's process starts without it

    check_positive("epsilon", epsilon)
    check_fraction("delta", delta)

    def excess(log_mu: float) -> float:
        first, second = _gaussian_terms(epsilon, math.exp(log_mu))
        return first - second - delta

    mu = math.exp(brentq(excess, math.log(1e-8), math.log(1e4), xtol=1e-13))
    step = 1e-9
    while not surely_at_most(epsilon, mu, delta):
        mu *= 1 - step
        step *= 2  # if delta is near 1, many small steps would be needed
    return mu


def _zcdp_offsets(delta: float) -> Floats:
    excess = _ORDERS_LESS_ONE
    log_factor = (1 + excess) * np.log(excess / (1 + excess)) - np.log(excess)
    return np.asarray((log_factor - math.log(delta)) / excess)


@plain_arguments
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta).

    Source: Canonne, Kamath & Steinke (2020), Proposition 12: for every order a > 1,
    delta = exp((a - 1) (a rho - epsilon)) / (a - 1) * (1 - 1/a)**a, solved for epsilon.
    """
    check_positive("rho", rho)
    check_fraction("delta", delta)
    return max(0.0, float(np.min((1 + _ORDERS_LESS_ONE) * rho + _zcdp_offsets(delta))))


@plain_arguments
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which :func:`zcdp_epsilon` is at most ``epsilon``."""
    check_positive("epsilon", epsilon)
    check_fraction("delta", delta)
    rho = float(np.max((epsilon - _zcdp_offsets(delta)) / (1 + _ORDERS_LESS_ONE)))
    if rho <= 0:
        raise ValueError(f"Expected a larger epsilon or delta, got {epsilon} and {delta}.")
    return rho * (1 - 1e-12)


@dataclass(frozen=True)
class GaussianMechanism(RealVector):
    """Randomiser that adds Gaussian noise, calibrated exactly.

    It is offered for comparisons: in the local model, it needs 9 to 11 times as many users as
    :class:`.Codebook` at delta = 1e-5, and its guarantee is weaker. Parameters are those of
    :class:`.OfVector`, and delta in (0, 1).

    Notes
    -----
    Source: the analytic Gaussian mechanism of Balle & Wang (2018). The classical
    formula sqrt(2 ln(1.25 / delta)) / epsilon is proved for epsilon < 1 only, and it
    is false above (the true delta is 0.041 for a nominal 0.01 at epsilon 10).

    Guarantee
    ---------
    1. Protected: any two values of one user, at (``epsilon``, ``delta``) in real arithmetic.
    2. Two values differ by at most the diameter ``2 radius``; the noise's standard
       deviation is the diameter divided by ``gaussian_mu(epsilon, delta)``.
    3. Vectors are shortened first and a row that is not finite becomes 0, so the
       guarantee holds for every input.
    4. Noise is drawn up to 37 standard deviations, and numbers are cut off at ``radius``
       plus 12 standard deviations. Two values are at most 25 standard deviations apart at
       any accepted parameters. The noise therefore reaches both ends from every value, and
       no number is possible for one value and impossible for another.
    """

    delta: float = field(default=1e-6)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("delta", self.delta)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate."""
        return 2 * self.radius / gaussian_mu(self.epsilon, self.delta)

    @property
    def variance(self) -> float:
        """Variance of the noise in each coordinate: ``sigma**2``."""
        return self.sigma**2

    @property
    def bound(self) -> float:
        """Bound at which reports are clipped; noise exceeds it with a chance of at most 4e-33."""
        return self.radius + _MAX_TAIL * self.sigma

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        unit, length = directions(values)
        unit *= np.minimum(length, self.radius)[:, None]
        noise = rng.normals((len(values), self.dim)) * self.sigma
        return self._on_grid(unit + noise)


@dataclass(frozen=True)
class GaussianRecord(GaussianMechanism):
    """Gaussian mechanism whose reports the server reads one by one.

    It is for protocols that multiply noisy coordinates of the same user with each other.
    Parameters, noise and guarantee are those of :class:`GaussianMechanism`. The only difference is
    that sums of reports are never sent.

    Guarantee
    ---------
    The guarantee is that of :class:`GaussianMechanism`.
    """

    summable: ClassVar[bool] = False
    debiasable: ClassVar[bool] = True
