"""Which frequent items are found: the chance that their counts clear the cut-off of chance."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from ldp_flower.expectation import Expectation
from ldp_flower.randomizers import FrequencyOracle
from ldp_flower.randomizers.items.prefix import PrefixTree
from ldp_flower.validation import Floats

Mechanism = FrequencyOracle | PrefixTree

_KINDS = 1000  # of items that somebody holds
_FREQUENT = 10  # the most frequent of them, by which a run is judged


def zipf(domain_size: int) -> Floats:
    """Return the shares of items of which the i-th is ``1 / i`` times as frequent as the first."""
    weights = 1.0 / np.arange(1, min(domain_size, _KINDS) + 1)
    return np.asarray(weights / weights.sum())


def chances_to_find(
    mechanism: Mechanism,
    num_users: int,
    shares: Floats,
    domain_size: int,
    max_items: int,
    false_alarm: float,
) -> Floats:
    """Return the chance of each item to be found, by the share of the users who hold it.

    By the normal approximation. The support of an item that a share f of n users holds has the mean
    ``n (q + f (p - q))`` and the variance ``n (f p (1 - p) + (1 - f) q (1 - q))``; it has to exceed
    the cut-off of items that nobody holds. With prefixes, taken for different, it has to at every
    length, each of which a random part of the users reports: with them f varies, too.
    """
    p, q = float(mechanism.own), float(mechanism.other)
    if isinstance(mechanism, FrequencyOracle):
        spread = shares * p * (1 - p) + (1 - shares) * q * (1 - q)
        return _above(num_users, q, p - q, false_alarm / domain_size, shares, spread)
    lengths, chances, before = mechanism.lengths, np.ones(len(shares)), 0
    spread = shares * p * (1 - p) + (1 - shares) * q * (1 - q)
    spread += shares * (1 - shares) * (p - q) ** 2 * (1 - 1 / len(lengths))
    survivors = 1.0
    for length in lengths:
        candidates = max(2.0, survivors * 2.0 ** (length - before))
        tail = (false_alarm if length == lengths[-1] else 1.0) / candidates
        chances *= _above(num_users / len(lengths), q, p - q, tail, shares, spread)
        survivors = min(1.0 + float(chances.sum()), 2.0 * max_items)
        before = length
    return chances


def _above(
    users: float, q: float, gap: float, tail: float, shares: Floats, spread: Floats
) -> Floats:
    """Return the chances that supports are above the cut-off of a tail."""
    reach = -float(ndtri(tail)) * math.sqrt(q * (1 - q) / users)
    return np.asarray(ndtr((gap * shares - reach) / np.sqrt(spread / users)))


def expected_misses(mechanism: Mechanism, chances: Floats, notes: Sequence[str]) -> Expectation:
    """Return the mean share of the most frequent items that is missed; chances are independent."""
    missed = 1 - chances[:_FREQUENT]
    law = np.ones(1)
    for chance in missed:
        law = np.convolve(law, [1 - chance, chance])
    number, below = len(missed), np.cumsum(law)
    low, high = (float(np.searchsorted(below, each)) / number for each in (0.1, 0.9))
    value = float(missed.mean())
    return Expectation(
        error=f"share of the {number} most frequent items that is missed",
        value=value,
        low=min(low, value),
        high=max(min(high, 1.0), value),
        rounds=1,
        randomizers=(mechanism,),
        assumes=(
            f"There are {len(chances)} items that somebody holds, of which the i-th is 1 / i times "
            "as frequent as the first.",
        ),
        notes=tuple(notes),
    )
