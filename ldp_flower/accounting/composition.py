"""Composition: the total privacy cost of several reports.

Clients do not use this module: their ledger adds epsilons and deltas (basic composition), which
is always valid. The bounds in this module are valid as well, and smaller.

For sums of contributions that are clipped to C, neighbouring data differ by the replaced data of
one unit (a user or a record). A replacement moves a sum by up to 2 C, twice as far as under "add
or remove one". The noise multipliers of Flower and Opacus (noise divided by C) therefore count
half here. There is no amplification by sampling, since units are not sampled at random.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from ..randomizers.real_valued.gaussian import gaussian_mu
from ..validation import (
    PlainFields,
    check_choice,
    check_fraction,
    check_integer,
    check_positive,
    plain,
    plain_arguments,
)
from .privacy_loss import losses_of, smallest_epsilon

_NOTHING = Fraction(0)
_MOST_REPORTS = 1_000_000_000  # the distribution of losses of this many reports fits in memory

# ------------------------------------------------------------------ Gaussian mechanism


@plain_arguments
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with ``gaussian_delta(epsilon, mu) <= delta``, rounded up."""
    check_positive("mu", mu)
    check_fraction("delta", delta)
    return _composed({}, mu, delta)


# -------------------------------------------------------------------------- composition


@dataclass(frozen=True)
class RandomizedResponseEvent(PlainFields):
    """Event of ``count`` reports about the same user, by any pure mechanism at ``epsilon`` each.

    Every pure mechanism loses at most as much as randomized response at the same epsilon
    (Kairouz, Oh & Viswanath 2015), also if it is chosen adaptively.
    """

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("epsilon", self.epsilon)
        check_integer("count", self.count, 1, _MOST_REPORTS)


@dataclass(frozen=True)
class GaussianEvent(PlainFields):
    """Event of ``count`` reports about the same user, by a Gaussian mechanism.

    ``mu`` is the sensitivity of one report divided by the standard deviation of its noise.
    """

    mu: float
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("mu", self.mu)
        check_integer("count", self.count, 1, _MOST_REPORTS)


Event = RandomizedResponseEvent | GaussianEvent


def total_mu(events: Iterable[GaussianEvent]) -> float:
    """Return the mu of one Gaussian report that costs exactly as much as several together.

    It is the root of the sum of their squared mu, see :class:`GaussianEvent`.
    """
    events = _listed("events", events, GaussianEvent)
    return math.hypot(*(math.sqrt(event.count) * event.mu for event in events))


@plain_arguments
def total_epsilon(
    events: Iterable[Event], delta: float, method: Literal["best", "basic"] = "best"
) -> float:
    """Return an epsilon that holds, at ``delta``, for all reports of one user together.

    Parameters
    ----------
    events : iterable of RandomizedResponseEvent or GaussianEvent
        The user's reports, adaptive or not. Objects of other types raise ValueError.
    delta : float
        Delta of all reports together, in [0, 1).
    method : {"best", "basic"} (default: "best")
        ``basic`` adds the pure epsilons to the epsilon of the Gaussian reports, which are composed
        exactly. ``best`` composes all reports exactly. If pure reports have many different
        epsilons, it uses a fine grid instead, which errs on the safe side.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"Expected delta in [0, 1), got {delta}.")
    check_choice("method", method, ("best", "basic"))
    events = _listed("events", events, Event)
    mu = total_mu([event for event in events if isinstance(event, GaussianEvent)])
    counts: dict[float, int] = {}
    for event in events:
        if isinstance(event, RandomizedResponseEvent):
            counts[event.epsilon] = counts.get(event.epsilon, 0) + event.count
    if delta == 0:
        return math.inf if mu else _summed(counts)
    if method == "best":
        return _composed(counts, mu, delta)
    gaussian = _composed({}, mu, delta) if mu else 0.0
    return _summed(counts, Fraction(gaussian)) if math.isfinite(gaussian) else math.inf


def _listed(name: str, values: Iterable[Any], kind: Any) -> list[Any]:
    """Return the values as a list; raise ValueError if one is not of type ``kind``."""
    if not isinstance(values, Iterable):
        raise ValueError(f"Expected an iterable of {name}, got {values!r}.")
    listed = list(values)
    for value in listed:
        if not isinstance(value, kind):
            names = " or ".join(each.__name__ for each in get_args(kind) or (kind,))
            raise ValueError(f"Expected {name} of type {names}, got {value!r}.")
    return listed


def _summed(counts: Mapping[float, int], further: Fraction = _NOTHING) -> float:
    """Return the sum of all reports' epsilons, and of ``further``, rounded up.

    There are ``counts[epsilon]`` reports of each epsilon.
    """
    exact = sum((Fraction(epsilon) * count for epsilon, count in counts.items()), further)
    try:
        rounded = float(exact)
    except OverflowError:
        return math.inf
    return rounded if rounded >= exact else math.nextafter(rounded, math.inf)


def _composed(counts: Mapping[float, int], mu: float, delta: float) -> float:
    """Return the epsilon of all pure reports (``counts[epsilon]`` each) and Gaussian reports."""
    if not math.isfinite(mu):
        return math.inf
    # A standard normal number is above x with a probability of at most exp(-x**2 / 2).
    reach = math.sqrt(-2 * math.log(delta))
    most = _summed(counts, Fraction(mu) * (Fraction(mu) / 2 + Fraction(reach)))
    if not math.isfinite(most):
        return math.inf
    return smallest_epsilon(losses_of(counts, delta), mu, delta, most)


# ------------------------------------------------------- sums of clipped contributions


@plain_arguments
def gaussian_noise_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Return the noise multiplier of each of several sums to which one unit contributes.

    The composition of Gaussian releases is exactly one Gaussian release, so the result is tight.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of all releases together.
    releases : int (default: 1)
        Number of sums to which one unit contributes.

    Returns
    -------
    float
        Standard deviation of each sum's noise, in every coordinate, divided by the length to which
        contributions are clipped.
    """
    check_integer("releases", releases, 1)
    return 2 * math.sqrt(releases) / gaussian_mu(epsilon, delta)


@plain_arguments
def noise_multiplier_epsilon(noise_multipliers: Iterable[float], delta: float) -> float:
    """Return the epsilon, at ``delta``, of all sums to which one unit contributes, together.

    There is one noise multiplier per sum, as in :func:`gaussian_noise_multiplier`, which is the
    inverse.
    """
    if not isinstance(noise_multipliers, Iterable):
        raise ValueError(f"Expected an iterable of noise_multipliers, got {noise_multipliers!r}.")
    events = []
    for noise_multiplier in noise_multipliers:
        check_positive("noise_multipliers", noise_multiplier)
        events.append(GaussianEvent(2 / plain(noise_multiplier)))
    if not events:
        raise ValueError("Expected at least one number in noise_multipliers, got none.")
    return gaussian_epsilon(total_mu(events), delta)
