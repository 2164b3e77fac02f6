"""Exact draws of discrete Gaussian noise, by integers alone.

A draw x is an integer with probability proportional to ``exp(-x**2 / (2 * 4**k))``. The standard
deviation is always the power of two :data:`SIGMA`, so that every probability that the sampler needs
is ``exp(-a / 2**b)`` of integers a and b. Such an event is decided by comparing b random bits with
a number (von Neumann's series): no floating-point number has a part in any decision.

Source: Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
Algorithms 1 to 3, with the scale t = sigma of the discrete Laplace draws.
"""

import numpy as np
from numpy.typing import NDArray

from ..randomness import RandomSource, Words

Integers = NDArray[np.int64]

LOG_SIGMA = 26
#: Standard deviation of the noise on every sum of integers. A plan chooses the values' scale.
SIGMA = 1 << LOG_SIGMA

# A draw beyond 64 sigma, of probability below exp(-2047), is redrawn: squares keep to 64 bits.
_FARTHEST = 1 << 32
_AHEAD = 256  # words read at a time, at least: most decisions take few, and each reading takes time
_AT_ONCE = 1 << 17  # draws at a time, which bounds the memory


class Draws:
    """Uniform integers of one stream of random words, of which some are read ahead."""

    def __init__(self, rng: RandomSource) -> None:
        self._rng, self._read = rng, np.empty(0, np.uint64)

    def bits(self, number: int, count: int) -> Words:
        """Draw ``count`` uniform integers of ``number`` bits each, 1 to 64."""
        if (missing := count - len(self._read)) > 0:
            more = self._rng.words((1, max(missing, _AHEAD)))[0]
            self._read = np.concatenate([self._read, more])
        words, self._read = self._read[:count], self._read[count:]
        return np.asarray(words >> np.uint64(64 - number))

    def below(self, limit: int, count: int) -> Words:
        """Draw ``count`` uniform integers from 0 to ``limit - 1``, by rejection."""
        most = np.uint64((1 << 64) // limit * limit - 1)
        drawn = self.bits(64, count)
        while len(again := np.flatnonzero(drawn > most)):
            drawn[again] = self.bits(64, len(again))
        return drawn % np.uint64(limit)


def _happens(numerators: Words, bits: int, draws: Draws) -> NDArray[np.bool_]:
    """Draw events of probability ``exp(-a / 2**bits)``; return a mask of those that happen.

    The numerators a are from 0 to 2**bits. Take a sequence of events with probabilities p / 1,
    p / 2, p / 3, ... The number of the first event that does not happen is odd with probability
    exp(-p).
    """
    alive = np.arange(len(numerators))
    odd = np.zeros(len(numerators), bool)
    number = 1
    while len(alive):
        hit = draws.bits(bits, len(alive)) < numerators[alive]
        if number > 1 and hit.any():
            hit[hit] = draws.below(number, int(hit.sum())) == 0
        odd[alive[~hit]] = number % 2 == 1
        alive = alive[hit]
        number += 1
    return odd


def _happens_each_time(times: Words, draws: Draws) -> NDArray[np.bool_]:
    """Draw events of probability ``exp(-times)``; return a mask of those that happen.

    Such an event happens if ``times`` events of probability exp(-1) all happen.
    """
    happened = np.ones(len(times), bool)
    left, alive = times.copy(), np.flatnonzero(times)
    while len(alive):
        hit = _happens(np.full(len(alive), 2, np.uint64), 1, draws)
        happened[alive[~hit]] = False
        alive = alive[hit]
        left[alive] -= np.uint64(1)
        alive = alive[left[alive] > 0]
    return happened


def _discrete_laplace(count: int, log_sigma: int, draws: Draws) -> tuple[Integers, Integers]:
    """Return draws of the discrete Laplace distribution of scale ``2**log_sigma``.

    Of ``count`` draws some are rejected. The first array has the indices of the accepted draws, and
    the second array their values.
    """
    if log_sigma:
        low = draws.bits(log_sigma, count)
        places = np.flatnonzero(_happens(low, log_sigma, draws))
    else:
        low, places = np.zeros(count, np.uint64), np.arange(count)
    high = np.zeros(len(places), np.uint64)
    running = np.arange(len(places))
    while len(running):  # a geometric number of events of probability exp(-1)
        running = running[_happens(np.full(len(running), 2, np.uint64), 1, draws)]
        high[running] += np.uint64(1)
    negative = draws.bits(1, len(places)).astype(bool)
    size = (high << np.uint64(log_sigma)) + low[places]
    kept = ~(negative & (size == 0)) & (size < _FARTHEST)  # zero has one sign only
    found = size.astype(np.int64)
    return places[kept], np.where(negative, -found, found)[kept]


def _once(count: int, log_sigma: int, draws: Draws) -> tuple[Integers, Integers]:
    """Return draws of the discrete Gaussian: the indices of accepted draws, and their values.

    Of ``count`` draws some are rejected, as in :func:`_discrete_laplace`.
    """
    places, found = _discrete_laplace(count, log_sigma, draws)
    # x is accepted with probability exp(-(|x| - sigma)**2 / (2 sigma**2)). The integer part of the
    # exponent is decided first.
    gap = np.abs(np.abs(found) - (1 << log_sigma)).astype(np.uint64)
    bits = 2 * log_sigma + 1
    square = gap * gap
    kept = np.flatnonzero(_happens_each_time(square >> np.uint64(bits), draws))
    rest = square[kept] & np.uint64((1 << bits) - 1)
    kept = kept[_happens(rest, bits, draws)]
    return places[kept], found[kept]


def discrete_gaussian(size: int, rng: RandomSource, log_sigma: int = LOG_SIGMA) -> Integers:
    """Draw integers with the law of the discrete Gaussian of scale ``2**log_sigma``, exactly.

    Parameters
    ----------
    size : int
        Number of draws.
    rng : RandomSource
        Private randomness: one stream, for these draws alone (words of shape ``(1, n)`` are drawn,
        and some are left over).
    log_sigma : int (default: 26)
        Logarithm to base 2 of the standard deviation, 0 to 26.

    Returns
    -------
    ndarray of int64, shape (size,)
        The draws.
    """
    draws, found = Draws(rng), np.empty(size, np.int64)
    for start in range(0, size, _AT_ONCE):
        block = found[start : start + _AT_ONCE]
        todo = np.arange(len(block))
        while len(todo):
            places, drawn = _once(len(todo), log_sigma, draws)
            block[todo[places]] = drawn
            todo = np.delete(todo, places)
    return found
