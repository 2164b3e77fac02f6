"""Questions about columns of a table: what a row of the user's has there."""

from dataclasses import dataclass
from typing import ClassVar

from .base import AboutColumns, Coordinates, MessageError, OneNumber, Rows

MOST_CATEGORIES = 1 << 16  # a message can ask for them


@dataclass(frozen=True, eq=False)
class Category(AboutColumns, OneNumber):
    """The category that a row drawn at random has in a column.

    A number from 0 to ``num_categories - 1``; without a row it is ``num_categories``.

    Attributes
    ----------
    coordinates : ndarray of int64
        The column: its indicators, one for each category, or the target, whose numbers
        are the categories.
    num_categories : int
        How many there are.
    """

    stem: ClassVar[str] = "category"
    rows: ClassVar[Rows] = Rows.DRAWN

    coordinates: Coordinates
    num_categories: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_categories > MOST_CATEGORIES:
            raise MessageError(f"Expected at most {MOST_CATEGORIES} categories.")
