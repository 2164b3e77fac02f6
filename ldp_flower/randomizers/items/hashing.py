"""Local hashing: an item, as a noisy bucket of a public hash function."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...randomness import KeyedRandom, RandomSource, Words
from ...validation import Floats, Integers
from ..base import Reports
from ..two_level import OneChoice, TwoLevel
from .frequency import FrequencyOracle

_MAX_BUCKETS = 1 << 16
_CHUNK_ENTRIES = 1 << 16  # hashes held in memory at a time: stay in the cache
_HALF = np.uint64(32)


class LocalHashing(OneChoice):
    """What mechanisms share that report a noisy bucket of a public hash function.

    Every user has a hash function of its own, which its public coin determines. A
    report supports the items of its bucket: those that its user holds with
    probability :attr:`own`, any other with probability :attr:`other` over the coin.
    """

    @property
    def num_buckets(self) -> int:
        """Number of values ``g`` of the hash function."""
        return min(round(math.exp(min(self.epsilon, 20))) + 1, _MAX_BUCKETS)

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, self.num_buckets - 1)

    @property
    def own(self) -> Fraction:
        """Probability of reporting the bucket of the user's item."""
        return Fraction(self._choice.threshold, 1 << 64)

    @property
    def other(self) -> Fraction:
        """Probability, over the coin, that another item has the reported bucket."""
        return Fraction(1, self.num_buckets)

    def _hashed(self, items: Integers, coins: Words) -> Integers:
        """Return the bucket of what each user's report is about, by default its item."""
        return self._buckets(items, coins)

    def _by_bucket(
        self, roundings: Iterable[tuple[Fraction, int]], coin: Words
    ) -> Iterable[tuple[Fraction, Reports]]:
        """Return all reports by rank for each item that a value may be taken for."""
        for chance, item in roundings:
            (bucket,) = self._hashed(np.array([item]), coin).tolist()
            yield chance, self._choice.only_likely(bucket).astype(self.report_dtype)

    def _buckets(self, items: Integers, coins: Words) -> Integers:
        """Return the bucket of one item per user."""
        function = KeyedRandom(coins).words((len(items), 2))
        hashes = function[:, 0] * items.astype(np.uint64) + function[:, 1]
        return ((hashes >> _HALF) * np.uint64(self.num_buckets) >> _HALF).astype(np.int64)

    def _noisy(self, buckets: Integers, rng: RandomSource) -> Reports:
        """Return each user's bucket or, where so drawn, one of the others."""
        return self._choice.keep_or_replace(buckets, rng).astype(self.report_dtype)

    def _edge(self, buckets: Words) -> Words:
        """Return the smallest upper half of a hash in each bucket."""
        g = np.uint64(self.num_buckets)
        return ((buckets << _HALF) + g - np.uint64(1)) // g

    def _matches(self, reports: Reports, coins: Words, items: Words) -> NDArray[np.bool_]:
        """Which of the items are in each report's bucket, shape (users, items)."""
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
        """Count the reports that support each item, a few reports at a time."""
        support = np.zeros(len(items), np.int64)
        rows = min(255, max(1, _CHUNK_ENTRIES // max(1, len(items))))
        for start in range(0, len(reports), rows):
            chunk = slice(start, start + rows)
            bits = self._matches(reports[chunk], coins[chunk], items)
            support += bits.view(np.uint8).sum(axis=0, dtype=np.uint8)
        return support


@dataclass(frozen=True)
class OptimizedLocalHashing(LocalHashing, FrequencyOracle):
    """Randomiser for one item: its bucket under a public hash function, or another.

    Every user has a hash function of its own, which its public coin determines. One
    or two bytes a report whatever the domain; reading n reports costs O(n domain_size).

    Notes
    -----
    Source: Wang, Blocki, Li & Jha (2017), OLH, with ``round(e^eps) + 1`` buckets, at
    most 65,536. Variance at frequency 0: ``4 e^eps / (e^eps - 1)**2`` where e^eps is an
    integer. The hash is the multiply-shift of Dietzfelbinger (1996): the upper 32
    bits of ``a item + b`` modulo 2**64 are pairwise independent over random words a
    and b, hence so are buckets, up to 2**-32 in their probabilities. A report
    supports the items of its bucket; another user's item is one of them with
    probability 1/g over the coin.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. The bucket is drawn by :class:`TwoLevel` with one likely output, the item's
       bucket, and all others unlikely, so the probabilities of any report for any two
       items differ by at most exp(epsilon), rounding included. A bad hash function
       or a malicious coin changes which items share a bucket and nothing else.
    3. A value that is no item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        return self._noisy(self._hashed(self._items(values, rng), coins), rng)

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return the items that a value may stand for, with all reports by rank."""
        return self._by_bucket(self._roundings(value), coin)

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        return self._matches(reports, coins, np.arange(self.domain_size, dtype=np.uint64))

    def _support(self, reports: Reports, coins: Words) -> Integers:
        return self._matching(reports, coins, np.arange(self.domain_size, dtype=np.uint64))
