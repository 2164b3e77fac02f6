"""Frequency oracles: how many users hold each item of a public domain; and the simplest."""

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
from ..base import Estimate, Randomizer, Reports, Summary, _coins
from ..two_level import OneChoice, TwoLevel, residue_shares

_SLACK = 1e-9
_ROWS = 255  # bits of as many reports are added up in bytes
_CHUNK_ENTRIES = 1 << 16  # bits held in memory at a time: stay in the cache


class Items(Randomizer):
    """Base class: a value is an item, and what is no item counts as a uniformly random one.

    It is drawn from the private randomness, whose words for this are drawn for every value.
    """

    centre: ClassVar[float] = -1.0

    @abstractmethod
    def _items(self, values: Floats, rng: RandomSource) -> Integers:
        """Return one item per user, a random one for an invalid item."""

    @abstractmethod
    def _roundings(self, value: Floats) -> Iterable[tuple[Fraction, int]]:
        """Return the items that :meth:`_items` may take one value for, with their chances."""


class OneLabel(OneChoice, Items):
    """Base class: the label of an item is reported or, less likely, another label.

    A label is a public function of the item and of the user's coin. So a report is about one
    label, whatever the item, and the choice has one likely output.
    """

    @abstractmethod
    def _labels(self, items: Integers, coins: Words) -> Integers:
        """Return the label of one item per user, from 0."""

    @property
    def own(self) -> Fraction:
        """Probability of reporting the label of the user's item."""
        return Fraction(self._choice.threshold, 1 << 64)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        labels = self._labels(self._items(values, rng), coins)
        return self._choice.keep_or_replace(labels, rng).astype(self.report_dtype)

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return all reports by rank for each item that a value may be taken for."""
        for chance, item in self._roundings(value):
            (label,) = self._labels(np.array([item]), coin).tolist()
            yield chance, self._choice.only_likely(label).astype(self.report_dtype)


@dataclass(frozen=True)
class OfItem(Items):
    """Base class: items are the integers from 0 to ``domain_size - 1``.

    What is no such integer (a missing value, a fraction, a number outside the domain) is no item.

    ``epsilon`` is the privacy parameter; there are 2 to 1,048,576 items unless a class says
    otherwise.
    """

    domain_size: int

    largest_domain: ClassVar[int] = 1 << 20  # counts of all items are held at once

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("domain_size", self.domain_size, 2, self.largest_domain)

    @property
    def width(self) -> int:
        """A value is one item number."""
        return 1

    def _numbered(self, values: Floats) -> Integers:
        """Return item numbers, ``domain_size`` for an invalid item."""
        valid = (values >= 0) & (values < self.domain_size) & (values == np.floor(values))
        return np.where(valid, values, self.domain_size).astype(np.int64)

    def _items(self, values: Floats, rng: RandomSource) -> Integers:
        fallback = rng.words((len(values), 1))[:, 0] % np.uint64(self.domain_size)
        items = self._numbered(values)[:, 0]
        return np.where(items < self.domain_size, items, fallback.astype(np.int64))

    def _roundings(self, value: Floats) -> list[tuple[Fraction, int]]:
        (item,) = self._numbered(value).tolist()
        if item < self.domain_size:
            return [(Fraction(1), item)]
        return [(share, item) for item, share in enumerate(residue_shares(self.domain_size))]


@dataclass(frozen=True)
class FrequencyOracle(OfItem):
    """What all frequency oracles share: items in, counts of supporting reports out.

    A report supports some of the items, the user's own with probability ``own`` and any other
    one with the smaller probability ``other``, so that ``(support - other) / (own - other)`` is
    an unbiased estimate of whether the user holds an item. Both probabilities are the realised
    ones. Parameters are those of :class:`.OfItem`.
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
        """Number of items that every report supports; None where it varies."""
        return None

    @property
    def pairs(self) -> tuple[float, float]:
        """Probabilities that a report supports the own item and another one, and two others.

        By default items are supported independently of each other.
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
        """Which items each report supports, shape (users, domain_size)."""

    def _support(self, reports: Reports, coins: Words) -> Integers:
        """Count the reports that support each item, without a (users, domain) array."""
        return counted(
            lambda run: self._supports(reports[run], coins[run]), len(reports), self.domain_size
        )

    @cached_property
    def _gap(self) -> float:
        return float(self.own - self.other)

    @cached_property
    def _levels(self) -> tuple[float, float]:
        """What a supported and an unsupported item are worth."""
        return float(1 - self.other) / self._gap, -float(self.other) / self._gap

    @property
    def size(self) -> int:
        """One coordinate per item."""
        return self.domain_size

    @property
    def variance(self) -> float:
        """``q (1 - q) / (p - q)**2``, exact for an item that nobody holds; p is own, q other."""
        return self.variance_at(0.0)

    def variance_at(self, frequency: float) -> float:
        """Return the variance for an item that a given share f of the users holds.

        It is that of the estimated count over the number of reports, the users'
        items being fixed: ``(f p (1 - p) + (1 - f) q (1 - q)) / (p - q)**2``.
        """
        spread = (float(chance * (1 - chance)) for chance in (self.own, self.other))
        own, other = (value / self._gap**2 for value in spread)
        return frequency * own + (1 - frequency) * other

    @property
    def bound(self) -> float:
        """``max(q, 1 - q) / (p - q)``."""
        return max(self._levels[0], -self._levels[1])

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return np.where(self._supports(reports, coins), *self._levels)

    def _summary(self, count: int, support: Floats) -> Summary:
        """Return the sums that follow from the support of each item."""
        high, low = self._levels
        total = support / self._gap - count * float(self.other) / self._gap
        return Summary(count, total, support * high**2 + (count - support) * low**2)

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        return self._summary(len(reports), self._support(reports, coins).astype(np.float64))

    def counts(self, reports: Reports, coins: Words | None = None) -> Floats:
        """Estimate how many users hold each item, shape (domain_size,)."""
        return self._summarize(reports, _coins(len(reports), coins)).sum

    def support(self, estimate: Estimate) -> Floats:
        """Return how many reports support each item, given the mean of their estimates."""
        return estimate.count * (estimate.mean * self._gap + float(self.other))

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return True if a summary can be one of ``count`` reports: their support is counted."""
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


