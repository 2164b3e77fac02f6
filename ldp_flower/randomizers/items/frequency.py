"""Frequency oracles, which count the users of each item of a domain, and the simplest oracle."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomness import RandomSource, Words
from ...validation import Floats, Integers, check_integer
from ..base import Randomizer, Reports, _coins
from ..estimates import Estimate, Summary
from ..two_level import Ranks, RoundedChoice, TwoLevel, residue_shares

_SLACK = 1e-9
_ROWS = 255  # reports whose bits are added at a time: the sums fit into one byte
_CHUNK_ENTRIES = 1 << 16  # bits held in memory at a time, so that they stay in the cache


class Items(Randomizer):
    """Base class of mechanisms for items, which are the integers from 0 to ``_num_items - 1``.

    Any other value (a missing value, a fraction, a number outside this range) is an invalid item,
    and becomes a uniformly random item. The random item comes from the private randomness. Its
    words are drawn for every value, valid or not.
    """

    centre: ClassVar[float] = -1.0

    @property
    @abstractmethod
    def _num_items(self) -> int:
        """Number of items of the domain."""

    def _numbered(self, values: Floats) -> Integers:
        """Return the values as item numbers; ``_num_items`` stands for an invalid item."""
        valid = (values >= 0) & (values < self._num_items) & (values == np.floor(values))
        return np.where(valid, values, self._num_items).astype(np.int64)

    def _random_items(self, words: Words) -> Integers:
        return (words % np.uint64(self._num_items)).astype(np.int64)

    def _rounded(self, values: Floats, rng: RandomSource, coins: Words) -> Integers:
        """Return one item per user, with random items in place of invalid ones."""
        fallback = self._random_items(rng.words((len(values), 1))[:, 0])
        items = self._numbered(values)[:, 0]
        return np.where(items < self._num_items, items, fallback)

    def _roundings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, int]]:
        """Return pairs of a chance and an item, for the items that one value may become."""
        (item,) = self._numbered(value).tolist()
        if item < self._num_items:
            return [(Fraction(1), item)]
        return ((share, item) for item, share in enumerate(residue_shares(self._num_items)))


class OneLabel(Items, RoundedChoice):
    """Base class of mechanisms that report an item's label or, less likely, another label.

    A label is a public function of the item and of the user's coin. For every item, exactly one
    label is likely.
    """

    @abstractmethod
    def _labels(self, items: Integers, coins: Words) -> Integers:
        """Return the label of each user's item, an integer from 0; it may depend on the coin."""

    @property
    def own(self) -> Fraction:
        """Probability that a report is the label of the user's item."""
        return Fraction(self._choice.threshold, 1 << 64)

    def _ranked(self, rounded: Integers, ranks: Ranks, coins: Words) -> Reports:
        likely, index = ranks
        labels = self._labels(rounded, coins)
        others = index.astype(np.int64)
        others += others >= labels
        return np.where(likely, labels, others).astype(self.report_dtype)


@dataclass(frozen=True)
class OfItem(Items):
    """Base class of mechanisms whose items are the integers from 0 to ``domain_size - 1``.

    Any other value (a missing value, a fraction, a number outside the domain) is an invalid item,
    and becomes a uniformly random item.

    ``epsilon`` is the privacy parameter. There are 2 to 1,048,576 items unless a class says
    otherwise.
    """

    domain_size: int

    largest_domain: ClassVar[int] = 1 << 20  # limited since the counts of all items are in memory

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("domain_size", self.domain_size, 2, self.largest_domain)

    @property
    def width(self) -> int:
        """Number of coordinates of a value, which is one item number."""
        return 1

    @property
    def _num_items(self) -> int:
        return self.domain_size


