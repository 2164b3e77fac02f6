"""Questions about columns of a table: what a row of the user's has there."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import (
    AboutColumns,
    Coordinates,
    Marks,
    MessageError,
    OneNumber,
    PerValue,
    Rows,
    Signed,
)

_MOST_MARKS, _MOST_STEPS = 1 << 12, 32  # a message can ask for them


class _OneColumn(AboutColumns):
    """Base class: about one column of numbers."""

    coordinates: Coordinates

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates.shape != (1,):
            raise MessageError("Expected one column.")

    def _check_marks(self, name: str, increasing: bool) -> None:
        marks: Marks = getattr(self, name)
        if marks.ndim != 1 or marks.dtype != np.float64 or not 1 <= len(marks) <= _MOST_MARKS:
            raise MessageError(f"Expected from 1 to {_MOST_MARKS} floats in {name}.")
        if increasing and (np.diff(marks) <= 0).any():
            raise MessageError(f"Expected {name} that increase.")


@dataclass(frozen=True, eq=False)
class SharesBelow(_OneColumn):
    """For each threshold, twice the share of the user's rows that are not above it, minus 1.

    Rows without an entry do not count. Without any other, the value is twice ``levels``,
    minus 1: where just that share of the others is below, who has no entry changes nothing.

    Attributes
    ----------
    coordinates : ndarray of int64, shape (1,)
        The column.
    thresholds : ndarray, shape (k,)
        In the column's standardised units.
    levels : ndarray, shape (k,)
        The share of everybody that is sought by each threshold.
    """

    stem: ClassVar[str] = "shares_below"
    rows: ClassVar[Rows] = Rows.PRESENT

    coordinates: Coordinates
    thresholds: PerValue
    levels: PerValue

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_marks("thresholds", increasing=False)

    def width(self, num_features: int) -> int:
        """Return the number of thresholds."""
        return len(self.thresholds)


@dataclass(frozen=True, eq=False)
class Cell(_OneColumn, OneNumber):
    """The cell that the entry of a row drawn at random lies in.

    The number of ``edges`` below it, from 0 to k; k + 1 without a row.

    Attributes
    ----------
    coordinates : ndarray of int64, shape (1,)
        The column.
    edges : ndarray, shape (k,)
        Where one cell ends and the next begins, in the column's standardised units; what lies
        on an edge is below it.
    """

    stem: ClassVar[str] = "cell"
    rows: ClassVar[Rows] = Rows.DRAWN

    coordinates: Coordinates
    edges: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_marks("edges", increasing=True)


@dataclass(frozen=True, eq=False)
class Grain(_OneColumn, OneNumber):
    """How round the entry of a row drawn at random is.

    The place of the coarsest step that it is a multiple of, among ``step``, ``step / 2``,
    ``step / 10``, ``step / 20`` and so on; ``num_steps`` if of none of them, and
    ``num_steps + 1`` without a row.

    Attributes
    ----------
    coordinates : ndarray of int64, shape (1,)
        The column.
    origin : float
        Where 0 lies in the column's standardised units.
    step : float
        The coarsest step, in these units.
    num_steps : int
        How many steps there are.
    """

    stem: ClassVar[str] = "grain"
    rows: ClassVar[Rows] = Rows.DRAWN

    coordinates: Coordinates
    origin: Signed
    step: float
    num_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps > _MOST_STEPS:
            raise MessageError(f"Expected at most {_MOST_STEPS} steps.")
