"""Formulas for the expected errors of ranks and of found items, whose simulation takes too long.

A one-bit report of whether a value is below a threshold has a known variance. The precision that
protocols reach from all such bits was fitted: on columns with one peak, of several widths, and on
some that are even or have two peaks (`python -m simulations.studies.planning --family analytics`).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from ldp_flower.expectation import Expectation
from ldp_flower.randomizers import (
    FrequencyOracle,
    KRandomizedResponse,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.randomizers.items.prefix import PrefixTree
from ldp_flower.validation import Floats

from .columns import OWN_ENTRY

_ROWS = "The rows of one user differ as much as rows of different users do."
# Constants for quantiles: the ratio of errors to errors without a search, and the part of users'
# own variance that remains though all users are asked. For bits they were fitted on 8 and 106
# settings of 500 to 20,000 users; for cells, on 18 settings of 1,000 to 10,000 users at epsilon 3
# to 6, 12 runs each. At epsilon 1.5 to 4, errors were .74 to 1.2 times as large as predicted.
_BY_BITS, _BY_CELLS = (1.05, 0.72), (0.8, 0.25)
# Constants for the largest error of a distribution function: factor of the smoothed noise, its
# power, factors of the sampling of users and of rows, and the range of eight runs of ten. They were
# fitted on 170 settings of 500 to 15,000 users, epsilon .5 to 6.5, columns with one peak, 10 or 12
# runs each. The first was 1.6. It was fitted again on 16 settings of 800 to 12,000 users, epsilon
# .5 to 3 (seeds 9000-9007), since windows are narrower now.
_NOISE, _POWER, _ASKED, _DRAWN, _RANGE = 1.25, 0.82, 0.52, 0.62, (0.65, 1.6)
_HUMP = (
    "The column has one hump, which covers a good part of the bounds; errors are half as large if "
    "the column is uniform, 1.5 times as large if its standard deviation is below a tenth of the "
    "bounds' distance, and up to three times with two peaks or bounds that are far too wide."
)


def expected_quantiles(
    randomizers: Sequence[Randomizer],
    noise: float,
    parts: int,
    levels: Sequence[float],
    users: int,
    rows: float,
    rounds: int,
) -> Expectation:
    """Return the expected root mean square of the quantiles' errors in rank.

    The errors are assumed to be independent and normal.

    randomizers: Mechanisms; users who report about the quantiles use the first one.
    noise: Variance that the first mechanism adds to a user's report about a share.
    parts: Number of groups of users that report about different quantiles.
    """
    lost, sampled = _BY_CELLS if isinstance(randomizers[0], KRandomizedResponse) else _BY_BITS
    # Variance of a bit that says if a user's value is below a quantile. One of a user's rows is
    # drawn, which differ as rows of different users do. The users asked about a threshold are
    # random too.
    own = [level * (1 - level) * (1 - (1 - sampled) / rows) for level in levels]
    error = lost * math.sqrt(parts * (noise + sum(own) / len(levels)) / users)
    # Quantiles of the root mean square of len(levels) standard normal numbers.
    spread = [math.sqrt(chi2.ppf(each, len(levels)) / len(levels)) for each in (0.1, 0.5, 0.9)]
    low, value, high = (min(1.0, error * each) for each in spread)
    many = ", root mean square of all" if len(levels) > 1 else ""
    return Expectation(
        error=f"rank error of a quantile{many}",
        value=value,
        low=low,
        high=high,
        rounds=rounds,
        randomizers=tuple(randomizers),
        assumes=(OWN_ENTRY, *([_ROWS] if rows > 1 else [])),
    )


def expected_function(
    epsilon: float,
    users: int,
    rows: float,
    rounds: int,
    randomizers: Sequence[Randomizer],
    notes: Sequence[str],
) -> Expectation:
    """Return the expected largest error of a distribution function.

    The part from noise is a power of the error that the share below a middle threshold has if all
    users report one bit on it: a smooth density averages noise. The part from the choice of users
    is the error of a sample.
    """
    one = math.sqrt((RandomizedResponse(epsilon).variance - 1) / 4 / users)
    sampled = math.hypot(_ASKED / math.sqrt(rows), _DRAWN * math.sqrt(1 - 1 / rows))
    value = min(1.0, math.hypot(_NOISE * one**_POWER, sampled / math.sqrt(users)))
    return Expectation(
        error="largest error of the distribution function",
        value=value,
        low=value * _RANGE[0],
        high=min(1.0, value * _RANGE[1]),
        rounds=rounds,
        randomizers=tuple(randomizers),
        assumes=(OWN_ENTRY, _HUMP, *([_ROWS] if rows > 1 else [])),
        notes=tuple(notes),
    )


Mechanism = FrequencyOracle | PrefixTree

_KINDS = 1000  # largest number of distinct items that users hold
_FREQUENT = 10  # number of most frequent items by which a run is judged


def zipf(domain_size: int) -> Floats:
    """Return the shares of items that plans assume, by Zipf's law.

    Item i is ``1 / i`` times as frequent as the first, and at most 1000 items have users.
    """
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
    """Return the probability that each item is found, given the share of the users who hold it.

    The normal approximation is used. The support of an item that a share f of n users holds has the
    mean ``n (q + f (p - q))`` and the variance ``n (f p (1 - p) + (1 - f) q (1 - q))``. To be found
    it has to exceed the cut-off for items that no user holds. With a prefix tree, whose prefixes
    are assumed to differ, this has to hold at every length. A random part of the users reports each
    length, so f varies between lengths.
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
    """Return the probability that each item's support is above the cut-off.

    An item without users exceeds the cut-off with probability ``tail``.
    """
    reach = -float(ndtri(tail)) * math.sqrt(q * (1 - q) / users)
    return np.asarray(ndtr((gap * shares - reach) / np.sqrt(spread / users)))


def expected_misses(mechanism: Randomizer, chances: Floats, notes: Sequence[str]) -> Expectation:
    """Return the expected share of the most frequent items that is missed.

    ``chances`` has each item's probability of being found; they are assumed to be independent.
    """
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
