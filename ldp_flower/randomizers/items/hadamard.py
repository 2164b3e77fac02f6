"""Hadamard response: an item is reported as a column of a Hadamard matrix, or as one sign."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomness import Words, derive
from ...validation import Integers
from ..base import Reports
from ..two_level import Ranks, RoundedChoice, TwoLevel
from .frequency import FrequencyOracle, OneLabel

_ONE = np.uint64(1)


@dataclass(frozen=True)
class HadamardResponse(FrequencyOracle, RoundedChoice):
    """Randomiser that reports a column in which, likely, the item's Hadamard row is positive.

    Its reports are the cheapest to read, O(n + K log K) for n reports. For rare items, its
    variance exceeds that of :class:`SubsetSelection` at every epsilon: slightly if epsilon
    is small, by a factor of 1.3 at epsilon 1, and by a factor of 14 at epsilon 4.

    Notes
    -----
    Source: Acharya, Sun & Zhang (2019), the form for high privacy. Item x has row
    ``x + 1`` of the Sylvester matrix of order K, the smallest power of two above
    ``domain_size``; the entry at (r, y) is minus one to the number of common bits of r
    and y. A report y supports the items whose entry there is positive. Variance at
    frequency 0: ``((e^eps + 1) / (e^eps - 1))**2``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. Every row but the first is positive in exactly K / 2 columns. The column is
       drawn by :class:`TwoLevel` with those K / 2 outputs likely and the rest unlikely,
       so the probabilities of any report for any two items differ by a factor of at most
       exp(epsilon), rounding included.
    3. An invalid item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    other: ClassVar[Fraction] = Fraction(1, 2)  # two rows agree in half of the columns

    @property
    def order(self) -> int:
        """Order ``K`` of the matrix: the number of possible reports."""
        return 1 << self.domain_size.bit_length()

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, self.order // 2, self.order // 2)

    @property
    def own(self) -> Fraction:
        """Probability that a report is a column whose sign is positive for the user's item."""
        return Fraction(self._choice.threshold, 1 << 64)

    def _ranked(self, rounded: Integers, ranks: Ranks, coins: Words) -> Reports:
        """Return, for each item, a column: the ``index``-th in which its row has the drawn sign."""
        likely, index = ranks
        # The index gives all bits of the column but one, whose place is the lowest set bit of the
        # row. That bit is then chosen so that the row has the given sign in the column.
        rows = rounded.astype(np.uint64) + _ONE
        bit = rows & (~rows + _ONE)
        below = index & (bit - _ONE)
        columns = ((index - below) << _ONE) | below
        negative = (np.bitwise_count(columns & rows) & 1).astype(np.bool_)
        return np.where(negative == likely, columns | bit, columns).astype(self.report_dtype)

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        rows = np.arange(1, self.domain_size + 1)
        common = np.bitwise_count(reports.astype(np.int64)[:, None] & rows)
        return np.asarray(common % 2 == 0)

    def _support(self, reports: Reports, coins: Words) -> Integers:
        sums = _transformed(np.bincount(reports.astype(np.int64), minlength=self.order))
        return (sums[1 : self.domain_size + 1] + len(reports)) // 2


@dataclass(frozen=True)
class HadamardBit(OneLabel, FrequencyOracle):
    """Randomiser that reports the sign of the item's Hadamard row in a public column, as one bit.

    A user that keeps the private words of its first report can use them for all later reports.
    The same random choice then flips all bits of the user or none, see :attr:`permanent`.

    Notes
    -----
    Source: Bassily & Smith (2015), in the form of Acharya & Sun (2019). Item x has row x of the
    Sylvester matrix of order K, the smallest power of two that is not below ``domain_size``; the
    user's public coin chooses the column. A report supports the items whose sign in this column is
    the reported one. Variance at frequency 0: ``((e^eps + 1) / (e^eps - 1))**2``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``, for every coin.
    2. The sign is kept with the probability of :class:`TwoLevel` (one likely output, one
       unlikely), so the probabilities of either bit differ by a factor of at most exp(epsilon)
       for any two items, rounding included.
    3. An invalid item becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    other: ClassVar[Fraction] = Fraction(1, 2)  # over columns: two rows agree in half of them
    permanent: ClassVar[bool] = True  # the sign is flipped or kept whatever the item is

    @property
    def order(self) -> int:
        """Order ``K`` of the Hadamard matrix."""
        return 1 << (self.domain_size - 1).bit_length()

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, 1)

    def columns(self, coins: Words) -> Words:
        """Return the index of the matrix column that each user's coin chooses."""
        return derive(coins) & np.uint64(self.order - 1)

    def _labels(self, items: Integers, coins: Words) -> Integers:
        """Return the sign of each item in its user's column: 1 if it is negative, else 0."""
        common = np.bitwise_count(items.astype(np.uint64) & self.columns(coins))
        return np.asarray((common & 1).astype(np.int64))

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        rows = np.arange(self.domain_size, dtype=np.uint64)
        negative = np.bitwise_count(self.columns(coins)[:, None] & rows) & 1
        return np.asarray(negative == reports[:, None])

    def _support(self, reports: Reports, coins: Words) -> Integers:
        signs = 1.0 - 2.0 * reports.astype(np.float64)
        sums = np.bincount(self.columns(coins).astype(np.int64), signs, self.order)
        found = _transformed(np.rint(sums).astype(np.int64))
        return (found[: self.domain_size] + len(reports)) // 2


def _transformed(sums: Integers) -> Integers:
    """Return the vector's products with all rows of a Sylvester matrix (the Hadamard transform)."""
    half = 1
    while half < sums.size:
        pairs = sums.reshape(-1, 2, half)
        sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return sums.ravel()
