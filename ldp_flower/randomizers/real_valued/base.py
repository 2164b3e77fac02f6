"""What mechanisms have in common whose reports are real numbers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...randomness import Words
from ..base import Floats, Randomizer, Reports
from ..domains import OfVector


class RealValued(Randomizer):
    """Base class: a report is made of real numbers, rounded to four bytes.

    The guarantee is that of the mechanism in real arithmetic; rounding is post-processing.
    """

    exact: ClassVar[bool] = False

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """Four-byte floats."""
        return np.dtype(np.float32)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return reports.astype(np.float64).reshape(len(reports), self.size)

    def contains(self, reports: Reports) -> bool:
        """Whether every number is within the bound (to float32 rounding)."""
        return bool((np.abs(reports.astype(np.float64)) <= self.bound * (1 + 1e-6)).all())


@dataclass(frozen=True)
class RealVector(RealValued, OfVector):
    """Base class: a vector in a ball is reported as a vector."""

    @property
    def report_shape(self) -> tuple[int, ...]:
        """The report is a vector."""
        return (self.dim,)
