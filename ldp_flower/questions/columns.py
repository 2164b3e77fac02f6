"""Questions about columns of a table: what a row of the user's has there, and its cell."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

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
    together,
)

_MOST_MARKS, _MOST_CELLS = 1 << 12, 1 << 16  # a message can ask for them


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

    ``thresholds`` are in the column's standardised units; ``levels`` are the shares of everybody
    that are sought by them. Rows without an entry do not count. Without any other, the value is
    twice ``levels``, minus 1: where just that share of the others is below, who has no entry
    changes nothing.
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

    The number of ``edges``, in the column's standardised units, that are below the entry, from 0 to
    k; what lies on an edge is below it. k + 1 without a row.
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
    """The coarsest step of which the entry of a row drawn at random is a multiple.

    The place of the coarsest step that it is a multiple of, among ``step``, ``step / 2``,
    ``step / 10``, ``step / 20`` and so on; ``num_steps`` if of none of them, and
    ``num_steps + 1`` without a row. ``step`` and ``origin``, where 0 lies, are in the column's
    standardised units.
    """

    stem: ClassVar[str] = "grain"
    rows: ClassVar[Rows] = Rows.DRAWN

    coordinates: Coordinates
    origin: Signed
    step: float
    num_steps: Annotated[int, 32]


@dataclass(frozen=True, eq=False)
class TableCell(AboutColumns, OneNumber):
    """The cell of a table that a user falls in: categories, a level of a number, or both.

    The categories are those of a row drawn at random among those with entries in all columns. The
    number is the mean of the rows that have these categories, too, or with ``one_row`` that of the
    row that was drawn. It is rounded to one of ``levels`` levels from ``low`` to ``high``, all as
    far from the next: to one of the two around it, at random with the right mean. Cells are
    numbered row by row, levels last.

    A user without such rows has the number behind all cells or, if there is ``instead``, a cell
    drawn from these probabilities.

    ``coordinates`` are the columns one after the other: of categories all indicators or, if it is
    the target, the target, whose numbers are the categories; the number last. ``sizes`` are how
    many categories each has, integers.
    """

    stem: ClassVar[str] = "table_cell"
    rows: ClassVar[Rows] = Rows.DRAWN

    coordinates: Coordinates
    sizes: Marks
    levels: int | None = None
    low: Signed | None = None
    high: Signed | None = None
    instead: Marks | None = None
    one_row: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.sizes
        if sizes.ndim != 1 or sizes.dtype != np.float64 or (sizes != np.floor(sizes)).any():
            raise MessageError("Expected integers as sizes.")
        if not (sizes >= 1).all() or math.prod(sizes.tolist()) * (self.levels or 1) > _MOST_CELLS:
            raise MessageError(f"Expected at most {_MOST_CELLS} cells.")
        together(levels=self.levels, low=self.low, high=self.high)
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise MessageError("Expected low < high.")
        if (self.levels == 1 or self.levels is None) and not len(sizes):
            raise MessageError("Expected a column of categories, or 2 levels or more.")
        weights = self.instead
        if weights is not None and (
            weights.shape != (self.num_cells,)
            or weights.dtype != np.float64
            or (weights < 0).any()
            or not weights.sum() > 0
        ):
            raise MessageError(f"Expected {self.num_cells} probabilities in instead.")

    @property
    def num_cells(self) -> int:
        """How many cells there are."""
        return int(math.prod(self.sizes.tolist())) * (self.levels or 1)

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Raise MessageError unless there are as many coordinates as the columns take."""
        width = super().check_arrays(num_features, users_have)
        self.blocks(num_features)
        return width

    def blocks(self, num_features: int) -> list[list[int]]:
        """Return the coordinates of each column of categories and, last, of the number.

        MessageError if there are more coordinates, or fewer, or the target stands among indicators.
        """
        given, found, end = self.coordinates.tolist(), [], 0
        for size in [*self.sizes.astype(np.int64).tolist(), *([1] if self.levels else [])]:
            start, width = end, 1 if given[end : end + 1] == [num_features] else size
            end += width
            if end > len(given):
                raise MessageError("Expected the coordinates of all columns.")
            found.append(given[start:end])
            if width > 1 and num_features in found[-1]:
                raise MessageError("Expected the target as a column of its own.")
        if end < len(given):
            raise MessageError(f"Expected {end} coordinates for the columns, got {len(given)}.")
        return found


@dataclass(frozen=True, eq=False)
class LevelRounding(TableCell):
    """How uncertain the rounding of the number is: 1 in the middle between two levels.

    ``4 f (1 - f) - 1 / 2`` where the number is a fraction f of the way from one level to the
    next; NaN without rows. Else as :class:`TableCell`.
    """

    stem: ClassVar[str] = "level_rounding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is None or self.instead is not None:
            raise MessageError("Expected levels, and nothing instead.")
