"""Questions for noise at the node: values that summarise all of a user's rows.

A node adds the values up exactly, and adds noise once to the sum. So a value may have many
coordinates: a distribution over cells instead of one cell, or all moments of a column at once.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from .base import AboutColumns, AboutFeatures, Rows
from .columns import Cells, OneColumn
from .fields import Coordinates, Marks, MessageError, Signed, check_marks

#: Weight of a number's square in :class:`Moments`; the number itself has weight 1.
SQUARE = 0.25
#: Weight of the count of users in :class:`Moments`; the number itself has weight 1. If the mean is
#: a quarter of the range from the middle, .5 gives the least error; .4 and .6 give 1.02 times it.
PRESENCE = 0.5


@dataclass(frozen=True, eq=False)
class CellShares(Cells):
    """The share of the user's rows in each cell of a table, shape (users, cells).

    The table is of categories, of numbers that are cut at ``edges``, or of both. Rows without an
    entry in one of the columns do not count. A user without any other rows has zeros.
    """

    stem: ClassVar[str] = "cell_shares"
    rows: ClassVar[Rows] = Rows.PRESENT

    edges: Marks | None = None

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of cells."""
        return self.num_cells


@dataclass(frozen=True, eq=False)
class BinShares(OneColumn):
    """The share of the user's entries in each bin of a column, shape (users, edges + 1).

    An entry that lies on an edge is in the bin below it. Rows without an entry do not count. A user
    without any entries has zeros.

    Attributes
    ----------
    edges : ndarray
        Increasing edges between the bins, in the column's standardised units.
    """

    stem: ClassVar[str] = "bin_shares"
    rows: ClassVar[Rows] = Rows.PRESENT

    edges: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_marks("edges", self.edges, increasing=True)

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of bins."""
        return len(self.edges) + 1


@dataclass(frozen=True, eq=False)
class GrainShares(OneColumn):
    """Shares of the user's entries by the coarsest step of which each entry is a multiple.

    There is one share for each step of :class:`Grain`, from coarse to fine. The next coordinate is
    the share of the entries that are not multiples of any step. The last coordinate is 1 for a user
    without entries, and otherwise 0. Shape (users, num_steps + 2).
    """

    stem: ClassVar[str] = "grain_shares"
    rows: ClassVar[Rows] = Rows.PRESENT

    origin: Signed
    step: float
    num_steps: Annotated[int, 32]

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of shares."""
        return self.num_steps + 2


@dataclass(frozen=True, eq=False)
class ItemShares(AboutFeatures):
    """The share of each item in the user's rows, shape (users, ``domain_size``).

    Items are the integers from 0 to ``domain_size - 1`` in the first column of the features. Rows
    with an invalid item (NaN, fractions, numbers out of range) do not count. A user without any
    other rows has zeros.
    """

    stem: ClassVar[str] = "item_shares"

    domain_size: int

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of items."""
        return self.domain_size


@dataclass(frozen=True, eq=False)
class Moments(Cells):
    """Moments of a user's number in each cell of a table of categories, shape (users, 3 cells).

    Let s be the share of the user's rows in a cell, and u the mean of the number over these rows,
    scaled from [``low``, ``high``] to [0, 1] and clipped. A cell has three moments:
    ``s (u - 1/2)``, ``s (u**2 - 1/2) / 4``, and s times :data:`PRESENCE`. Without categories, the
    third is ``s - 1/2`` times :data:`PRESENCE`. Rows without an entry in one of the columns do not
    count. The number's column is the last of ``coordinates``. The length of a value is at most
    :attr:`radius`.
    """

    stem: ClassVar[str] = "moments"
    rows: ClassVar[Rows] = Rows.PRESENT

    low: Signed
    high: Signed

    levels: ClassVar[int] = 1  # makes Cells expect one column of numbers after the categories

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise MessageError("Expected low < high.")

    @property
    def radius(self) -> float:
        """Largest Euclidean length of a user's value."""
        last = PRESENCE / (1 if self.num_cells > 1 else 2)
        return math.hypot(0.5, SQUARE / 2, last)

    def width(self, num_features: int) -> int:
        """Return three times the number of cells."""
        return 3 * self.num_cells


