"""Mechanisms with real-valued noise, which clients refuse unless their operator allows them."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...randomness import Words
from ...validation import Floats
from ..base import OfVector, Randomizer, Reports

_STEP = 2.0**-26  # step of the grid, relative to the power of two above the largest number


def on_grid(numbers: Floats, largest: float) -> Floats:
    """Return numbers rounded to multiples of a power of two that is far below the noise.

    ``largest`` is the largest absolute value of a noisy number. Floats near zero are so fine that
    a result can reveal the number to which the noise was added: one result in 1e8 or so would be
    impossible for another value. On the grid, many floats of noise give the same result. The grid
    adds less than 1e-8 of the variance.
    """
    step = math.ldexp(_STEP, math.frexp(largest)[1])
    return np.asarray(np.rint(numbers / step) * step)


class RealValued(Randomizer):
    """Base class of mechanisms that report real numbers on a grid, rounded to four bytes.

    The guarantee is that of the mechanism in real arithmetic; rounding is post-processing.
    """

    exact: ClassVar[bool] = False
    report_dtype: ClassVar[np.dtype[np.generic]] = np.dtype(np.float32)

    #: Smallest radius; for smaller ones the step of the grid would vanish.
    smallest_radius: ClassVar[float] = 1e-300

    radius: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius < self.smallest_radius:
            raise ValueError(f"Expected radius >= {self.smallest_radius:g}, got {self.radius}.")

    def _on_grid(self, numbers: Floats) -> Reports:
        """Return reports: the numbers, rounded by :func:`on_grid` and clipped to the bound."""
        return np.clip(on_grid(numbers, self.bound), -self.bound, self.bound).astype(np.float32)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return reports.astype(np.float64).reshape(len(reports), self.size)

    def contains(self, reports: Reports) -> bool:
        """Return True if every number is within the bound (to float32 rounding)."""
        return bool((np.abs(reports.astype(np.float64)) <= self.bound * (1 + 1e-6)).all())


@dataclass(frozen=True)
class RealVector(RealValued, OfVector):
    """Base class of mechanisms for vectors in a Euclidean ball, whose reports are real vectors.

    A report is a noisy vector of the same dimension.
    """

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report, which is a vector."""
        return (self.dim,)
