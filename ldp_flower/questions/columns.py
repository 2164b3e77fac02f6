"""Questions about columns of a table: shares, and the cell or the entry of one row of a user."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from .base import AboutColumns, OneNumber, Rows, check_together
from .fields import (
    MOST_MARKS,
    Coordinates,
    Marks,
    MessageError,
    PerValue,
    Signed,
    check_marks,
)

_MOST_CELLS = 1 << 16  # largest number that a message can request
_MOST_NUMBERS = 4  # columns of numbers in one table


@dataclass(frozen=True, eq=False)
class OneColumn(AboutColumns):
    """Base class of questions about one column of numbers."""

    coordinates: Coordinates

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates.shape != (1,):
            raise MessageError("Expected one column.")


@dataclass(frozen=True, eq=False)
class SharesBelow(OneColumn):
    """Twice the share of a user's entries that are at or below each threshold, minus 1.

    ``thresholds`` are in the column's standardised units. ``levels`` are the shares of all users'
    entries that the strategy wants to lie at or below the thresholds. Rows without an entry do not
    count. A user without any entry has twice ``levels``, minus 1. Such users do not change the mean
    if the other users' shares equal ``levels``.
    """

    stem: ClassVar[str] = "shares_below"
    rows: ClassVar[Rows] = Rows.PRESENT

    thresholds: PerValue
    levels: PerValue

    def __post_init__(self) -> None:
        super().__post_init__()
        check_marks("thresholds", self.thresholds)

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of thresholds."""
        return len(self.thresholds)


@dataclass(frozen=True, eq=False)
class Cell(OneColumn, OneNumber):
    """The cell that contains the entry of a row drawn at random.

    The cell's number is the number of ``edges`` below the entry, from 0 to k for k edges. ``edges``
    are in the column's standardised units. An entry on an edge belongs to the cell below it. A user
    without a row has k + 1.
    """

    stem: ClassVar[str] = "cell"
    rows: ClassVar[Rows] = Rows.DRAWN

    edges: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_marks("edges", self.edges, increasing=True)


@dataclass(frozen=True, eq=False)
class Grain(OneColumn, OneNumber):
    """The coarsest step of which the entry of a row drawn at random is a multiple.

    The value is the index of this step among ``step``, ``step / 2``, ``step / 10``, ``step / 20``
    and so on. It is ``num_steps`` if the entry is a multiple of none of these steps, and
    ``num_steps + 1`` for a user without a row. ``step`` and ``origin`` (the position of the number
    0) are in the column's standardised units.
    """

    stem: ClassVar[str] = "grain"
    rows: ClassVar[Rows] = Rows.DRAWN

    origin: Signed
    step: float
    num_steps: Annotated[int, 32]


