"""What a protocol is expected to do with public numbers, or why that cannot be told."""

import math
from dataclasses import dataclass

from ..randomizers.base import Randomizer
from ..validation import check_integer, check_number


class NoPlan(ValueError):
    """Nobody can tell what error to expect; the text says why."""


class WouldRefuse(ValueError):
    """The protocol would refuse such a run; the text is the one of the refusal."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a protocol is expected to do.

    Parameters
    ----------
    error : str
        Name of the error, with its unit: ``"R2 lost"``, ``"standard error of the mean, in
        widths of the bounds"``. Less is better.
    value : float
        The error in the median run.
    low, high : float
        Between these lies the error of eight runs of ten.
    rounds : int
        How often the server asks; every user answers once, unless a note says otherwise.
    randomizers : tuple of Randomizer
        The mechanisms with one of which a user answers.
    assumes : tuple of str
        Whole sentences: what the numbers above were worked out for, beside the setting.
    notes : tuple of str
        Whole sentences: what else a careful colleague would say.
    """

    error: str
    value: float
    low: float
    high: float
    rounds: int
    randomizers: tuple[Randomizer, ...]
    assumes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("low", "value", "high"):
            check_number(name, getattr(self, name))
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise ValueError(
                f"Expected 0 <= low <= value <= high, got {self.low}, {self.value}, {self.high}."
            )
        check_integer("rounds", self.rounds, 1)
        if not self.randomizers:
            raise ValueError("Expected the mechanisms that users answer with, got none.")

    @property
    def report_bytes(self) -> int:
        """Bytes of the largest report."""
        return max(each.report_bytes for each in self.randomizers)