def counted(
    supports: Callable[[slice], NDArray[np.bool_]], num_reports: int, num_items: int
) -> Integers:
    """Count the reports that support each item, given what some of them support.

    ``supports`` returns an array of shape (reports, items) for a few of the reports.
    """
    support = np.zeros(num_items, np.int64)
    rows = min(_ROWS, max(1, _CHUNK_ENTRIES // max(1, num_items)))
    for start in range(0, num_reports, rows):
        bits = supports(slice(start, start + rows))
        support += bits.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return support


@dataclass(frozen=True)
class KRandomizedResponse(OneLabel, FrequencyOracle):
    """Randomiser for one item: the item itself or, less likely, another one.

    The best oracle for small domains (up to about ``3 exp(epsilon)`` items) and the
    only one whose report is an answer by itself.

    Notes
    -----
    Source: Kairouz, Bonawitz & Ramage (2016). Variance at frequency 0:
    ``(e^eps + d - 2) / (e^eps - 1)**2`` for d items.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The report is drawn by :class:`TwoLevel` with one likely output, the user's
       item, and all other items unlikely, so the probabilities of any report for
       any two items differ by at most exp(epsilon), rounding included.
    3. A value that is no item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    support_size: ClassVar[int | None] = 1
    pairs: ClassVar[tuple[float, float]] = (0.0, 0.0)

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, self.domain_size - 1)

    @property
    def permanent(self) -> bool:
        """Of two items one is kept, or the other one takes its place, whichever it is."""
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
