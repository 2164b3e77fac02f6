"""What several reports cost together.

Nothing here is on a client's path: the ledger adds epsilons and deltas (basic
composition), which is always valid. The bounds below are valid too, and smaller.

Sums of contributions that are clipped to C have another neighbour: the data of one unit (a user or
a record), replaced. That moves a sum by up to 2 C, twice as far as under "add or remove one", so
the noise multipliers of Flower and Opacus (noise over C) count half here. Units that nobody chose
at random are not charged as if they had been: no amplification by sampling.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..randomizers.real_valued.gaussian import gaussian_delta, gaussian_mu, surely_at_most
from ..validation import check_fraction, check_integer, check_positive

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_PLD_INTERVAL = 1e-4
_PLD_POINTS = 1e6  # so many points of a privacy loss distribution fit in time and memory

# ------------------------------------------------------------------ Gaussian mechanism


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with ``gaussian_delta(epsilon, mu) <= delta``, rounded up."""
    from scipy.optimize import brentq  # slow to import: a node's process starts without

    check_positive("mu", mu)
    check_fraction("delta", delta)
    if surely_at_most(0.0, mu, delta):
        return 0.0
    high = 1.0
    while not surely_at_most(high, mu, delta):
        high *= 2
    epsilon = float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, high, xtol=1e-12))
    while not surely_at_most(epsilon, mu, delta):
        epsilon += 1e-9 * (1 + epsilon)
    return epsilon


# -------------------------------------------------------------------------- composition


@dataclass(frozen=True)
class RandomizedResponseEvent:
    """``count`` reports of any pure mechanism, at ``epsilon`` each, about the same user.

    Every pure mechanism loses at most what randomized response of its epsilon loses
    (Kairouz, Oh & Viswanath 2015), also when it is chosen adaptively.
    """

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_integer("count", self.count, 1)


@dataclass(frozen=True)
class GaussianEvent:
    """``count`` reports of a Gaussian mechanism about the same user.

    ``mu`` is the sensitivity over the noise's standard deviation, of one report.
    """

    mu: float
    count: int = 1

    def __post_init__(self) -> None:
        check_positive("mu", self.mu)
        check_integer("count", self.count, 1)


Event = RandomizedResponseEvent | GaussianEvent


def total_mu(events: Sequence[GaussianEvent]) -> float:
    """Return the mu of several Gaussian reports, exact: the root of the sum of squares."""
    return math.sqrt(sum(event.count * event.mu**2 for event in events))


def total_epsilon(
    events: Sequence[Event], delta: float, method: Literal["best", "basic", "pld"] = "best"
) -> float:
    """Return an epsilon that holds, at ``delta``, for all these reports of one user together.

    Parameters
    ----------
    events : sequence of RandomizedResponseEvent or GaussianEvent
        What the user answers, adaptively or not.
    delta : float
        Delta of the whole, in [0, 1).
    method : {"best", "basic", "pld"} (default: "best")
        ``basic`` adds the pure epsilons to that of the Gaussian reports, which are
        composed exactly. ``pld`` convolves privacy loss distributions with Google's
        dp-accounting (in the ``sim`` extra; ImportError without), rounded to the safe side.
        ``best`` is the smaller of the two; at delta 0 that is ``basic``.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"Expected delta in [0, 1), got {delta}.")
    if method not in ("best", "basic", "pld"):
        raise ValueError(f"Expected method 'best', 'basic' or 'pld', got {method!r}.")
    if not events:
        return 0.0
    basic = _basic(events, delta)
    if method == "basic" or (method == "best" and delta == 0):
        return basic
    epsilon = float(_privacy_loss(events).get_epsilon_for_delta(delta))
    return min(basic, epsilon) if method == "best" else epsilon


def _basic(events: Sequence[Event], delta: float) -> float:
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    pure = [event for event in events if isinstance(event, RandomizedResponseEvent)]
    total = math.fsum(event.epsilon * event.count for event in pure)
    if not gaussian:
        return total
    return total + gaussian_epsilon(total_mu(gaussian), delta) if delta > 0 else math.inf


def _privacy_loss(events: Sequence[Event]) -> "PrivacyLossDistribution":
    """Compose without PLDAccountant, which prices any count of randomized response as one."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:
        raise ImportError(
            'Privacy loss distributions need dp-accounting: pip install "ldp-flower[sim]"'
        ) from error

    # Losses are rounded up to a grid: fine against the smallest, coarse enough for the sum.
    pure = [event for event in events if isinstance(event, RandomizedResponseEvent)]
    finest = min((event.epsilon / 100 for event in pure), default=_PLD_INTERVAL)
    coarsest = sum(event.epsilon * event.count for event in pure) / _PLD_POINTS
    interval = max(min(_PLD_INTERVAL, finest), coarsest)

    def of(event: Event) -> "PrivacyLossDistribution":
        if isinstance(event, GaussianEvent):
            sigma = 1 / (event.mu * math.sqrt(event.count))
            return pld.from_gaussian_mechanism(sigma, value_discretization_interval=interval)
        # dp-accounting's p: the answer is replaced by a fair coin with probability p.
        one = pld.from_randomized_response(
            2 / (1 + math.exp(event.epsilon)), 2, value_discretization_interval=interval
        )
        return one if event.count == 1 else one.self_compose(event.count)

    total = of(events[0])
    for event in events[1:]:
        total = total.compose(of(event))
    return total


# ------------------------------------------------------- sums of clipped contributions


def gaussian_noise_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Return the noise over the clip of each of several sums that one unit is in.

    The composition of Gaussian releases is one Gaussian release, exactly: no bound loses anything.

    Parameters
    ----------
    epsilon, delta : float
        What all releases cost together.
    releases : int (default: 1)
        Number of sums that one unit takes part in.

    Returns
    -------
    float
        Standard deviation of each sum's noise, in every coordinate, over the clip.
    """
    check_integer("releases", releases, 1)
    return 2 * math.sqrt(releases) / gaussian_mu(epsilon, delta)


def noise_multiplier_epsilon(noise_multipliers: Iterable[float], delta: float) -> float:
    """Return the epsilon, at ``delta``, of sums with these noises over their clips."""
    return gaussian_epsilon(total_mu([GaussianEvent(2 / z) for z in noise_multipliers]), delta)