@dataclass(frozen=True, eq=False)
class Numbers(AboutColumns):
    """Base class of questions about several columns of numbers.

    Each column is scaled from its bounds in ``lows`` and ``highs`` to [-1, 1], and clipped. The
    bounds are in the columns' standardised units. Rows without an entry in one of the columns do
    not count.
    """

    rows: ClassVar[Rows] = Rows.PRESENT

    coordinates: Coordinates
    lows: Marks
    highs: Marks

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.coordinates.shape
        if self.lows.shape != shape or self.highs.shape != shape or not len(self.coordinates):
            raise MessageError("Expected one column or more, and a low and a high number for each.")
        if not (self.lows < self.highs).all():
            raise MessageError("Expected lows < highs.")


#: Weights of the number of users and of the mean in :class:`Products`; products have weight 1.
BESIDE = 0.25, 0.5


@dataclass(frozen=True, eq=False)
class Products(Numbers):
    """First and second moments of several columns of numbers, about the middle of their limits.

    Let u be the k numbers of a row. The value has three parts. The first is 1, the second is the
    mean of u over the user's rows divided by the root of k; both are multiplied by :data:`BESIDE`.
    The third is the mean of ``u u'`` divided by k: the upper triangle, whose entries off the
    diagonal are multiplied by the root of 2. A user without rows has zeros. The length of a value
    is at most :attr:`radius`.
    """

    stem: ClassVar[str] = "products"

    radius: ClassVar[float] = math.hypot(1.0, *BESIDE)

    def width(self, num_features: int) -> int:
        """Return the number of moments, with the number of users."""
        columns = len(self.coordinates)
        return (columns + 1) * (columns + 2) // 2


@dataclass(frozen=True, eq=False)
class CorrelationSpread(Numbers):
    """Squares of the user's influences on correlations, one for each pair of columns.

    Let z be a row's numbers minus ``means``, divided by ``scales``. The row's influence on the
    correlation r of columns i and j is ``z_i z_j - r (z_i**2 + z_j**2) / 2``. Let m be the mean
    influence of the user's rows. The value is ``min((m / bound)**2, 1) - 1/2``. ``correlations``
    lists the correlations of the pairs, row by row of the matrix. A user without rows has zeros.
    """

    stem: ClassVar[str] = "correlation_spread"

    means: Marks
    scales: Marks
    correlations: Marks
    bound: float

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = len(self.coordinates)
        pairs = columns * (columns - 1) // 2
        if self.means.shape != (columns,) or self.scales.shape != (columns,):
            raise MessageError("Expected a mean and a scale for each column.")
        if not (self.scales > 0).all() or self.correlations.shape != (pairs,):
            raise MessageError("Expected positive scales, and a correlation for each pair.")

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of pairs."""
        return len(self.correlations)


#: Weight of the two numbers in :class:`MeanAndSquares` that tell if a mean row was shortened.
FLAG = 0.25


@dataclass(frozen=True, eq=False)
class MeanAndSquares(AboutFeatures):
    """A user's mean row and the squares of its numbers, shape (users, 2 num_features + 2).

    Let m be the mean row divided by ``bound``, shortened to length 1 if it is longer. The value is
    m, then ``m**2`` times :data:`SQUARE`, then two numbers. If m was shortened, the second of them
    is :data:`FLAG`, otherwise the first, and the other one is 0. A user without rows has zeros. The
    length of a value is at most :attr:`radius`.
    """

    stem: ClassVar[str] = "mean_and_squares"

    bound: float

    radius: ClassVar[float] = math.hypot(1.0, SQUARE, FLAG)

    def width(self, num_features: int) -> int:
        """Return twice the number of features, and two more."""
        return 2 * num_features + 2