@dataclass(frozen=True)
class FrequencyOracle(OfItem):
    """Base class of frequency oracles, which count the reports that support each item.

    A report supports some of the items. It supports the user's item with probability ``own``, and
    any other item with the smaller probability ``other``. With ``support`` 1 if the report
    supports an item and 0 if not, ``(support - other) / (own - other)`` is an unbiased estimate of
    the indicator that the user holds the item. Both probabilities are the realised ones.
    Parameters are those of :class:`.OfItem`.
    """

    exact: ClassVar[bool] = True

    @property
    @abstractmethod
    def own(self) -> Fraction:
        """Probability that a report supports an item that its user holds."""

    @property
    @abstractmethod
    def other(self) -> Fraction:
        """Probability that a report supports an item that its user does not hold."""

    @property
    def support_size(self) -> int | None:
        """Number of items that each report supports; None if it varies between reports.

        If it is known, a server rejects sums whose numbers of supports do not fit it.
        """
        return None

    @property
    def pairs(self) -> tuple[float, float]:
        """Probabilities of supporting two items: the user's item and another, and two others.

        By default, the report supports items independently of each other.
        """
        own, other = float(self.own), float(self.other)
        return own * other, other**2

    def covariance(self, shares: Floats) -> Floats:
        """Return the covariance of one user's debiased report, shape (items, items).

        The user's item is drawn at random with the probabilities ``shares``, shape (items,).
        """
        p, q = float(self.own), float(self.other)
        with_own, others = self.pairs
        means = q + (p - q) * shares
        covariance = others + (with_own - others) * (shares[:, None] + shares)
        np.fill_diagonal(covariance, means)
        return np.asarray((covariance - np.outer(means, means)) / self._gap**2)

    @abstractmethod
    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        """Return a mask, shape (users, domain_size): True if a user's report supports an item."""

    def _support(self, reports: Reports, coins: Words) -> Integers:
        """Return, for each item, the number of supporting reports, in blocks to save memory."""
        return count_supports(
            lambda run: self._supports(reports[run], coins[run]), len(reports), self.domain_size
        )

    @cached_property
    def _gap(self) -> float:
        return float(self.own - self.other)

    @cached_property
    def _levels(self) -> tuple[float, float]:
        """The two numbers of a debiased report: for a supported item, and for any other one."""
        return float(1 - self.other) / self._gap, -float(self.other) / self._gap

    @property
    def size(self) -> int:
        """Number of coordinates of a debiased report, one per item."""
        return self.domain_size

    @property
    def variance(self) -> float:
        """Variance ``q (1 - q) / (p - q)**2`` for an item without users; p is own, q other."""
        return self.variance_at(0.0)

    def variance_at(self, frequency: float) -> float:
        """Return the variance for an item that a share ``frequency`` (f) of the users holds.

        It is the variance of the estimated count divided by the number of reports, for fixed
        items of the users: ``(f p (1 - p) + (1 - f) q (1 - q)) / (p - q)**2``.
        """
        spread = (float(chance * (1 - chance)) for chance in (self.own, self.other))
        own, other = (value / self._gap**2 for value in spread)
        return frequency * own + (1 - frequency) * other

    @property
    def bound(self) -> float:
        """Largest absolute value of a debiased report: ``max(q, 1 - q) / (p - q)``."""
        return max(self._levels[0], -self._levels[1])

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return np.where(self._supports(reports, coins), *self._levels)

    def _summary(self, count: int, support: Floats) -> Summary:
        """Return the summary of ``count`` reports, of which ``support`` support each item."""
        high, low = self._levels
        total = support / self._gap - count * float(self.other) / self._gap
        return Summary(count, total, support * high**2 + (count - support) * low**2)

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        return self._summary(len(reports), self._support(reports, coins).astype(np.float64))

    def counts(self, reports: Reports, coins: Words | None = None) -> Floats:
        """Return the estimated number of users who hold each item, shape (domain_size,)."""
        return self._summarize(reports, _coins(len(reports), coins)).sum

    def support(self, estimate: Estimate) -> Floats:
        """Return the number of reports that support each item, computed back from an estimate."""
        return estimate.count * (estimate.mean * self._gap + float(self.other))

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return True if a summary follows from whole numbers of supports by ``count`` reports."""
        if not super().accepts(summary, coins):
            return False
        count = summary.count
        support = np.rint(summary.sum * self._gap + count * float(self.other))
        expected = self._summary(count, support)
        scale = _SLACK * max(1, count) * self.bound
        return bool(
            ((support >= 0) & (support <= count)).all()
            and (np.abs(summary.sum - expected.sum) <= scale).all()
            and (
                np.abs(summary.sum_of_squares - expected.sum_of_squares) <= scale * self.bound
            ).all()
            and (self.support_size is None or support.sum() == count * self.support_size)
        )


def count_supports(
    supports: Callable[[slice], NDArray[np.bool_]], num_reports: int, num_items: int
) -> Integers:
    """Return the number of reports that support each item.

    ``supports`` returns a mask of shape (reports, items) for a slice of the reports.
    """
    support = np.zeros(num_items, np.int64)
    rows = min(_ROWS, max(1, _CHUNK_ENTRIES // max(1, num_items)))
    for start in range(0, num_reports, rows):
        bits = supports(slice(start, start + rows))
        support += bits.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return support


@dataclass(frozen=True)
class KRandomizedResponse(OneLabel, FrequencyOracle):
    """Randomiser that reports the user's item or, less likely, another item.

    It is the best oracle for small domains (up to about ``3 exp(epsilon)`` items), and the
    only one whose report is itself an item.

    Notes
    -----
    Source: Kairouz, Bonawitz & Ramage (2016). Variance at frequency 0:
    ``(e^eps + d - 2) / (e^eps - 1)**2`` for d items.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The report is drawn by :class:`TwoLevel` with one likely output, the user's
       item, and all other items unlikely, so the probabilities of any report for
       any two items differ by a factor of at most exp(epsilon), rounding included.
    3. An invalid item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    support_size: ClassVar[int | None] = 1
    pairs: ClassVar[tuple[float, float]] = (0.0, 0.0)

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, self.domain_size - 1)

    @property
    def permanent(self) -> bool:
        """True if there are two items: the item is then kept or flipped, whichever it is."""
        return self.domain_size == 2

    @property
    def other(self) -> Fraction:
        """Probability of reporting any one of the other items."""
        return (1 - self.own) / (self.domain_size - 1)

    def _labels(self, items: Integers, coins: Words) -> Integers:
        return items

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        return np.asarray(reports[:, None] == np.arange(self.domain_size))

    def _support(self, reports: Reports, coins: Words) -> Integers:
        return np.bincount(reports.astype(np.int64), minlength=self.domain_size)
