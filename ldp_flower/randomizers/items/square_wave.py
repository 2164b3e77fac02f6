"""Square wave mechanisms for ordered cells, whose likely reports are near the user's cell."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...randomness import Words
from ...validation import Floats, Integers, check_integer
from ..base import Reports
from ..two_level import Ranks, RoundedChoice, TwoLevel
from .frequency import OfItem


@dataclass(frozen=True)
class DiscreteSquareWave(OfItem, RoundedChoice):
    """Randomiser for the number of a cell, if neighbouring cells stand for similar values.

    There are ``domain_size + window - 1`` reports. The likely reports of a cell are those from
    the cell's number to ``window - 1`` above it. For distribution functions, this is more
    informative than a frequency oracle, which treats neighbouring cells like any other two cells.

    Parameters
    ----------
    epsilon, domain_size
        See :class:`.OfItem`; 2 to 4,096 cells.

    Notes
    -----
    Source: Li, Wang, Lopuhaa-Zwakenberg, Li & Skoric (2020), for real numbers; here, likely
    reports are drawn exactly. The window has the width of that paper, at which a report is most
    informative about a cell without prior knowledge; :class:`NarrowSquareWave` has other widths.
    A debiased report is an unbiased estimate of the cell's number. The information about the
    distribution of cells lies in the counts of reports, so reports are not summed.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The report is drawn by :class:`TwoLevel` with ``window`` likely outputs, whatever the
       cell, so the probabilities of any report for any two cells differ by a factor of at
       most exp(epsilon), rounding included.
    3. An invalid cell number becomes a random one by separate random words, and
       mixing keeps the bound. The guarantee therefore holds for every input.
    """

    summable: ClassVar[bool] = False
    debiasable: ClassVar[bool] = True
    largest_domain: ClassVar[int] = 1 << 12

    @cached_property
    def window(self) -> int:
        """Number of reports that are likely for a cell; they are consecutive."""
        e = self.epsilon
        if e < 1e-3:
            share = 1.0  # the limit below
        else:
            share = (e - 1 + math.exp(-e)) / math.expm1(e - math.log1p(e)) / (1 + e)
        return min(max(1, round(share * self.domain_size)), self.domain_size)

    @property
    def num_reports(self) -> int:
        """Number of possible reports, which are the integers from 0."""
        return self._choice.num_outputs

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, self.window, self.domain_size - 1)

    def law_of_reports(self) -> Floats:
        """Return the probability of each report for each cell, shape (reports, cells)."""
        likely = self._choice.probability / self.window
        unlikely = (1 - self._choice.probability) / (self.domain_size - 1)
        above = np.arange(self.num_reports)[:, None] - np.arange(self.domain_size)
        return np.where((above >= 0) & (above < self.window), likely, unlikely)

    @cached_property
    def _line(self) -> tuple[float, float]:
        """Intercept and slope of the expected report, a linear function of the cell's number."""
        expected = np.arange(self.num_reports) @ self.law_of_reports()
        return float(expected[0]), float(expected[-1] - expected[0]) / (self.domain_size - 1)

    @property
    def variance(self) -> float:
        """Variance of a user's debiased cell number, at the cell where it is largest."""
        start, slope = self._line
        numbers = (np.arange(self.num_reports) - start) / slope
        law = self.law_of_reports()
        return float((numbers**2 @ law - (numbers @ law) ** 2).max())

    @property
    def bound(self) -> float:
        """Largest absolute value of a debiased report, which estimates a cell's number."""
        start, slope = self._line
        return max(start, self.num_reports - 1 - start) / slope

    def _ranked(self, rounded: Integers, ranks: Ranks, coins: Words) -> Reports:
        likely, index = ranks
        place = index.astype(np.int64)
        other = place + np.where(place >= rounded, self.window, 0)
        return np.where(likely, rounded + place, other).astype(self.report_dtype)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        start, slope = self._line
        return (reports.astype(np.float64)[:, None] - start) / slope


@dataclass(frozen=True)
class NarrowSquareWave(DiscreteSquareWave):
    """Square wave with a window that the caller chooses.

    The window of :class:`DiscreteSquareWave` is more than half of the cells at epsilon 1. Reports
    then hardly show features of the distribution that are narrower than the window, such as two
    humps. A narrower window shows such features, but less of the variation over all cells.

    Parameters
    ----------
    epsilon, domain_size
        See :class:`DiscreteSquareWave`.
    window : int
        Number of likely reports for a cell, 1 to ``domain_size``.

    Guarantee
    ---------
    The guarantee is that of :class:`DiscreteSquareWave`, which holds for any window:

    1. Protected: any two values of one user, at pure ``epsilon``.
    2. Every cell has ``window`` likely outputs of :class:`TwoLevel`, so the probabilities of any
       report for any two cells differ by a factor of at most exp(epsilon), rounding included.
    3. An invalid cell number becomes a random one by separate random words.
    """

    window: int = field()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("window", self.window, 1, self.domain_size)
