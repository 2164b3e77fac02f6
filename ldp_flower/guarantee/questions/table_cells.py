"""Questions about columns of a table: in which of its cells a user falls."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import AboutColumns, Coordinates, Marks, MessageError, OneNumber, Rows, Signed

MOST_CELLS = 1 << 16  # a message can ask for them


@dataclass(frozen=True, eq=False)
class TableCell(AboutColumns, OneNumber):
    """The cell of a table that a user falls in: categories, a level of a number, or both.

    The categories are those of a row drawn at random among those with entries in all columns.
    The number is the mean of the rows that have these categories, too, rounded to one of
    several levels from ``low`` to ``high``, all as far from the next: to one of the two around
    it, at random with the right mean. Cells are numbered row by row, levels last.

    A user without such rows has the number behind all cells or, if there is ``instead``, a cell
    drawn from that.

    Attributes
    ----------
    coordinates : ndarray of int64
        The columns one after the other: of categories all indicators or, if it is the
        target, the target, whose numbers are the categories; the number last.
    sizes : ndarray of float64, shape (columns of categories,)
        How many categories each has, integers.
    levels : int, optional
        How many levels the number has, if there is one.
    low, high : float, optional
        The first and the last level.
    instead : ndarray of float64, shape (cells,), optional
        Probabilities of cells.
    one_row : bool (default: False)
        Whether the number is that of the row that was drawn, instead of a mean.
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
        if not (sizes >= 1).all() or math.prod(sizes.tolist()) * (self.levels or 1) > MOST_CELLS:
            raise MessageError(f"Expected at most {MOST_CELLS} cells.")
        if len({value is None for value in (self.levels, self.low, self.high)}) > 1:
            raise MessageError("Expected levels, low and high together.")
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

        Raises
        ------
        MessageError
            If there are more coordinates, or fewer, or the target stands among indicators.
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
            raise MessageError("Expected no coordinates but those of the columns.")
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
