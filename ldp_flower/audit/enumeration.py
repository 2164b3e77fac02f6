"""Exact privacy loss of mechanisms, by enumeration from the thresholds that they use."""

import math
from fractions import Fraction

import numpy as np

from ..randomizers import FrequencyOracle, Randomizer, SampledCoordinate
from ..randomizers.items.prefix import PrefixTree
from ..randomizers.two_level import Enumerable, TooManyOutputs, log
from ..randomness import Words, derive
from ..validation import Floats

_FEW_ITEMS = 8  # with more items, invalid items are left out, since they multiply the work


def exact_epsilon(mechanism: Enumerable, inputs: Floats, coins: Words | None = None) -> float:
    """Return the largest log-ratio of any output's probabilities for any two inputs.

    Parameters
    ----------
    mechanism : Enumerable
        A mechanism with :meth:`Enumerable.law`.
    inputs : ndarray of float64, shape (inputs, width)
        The values to compare, finite.
    coins : ndarray of uint64, optional
        Public coins to try; by default one coin.

    Notes
    -----
    Probabilities are fractions that follow from the mechanism's thresholds on random words, so
    the result is exact up to its rounding to a float.

    Raises
    ------
    TooManyOutputs
        If the enumeration would be too long.
    """
    largest = Fraction(1)
    for coin in derive(0) if coins is None else coins:
        laws = [mechanism.law(value, np.array([coin])) for value in inputs]
        for report in set().union(*laws):
            chances = [law.get(report, Fraction(0)) for law in laws]
            if min(chances) > 0:
                largest = max(largest, max(chances) / min(chances))
            elif max(chances) > 0:
                return math.inf
    return float(log(largest))


def worst_epsilon(mechanism: Randomizer) -> float | None:
    """Return the largest log-ratio of any report's probabilities, or None if it is unknown.

    The result follows from the mechanism's thresholds, for any two values. If there are few
    reports, it is at least the loss in the exact law of the reports for extreme values.
    """
    if not (mechanism.exact and isinstance(mechanism, Enumerable)):
        return None
    epsilon = float(log(mechanism.worst_ratio()))
    try:
        return max(epsilon, exact_epsilon(mechanism, extreme_inputs(mechanism)))
    except TooManyOutputs:
        return epsilon


def extreme_inputs(mechanism: Randomizer) -> Floats:
    """Return values that are as far apart as possible: corners, or sets of items, (4, width).

    For a mechanism for items, the last set consists of invalid items if there are few items. If
    there are many, invalid items are not among the values: their law is a mixture of the laws of
    valid items, and cannot be worse.
    """
    width = mechanism.width
    if isinstance(mechanism, SampledCoordinate):
        return np.repeat(extreme_inputs(mechanism.part), mechanism.dim, axis=1)
    if isinstance(mechanism, FrequencyOracle | PrefixTree):
        if isinstance(mechanism, FrequencyOracle):
            num_items = mechanism.domain_size
        else:
            num_items = 1 << mechanism.num_bits
        first = np.arange(width, dtype=np.float64)
        none = np.full(width, mechanism.centre) if num_items <= _FEW_ITEMS else first
        return np.array([first, num_items - 1 - first, (first + 1) % num_items, none])
    alternating = 1.0 - 2 * (np.arange(width) % 2)
    corners = 1e9 * np.array([np.ones(width), alternating])
    return np.concatenate([corners, -corners])
