"""Mechanisms for items of a huge domain: a noisy bucket of a prefix (PEM) or one bit (TreeHist)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...randomness import KeyedRandom, Words
from ...validation import Floats, Integers, check_fraction, check_integer
from ..base import Reports
from ..estimates import Estimate, Summary
from .hashing import LocalHashing

_MAX_BITS = 40  # with more, hashes are no longer pairwise independent in all useful bits
_MAX_ITEMS = 1 << 16
_HALF = np.uint64(32)
_MAX_FIRST_BITS = 20
_MAX_STEP_BITS = 12


class HeavyItems(NamedTuple):
    """Items found by :meth:`PrefixTree.heavy_hitters`, the most frequent first.

    ``counts`` are the estimated numbers of users of each item. A count is unbiased for an item
    that is fixed in advance; counts just above the cut-off are too high, because of the selection.
    ``std_errors`` are the standard errors of the counts for fixed items of the users. They cover
    randomisation and assignment to levels. ``cutoff`` is the count that an item had to exceed at
    the last level.
    """

    items: Integers
    counts: Floats
    std_errors: Floats
    cutoff: float


@dataclass(frozen=True)
class PrefixTree(LocalHashing):
    """Base class of heavy-hitter mechanisms: every user reports one prefix of its item.

    A value is one item, an integer below ``2**num_bits``. The user's public coin
    assigns one of the prefix :attr:`lengths` to the user. The user reports, once, a noisy
    bucket of its item's prefix of that length. A report does not depend on the result for
    another length, so all reports can be collected in one round.

    There are too many items for sums over all of them. Reports are therefore kept unchanged and
    read by :meth:`heavy_hitters`. Methods that would return a vector over the domain raise
    TypeError, and :meth:`accepts` accepts no summary.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    num_bits : int
        Items are integers below ``2**num_bits``, 1 to 40 bits.
    """

    num_bits: int

    summable: ClassVar[bool] = False
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_bits", self.num_bits, 1, _MAX_BITS)

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """Lengths, in bits, of the prefixes that users report, increasing up to ``num_bits``."""

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} has no sums over its 2**{self.num_bits} items: "
            "keep the reports and read them with heavy_hitters."
        )

    @property
    def size(self) -> int:
        """Raise TypeError: these reports are never debiased, and have no number of coordinates."""
        self._refuse()

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        self._refuse()

    def estimate(self, summary: Summary) -> Estimate:
        """Raise TypeError, since there are no summaries."""
        self._refuse()

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return False, since there are no summaries."""
        return False

    @property
    def variance(self) -> float:
        """Variance ``L q (1 - q) / (p - q)**2`` for an item without users; p is own, q other.

        L is the number of lengths. Only the last length distinguishes items.
        """
        p, q = float(self.own), float(self.other)
        return len(self.lengths) * q * (1 - q) / (p - q) ** 2

    @property
    def bound(self) -> float:
        """Largest absolute value of a debiased report: ``L max(q, 1 - q) / (p - q)``."""
        p, q = float(self.own), float(self.other)
        return len(self.lengths) * max(q, 1 - q) / (p - q)

    def _levels(self, coins: Words) -> Integers:
        """Return, for each user's coin, the position in :attr:`lengths` of its prefix length."""
        words = KeyedRandom(coins).words((len(coins), 3))[:, 2]  # two others: the hash function
        return ((words >> _HALF) * np.uint64(len(self.lengths)) >> _HALF).astype(np.int64)

    @property
    def _num_items(self) -> int:
        return 1 << self.num_bits

    def _random_items(self, words: Words) -> Integers:
        return (words >> np.uint64(64 - self.num_bits)).astype(np.int64)

    def _labels(self, items: Integers, coins: Words) -> Integers:
        """Return the bucket of each user's prefix, cut to the length that its coin chooses."""
        dropped = (self.num_bits - np.array(self.lengths))[self._levels(coins)]
        return self._buckets(items >> dropped, coins)

    def heavy_hitters(
        self, reports: Reports, coins: Words, max_items: int, false_alarm: float = 0.01
    ) -> HeavyItems:
        """Return the items that many users hold. Their number need not be known in advance.

        At each level, the candidates are the extensions of the prefixes that survived
        the previous level. The support of a candidate without users is binomial,
        ``Binomial(users of the level, other)``, and independent of the previous levels, which
        use other users' reports. A prefix survives if its support is above the quantile that
        one false prefix per level exceeds on average. An item survives if its support is above
        the quantile that any false item exceeds with probability ``false_alarm``.

        Parameters
        ----------
        reports : ndarray, shape (users,)
            The users' reports.
        coins : ndarray of uint64, shape (users,)
            The users' public coins, drawn independently of the users' items.
        max_items : int
            Largest number of items to return; the most frequent are returned. At most twice
            as many prefixes survive a level.
        false_alarm : float (default: 0.01)
            Largest probability of returning any item that no user holds, up to the collisions
            of hashes (2**-25 in each of their probabilities).

        Raises
        ------
        ValueError
            If ``max_items`` or ``false_alarm`` is out of range or the numbers of reports
            and coins differ.
        """
        check_integer("max_items", max_items, 1, _MAX_ITEMS)
        check_fraction("false_alarm", false_alarm)
        if reports.shape != coins.shape:
            raise ValueError(f"Expected {len(coins)} reports, one per coin, got {reports.shape}.")
        from scipy.stats import binom  # slow to import, and clients never come here

        levels = self._levels(coins)
        survivors, support, num_users, length = np.zeros(1, np.uint64), np.zeros(1, np.int64), 0, 0
        for level, next_length in enumerate(self.lengths):
            last = level == len(self.lengths) - 1
            candidates = _extensions(survivors, next_length - length)
            mine = levels == level
            num_users, length = int(mine.sum()), next_length
            support = self._matching(reports[mine], coins[mine], candidates)
            tail = (false_alarm if last else 1.0) / max(2, len(candidates))
            cut = binom.isf(tail, num_users, float(self.other))
            kept = np.flatnonzero(support > cut)
            order = np.argsort(-support[kept], kind="stable")
            kept = kept[order[: max_items if last else 2 * max_items]]
            survivors, support = candidates[kept], support[kept]
        counts, std_errors = self._debiased(support, num_users, len(reports))
        cutoffs, _ = self._debiased(np.array([cut]), num_users, len(reports))
        return HeavyItems(survivors.astype(np.int64), counts, std_errors, float(cutoffs[0]))

    def _debiased(self, support: NDArray[Any], num_users: int, total: int) -> tuple[Floats, Floats]:
        """Return estimated counts of prefixes over all users, and the counts' standard errors.

        ``support`` has the supports of the prefixes of one length, by ``num_users`` of ``total``
        users.
        """
        p, q = float(self.own), float(self.other)
        users = max(1, num_users)
        share = (support / users - q) / (p - q)
        held = np.clip(share, 0, 1)
        noise = (held * p * (1 - p) + (1 - held) * q * (1 - q)) / (p - q) ** 2
        # The users of a level are a random subset of all users.
        noise += held * (1 - held) * (total - num_users) / max(1, total - 1)
        return share * total, total * np.sqrt(noise / users)


