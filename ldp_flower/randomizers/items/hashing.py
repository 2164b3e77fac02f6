"""Local hashing: an item is reported as a noisy bucket of a public hash function."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...randomness import KeyedRandom, Words
from ...validation import Integers
from ..base import Reports
from ..two_level import TwoLevel
from .frequency import FrequencyOracle, OneLabel, count_supports

_MAX_BUCKETS = 1 << 16
_HALF = np.uint64(32)


class LocalHashing(OneLabel):
    """Base class of mechanisms whose labels are the buckets of a public hash function.

    Every user has a different hash function, which is derived from the user's public coin. A
    report supports the items in the reported bucket. It supports the user's item with
    probability :attr:`own`, and any other item with probability :attr:`other` over the coin.
    """

    @property
    def num_buckets(self) -> int:
        """Number ``g`` of buckets into which the hash function divides the items."""
        return min(round(math.exp(min(self.epsilon, 20))) + 1, _MAX_BUCKETS)

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, self.num_buckets - 1)

    @property
    def other(self) -> Fraction:
        """Probability, over coins, that an item other than the user's is in the reported bucket."""
        return Fraction(1, self.num_buckets)

    def _labels(self, items: Integers, coins: Words) -> Integers:
        return self._buckets(items, coins)

    def _buckets(self, items: Integers, coins: Words) -> Integers:
        """Return the bucket that each user's hash function gives to the user's item."""
        function = KeyedRandom(coins).words((len(items), 2))
        hashes = function[:, 0] * items.astype(np.uint64) + function[:, 1]
        return ((hashes >> _HALF) * np.uint64(self.num_buckets) >> _HALF).astype(np.int64)

    def _edge(self, buckets: Words) -> Words:
        """Return the smallest hash, a number of 32 bits, that falls into each bucket."""
        g = np.uint64(self.num_buckets)
        return ((buckets << _HALF) + g - np.uint64(1)) // g

    def _matches(self, reports: Reports, coins: Words, items: Words) -> NDArray[np.bool_]:
        """Return a mask of the items that are in each report's bucket, shape (users, items)."""
        # A bucket is an interval of hashes: subtracting its lower end, modulo 2**64,
        # leaves one comparison per item.
        buckets = reports.astype(np.uint64)
        low = self._edge(buckets)
        last = ((self._edge(buckets + np.uint64(1)) - low) << _HALF) - np.uint64(1)
        function = KeyedRandom(coins).words((len(reports), 2))
        hashes = function[:, :1] * items
        hashes += (function[:, 1] - (low << _HALF))[:, None]
        return np.asarray(hashes <= last[:, None])

    def _matching(self, reports: Reports, coins: Words, items: Words) -> Integers:
        """Return, for each item, the number of reports whose bucket contains the item."""
        return count_supports(
            lambda run: self._matches(reports[run], coins[run], items), len(reports), len(items)
        )


@dataclass(frozen=True)
class OptimizedLocalHashing(LocalHashing, FrequencyOracle):
    """Randomiser that reports an item's bucket under a public hash function, or another bucket.

    Every user has a different hash function, which is derived from the user's public coin. A
    report has one or two bytes for any domain. Reading n reports costs O(n domain_size).

    Notes
    -----
    Source: Wang, Blocki, Li & Jha (2017), OLH, with ``round(e^eps) + 1`` buckets, at
    most 65,536. Variance at frequency 0: ``4 e^eps / (e^eps - 1)**2`` if e^eps is an
    integer. The hash is the multiply-shift of Dietzfelbinger (1996): the upper 32
    bits of ``a item + b`` modulo 2**64 are pairwise independent over random words a
    and b, and hence so are buckets, up to 2**-32 in their probabilities. A report
    supports the items in its bucket. An item that its user does not hold is one of them
    with probability 1/g over the coin.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. The bucket is drawn by :class:`TwoLevel` with one likely output, the item's
       bucket, and all others unlikely, so the probabilities of any report for any two
       items differ by a factor of at most exp(epsilon), rounding included. A bad hash
       function or a malicious coin only changes which items share a bucket.
    3. An invalid item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        return self._matches(reports, coins, np.arange(self.domain_size, dtype=np.uint64))
