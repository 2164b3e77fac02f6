"""k-ary randomized response: an item, as an item."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomness import RandomSource, Words
from ...validation import Floats, Integers
from ..base import Reports
from ..enumerable import OneChoice
from ..two_level import TwoLevel
from .frequency import FrequencyOracle


@dataclass(frozen=True)
class KRandomizedResponse(OneChoice, FrequencyOracle):
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
    def own(self) -> Fraction:
        """Probability of reporting the user's own item."""
        return Fraction(self._choice.threshold, 1 << 64)

    @property
    def other(self) -> Fraction:
        """Probability of reporting any one of the other items."""
        return (1 - self.own) / (self.domain_size - 1)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        items = self._choice.keep_or_replace(self._items(values, rng), rng)
        return items.astype(self.report_dtype)

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return the items that a value may stand for, with all reports by rank."""
        for chance, item in self._roundings(value):
            yield chance, self._choice.only_likely(item).astype(self.report_dtype)

    def _supports(self, reports: Reports, coins: Words) -> NDArray[np.bool_]:
        return np.asarray(reports[:, None] == np.arange(self.domain_size))

    def _support(self, reports: Reports, coins: Words) -> Integers:
        return np.bincount(reports.astype(np.int64), minlength=self.domain_size)
