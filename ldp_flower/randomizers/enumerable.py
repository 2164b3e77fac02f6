"""The exact law of a mechanism's reports, for the audit: from the thresholds that are used."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from ..randomness import Words
from ..validation import Floats
from .base import Randomizer, Reports
from .two_level import TwoLevel

_MAX_TERMS = 1 << 17  # a few seconds and a hundred megabytes

#: Probabilities of reports (their bytes), without those that are impossible.
Law = Mapping[bytes, Fraction]


class TooManyOutputs(ValueError):
    """An enumeration that would take too long."""


def check_terms(terms: int) -> None:
    """Raise TooManyOutputs if an enumeration has more terms than anybody should wait for."""
    if terms > _MAX_TERMS:
        raise TooManyOutputs(f"Expected at most {_MAX_TERMS} outputs times roundings of a value.")


@runtime_checkable
class Enumerable(Protocol):
    """A mechanism whose privacy loss can be computed in rational arithmetic."""

    def worst_ratio(self) -> Fraction:
        """Return the largest ratio of any report's probabilities for any two values."""

    def law(self, value: Floats, coin: Words) -> Law:
        """Return the probability of every report for one finite value and one public coin.

        Raises TooManyOutputs if the enumeration would be too long.
        """


def report_type(num_outputs: int) -> np.dtype[np.generic]:
    """Return the smallest unsigned type that holds the numbers below ``num_outputs``."""
    return np.min_scalar_type(num_outputs - 1)


class OneChoice(Randomizer):
    """What mechanisms share whose report is one :class:`TwoLevel` choice from a ranking."""

    exact: ClassVar[bool] = True

    @property
    @abstractmethod
    def _choice(self) -> TwoLevel:
        """The choice between likely reports and unlikely ones."""

    @abstractmethod
    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return, for each rounding of one value, its chance and the reports, likely ones first."""

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """The smallest unsigned integer that holds the number of a report."""
        return report_type(self._choice.num_outputs)

    def contains(self, reports: Reports) -> bool:
        """Whether every report is the number of one."""
        return bool((reports.astype(np.int64) < self._choice.num_outputs).all())

    def worst_ratio(self) -> Fraction:
        """Return the ratio of the probabilities of a likely report and an unlikely one."""
        return self._choice.ratio

    def law(self, value: Floats, coin: Words) -> Law:
        """Return the probability of every report for one finite value and one public coin."""
        law: dict[bytes, Fraction] = defaultdict(Fraction)
        check_terms(self._choice.num_outputs)
        probabilities = self._choice.probabilities()
        for terms, (chance, reports) in enumerate(self.rankings(value, coin), 1):
            check_terms(terms * len(probabilities))
            for report, probability in zip(reports, probabilities, strict=True):
                law[report.tobytes()] += chance * probability
        return law