def _extensions(prefixes: Words, bits: int) -> NDArray[np.uint64]:
    """Return every prefix, lengthened by each sequence of ``bits`` bits, in increasing order."""
    tails = np.arange(1 << bits, dtype=np.uint64)
    return np.asarray(((np.sort(prefixes) << np.uint64(bits))[:, None] | tails).ravel())


@dataclass(frozen=True)
class TreeHist(PrefixTree):
    """Randomiser for one item of a huge domain: it reports a noisy sign of one of its prefixes.

    A report is one bit per user, sent as a byte. There are two candidates for each surviving
    prefix. The users are divided over all prefix lengths, so there is more noise than with
    :class:`PrefixExtending`, which is the better choice unless a report must be one bit.

    Notes
    -----
    Source: Bassily, Nissim, Stemmer & Thakurta (2020). There, a user's public coin consists of
    its level, one of a few hash functions with signs, and a row of a Hadamard matrix. Sign
    times entry is a pairwise independent sign of the prefix. Here, each user has a different
    function. Sign and entry are then one such sign, the upper bit of the hash (exactly pairwise
    independent up to 40 bits), and collisions under shared functions do not add to the noise.
    The variance is ``num_bits ((e^eps + 1) / (e^eps - 1))**2``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. For a given coin, level and sign function are fixed and the sign of the item's
       prefix is a function of the item: one bit. It is kept or flipped once, by
       :class:`TwoLevel` with one likely and one unlikely output, so the probabilities
       of either report for any two items differ by a factor of at most exp(epsilon),
       rounding included. The server's candidates are compared with that bit; nothing is
       randomised for a candidate.
    3. An invalid item (missing, a fraction, out of range) becomes a uniformly random
       one, by a random word that is drawn for every value, and mixing keeps the bound.
       The guarantee therefore holds for every input.
    """

    num_buckets: ClassVar[int] = 2

    @property
    def lengths(self) -> tuple[int, ...]:
        """Every length from 1 to ``num_bits``."""
        return tuple(range(1, self.num_bits + 1))


@dataclass(frozen=True)
class PrefixExtending(PrefixTree):
    """Randomiser for one item of a huge domain: it reports a prefix by local hashing.

    There are few levels, so that each has many users. A report has one or two bytes. Prefer
    this mechanism to :class:`TreeHist` unless a report must be a single bit. Prefer a
    :class:`FrequencyOracle` if all items of the domain can be counted.

    Parameters
    ----------
    epsilon, num_bits
        See :class:`PrefixTree`.
    first_bits : int (default: 12)
        Length of the shortest prefix, 1 to 20 (or ``num_bits``, if that is less).
    step_bits : int (default: 8)
        Largest number of bits by which one length exceeds the one before, 1 to 12.

    Notes
    -----
    Source: Wang, Li & Jha (2021), PEM, with the buckets of
    :class:`OptimizedLocalHashing`. Longer steps mean fewer levels and hence less noise, but
    there are ``2**step_bits`` candidates for each surviving prefix, and reading takes time
    proportional to users times candidates. The hashes of two prefixes whose difference is
    a multiple of 2**s are pairwise independent up to ``2**(s - 64)`` or 2**-32,
    whichever is more: 2**-25 at 40 bits.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin. The
       user sends one report, of one prefix, and no other randomised view of it.
    2. For a given coin, length and hash function are fixed and the bucket of the
       item's prefix is a function of the item. It is reported by :class:`TwoLevel` with
       one likely output, so the probabilities of any report for any two items
       differ by a factor of at most exp(epsilon), rounding included.
    3. An invalid item (missing, a fraction, out of range) becomes a uniformly random
       one, by a random word that is drawn for every value, and mixing keeps the bound.
       The guarantee therefore holds for every input.
    """

    first_bits: int = 12
    step_bits: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("first_bits", self.first_bits, 1, _MAX_FIRST_BITS)
        check_integer("step_bits", self.step_bits, 1, _MAX_STEP_BITS)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of prefixes: ``first_bits``, then equal steps up to ``num_bits``."""
        first = min(self.first_bits, self.num_bits)
        rest = self.num_bits - first
        steps = -(-rest // self.step_bits)
        return (first, *(first - (-rest * i // steps) for i in range(1, steps + 1)))