@dataclass(frozen=True, eq=False)
class Cells(AboutColumns):
    """Base class of questions about a table: columns of categories and, last, columns of numbers.

    ``coordinates`` lists the columns one after the other. A column of categories is listed by all
    of its indicators or, if it is the target, by the target's index; its numbers are then the
    category indices. ``sizes`` holds the number of categories of each column, as integers. If the
    question has ``levels``, there is one column of numbers. If it has ``edges``, shape (numbers,
    edges), the numbers of each column are cut into cells at its edges, in standardised units. A
    number on an edge is in the cell below it.
    """

    coordinates: Coordinates
    sizes: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes, edges = self.sizes, self.cuts
        if sizes.ndim != 1 or sizes.dtype != np.float64 or (sizes != np.floor(sizes)).any():
            raise MessageError("Expected integers as sizes.")
        if edges.ndim != 2 or edges.dtype != np.float64 or (np.diff(edges) < 0).any():
            raise MessageError("Expected edges that do not decrease, a row for each column.")
        if len(edges) > _MOST_NUMBERS or edges.shape[1] > MOST_MARKS:
            raise MessageError(
                f"Expected at most {_MOST_NUMBERS} numbers with {MOST_MARKS} edges each."
            )
        if not (sizes >= 1).all() or self.num_cells > _MOST_CELLS:
            raise MessageError(f"Expected at most {_MOST_CELLS} cells.")

    @property
    def cuts(self) -> Marks:
        """Edges at which columns of numbers are cut into cells, one row per column.

        The shape is (0, 0) if the question has no edges.
        """
        edges: Marks | None = getattr(self, "edges", None)
        return np.empty((0, 0)) if edges is None else edges

    @property
    def num_cells(self) -> int:
        """Number of cells of the table: the product of the sizes of its columns."""
        levels = getattr(self, "levels", None) or 1
        return math.prod(map(int, [*self.sizes, levels, *(len(cut) + 1 for cut in self.cuts)]))

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Raise MessageError unless ``coordinates`` matches the columns; return the width."""
        width = super().check_arrays(num_features, users_have)
        self.blocks(num_features)
        return width

    def blocks(self, num_features: int) -> list[list[int]]:
        """Return the coordinates of each column: columns of categories first, then numbers.

        Raise MessageError if there are too many or too few coordinates, or if the target is among a
        column's indicators.
        """
        given, found, end = self.coordinates.tolist(), [], 0
        numbers = [1] * (bool(getattr(self, "levels", None)) + len(self.cuts))
        for size in [*self.sizes.astype(np.int64).tolist(), *numbers]:
            start, width = end, 1 if given[end : end + 1] == [num_features] else size
            end += width
            if end > len(given):
                raise MessageError("Expected the coordinates of all columns.")
            found.append(given[start:end])
            if width > 1 and num_features in found[-1]:
                raise MessageError(
                    "Expected the target as a column by itself, got it among indicators."
                )
        if end < len(given):
            raise MessageError(f"Expected {end} coordinates for the columns, got {len(given)}.")
        return found


@dataclass(frozen=True, eq=False)
class TableCell(Cells, OneNumber):
    """The user's cell in a table of categories, of levels of a number, or of both.

    The user draws a row at random among its rows with entries in all columns. The categories are
    those of this row. The number is the mean over the user's rows with the same categories, or,
    with ``one_row``, the number of the drawn row. The number is rounded to one of ``levels`` evenly
    spaced levels from ``low`` to ``high``: at random to one of the two neighbouring levels, so that
    the mean is unbiased. Cells are numbered row by row, with the levels as the last dimension.

    The value of a user without such rows is ``num_cells``, the index after the last cell. If
    ``instead`` is given, it is a cell drawn with these probabilities.

    ``coordinates`` lists the columns one after the other, the number last. A column of categories
    has all its indicators there. If the target is a column of categories, its numbers are the
    category indices. ``sizes`` holds the number of categories of each column, as integers.
    Instead of the number with levels, there may be numbers that are cut at ``edges``.
    """

    stem: ClassVar[str] = "table_cell"
    rows: ClassVar[Rows] = Rows.DRAWN

    levels: int | None = None
    low: Signed | None = None
    high: Signed | None = None
    instead: Marks | None = None
    one_row: bool = False
    edges: Marks | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_together(levels=self.levels, low=self.low, high=self.high)
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise MessageError("Expected low < high.")
        if self.levels is not None and self.edges is not None:
            raise MessageError("Expected levels of one number, or edges, not both.")
        if (self.levels == 1 or self.levels is None) and not len(self.sizes) + len(self.cuts):
            raise MessageError("Expected a table of more than one cell: categories, or 2 levels.")
        weights = self.instead
        if weights is not None and (
            weights.shape != (self.num_cells,)
            or weights.dtype != np.float64
            or (weights < 0).any()
            or not weights.sum() > 0
        ):
            raise MessageError(f"Expected {self.num_cells} probabilities in instead.")


@dataclass(frozen=True, eq=False)
class LevelRounding(TableCell):
    """Uncertainty of the rounding of the number in a :class:`TableCell`, minus 1/2.

    The value is ``4 f (1 - f) - 1 / 2`` if the number is a fraction f of the way from one level to
    the next. The uncertainty ``4 f (1 - f)`` is 1 in the middle between two levels. A user without
    rows has NaN. The arguments are those of :class:`TableCell`.
    """

    stem: ClassVar[str] = "level_rounding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is None or self.instead is not None:
            raise MessageError("Expected levels, and no probabilities in instead.")
