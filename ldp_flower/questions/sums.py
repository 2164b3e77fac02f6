"""Questions for noise at the node: values that summarise all of a user's rows.

A node adds the values up exactly, and adds noise once to the sum. So a value may have many
coordinates: a distribution over cells instead of one cell, or all moments of a column at once.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from .base import (
    AboutColumns,
    AboutFeatures,
    Coordinates,
    Marks,
    MessageError,
    PerFeature,
    Question,
    Rows,
    Signed,
    check_marks,
)
from .classes import ClassQuestion, NumClasses
from .columns import Cells, OneColumn

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
    """For each step, the share of the user's entries of which it is the coarsest divisor.

    Steps are those of :class:`Grain`. The next coordinate is the share of the entries that are not
    multiples of any step. The last coordinate is 1 for a user without entries, and otherwise 0.
    Shape (users, num_steps + 2).
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


@dataclass(frozen=True, eq=False)
class RidgeMove(Question):
    """A user's own ridge regression of a model's residuals, shape (users, coordinates).

    Let Z be the user's k rows minus ``means``, and e the residuals of the model
    ``offset + <z, theta>``. The value is ``Z' (Z Z' + t / k I)^-1 e``, where t is the sum of the
    rows' squared lengths. A step of 1.5 times the mean over users is stable for all rows. The value
    is zero without rows.

    Attributes
    ----------
    scales : ndarray, optional
        Numbers by which the columns of Z are divided, by default 1.
    offset : float, optional
        Prediction for a row whose features equal ``means``, by default 0.
    coordinates : ndarray, optional
        The features to which Z is restricted, by default all.
    """

    stem: ClassVar[str] = "ridge_move"
    links: ClassVar[tuple[str, ...]] = ("identity", "logistic")

    theta: PerFeature
    means: PerFeature
    scales: PerFeature | None = None
    offset: Signed | None = None
    coordinates: Coordinates | None = None
    link: str = "identity"


@dataclass(frozen=True, eq=False)
class ClassMoves(ClassQuestion):
    """A user's own ridge regressions for all classes, shape (users, classes x num_features).

    The regression for a class is that of :class:`RidgeMove` with the logistic link, for rows of
    this class against all other rows. ``thetas`` holds the models of all classes, one after the
    other, and the value holds the coefficients in the same order.
    """

    stem: ClassVar[str] = "class_moves"

    thetas: Marks
    means: PerFeature
    num_classes: NumClasses

    def width(self, num_features: int) -> int:
        """Return the number of coefficients; raise MessageError if ``thetas`` has another size."""
        if len(self.thetas) != self.num_classes * num_features:
            raise MessageError(
                f"Expected thetas of {self.num_classes} classes with {num_features} features, got "
                f"{len(self.thetas)} numbers."
            )
        return len(self.thetas)


#: Weight in :class:`ErrorPair` of the errors that are clipped at half the bounds.
HALF = 0.5


@dataclass(frozen=True, eq=False)
class ErrorPair(Question):
    """The squared errors of a model and of a constant, shape (users, 4).

    A model predicts ``offset + <x, theta>``, and the constant predicts ``centre``. The errors of
    the model are clipped at ``bound``, divided by it and squared. The first number is the mean of
    these squares over the user's rows, minus 1/2. The second number is the same for the errors of
    the constant, with ``centre_bound``. The other two are the same with half the bounds, times
    :data:`HALF`. A user without rows has zeros. The length of a value is at most :attr:`radius`.
    """

    stem: ClassVar[str] = "error_pair"
    fixed_width: ClassVar[int] = 4

    theta: PerFeature
    offset: Signed
    centre: Signed
    bound: float
    centre_bound: float

    radius: ClassVar[float] = math.sqrt(0.5) * math.hypot(1.0, HALF)


@dataclass(frozen=True, eq=False)
class LossMoments(Question):
    """The losses of a model and of a constant, and their second moments, shape (users, 5).

    A model predicts ``<x, theta>``, and the constant predicts ``centre``. Let a and b be the means
    of their squared errors over the user's rows, divided by ``bound`` and clipped at 1; both are 0
    without rows. The value is ``a - 1/2``, ``b - 1/2``, and then ``a**2 - 1/2``, ``a b - 1/2`` and
    ``b**2 - 1/2``, each times :data:`SQUARE`. Its length is at most :attr:`radius`.
    """

    stem: ClassVar[str] = "loss_moments"
    fixed_width: ClassVar[int] = 5

    theta: PerFeature
    centre: Signed
    bound: float

    #: Largest length of a value.
    radius: ClassVar[float] = math.sqrt(2 * 0.5**2 + 3 * (SQUARE / 2) ** 2)


#: Weights of the scores, of the matrices and of the scores' squares in :class:`NormalEquations`.
EQUATIONS = (0.75, 0.6, 0.28)


@dataclass(frozen=True, eq=False)
class NormalEquations(Question):
    """A user's part in the normal equations of a linear model, and in their variance.

    Let z be the chosen features of a row, minus ``means`` and divided by ``scales``, followed by a
    constant of 1. Let w be ``row_bound / |z|**2``, at most 1, and let e be the residual of
    ``offset + <x, theta>``. The value has three parts: the mean g over the user's rows of
    ``w e z``, shortened to the length ``score_bound`` if it is longer; the mean of ``w z z'``; and
    ``g g'``. Each part is divided by its largest length and multiplied by its weight in
    :data:`EQUATIONS`. Matrices are given by their upper triangles, row by row. The entries off the
    diagonal are multiplied by the root of 2, so that lengths stay the same. A user without rows has
    zeros. The length of a value is at most :attr:`radius`.
    """

    stem: ClassVar[str] = "normal_equations"

    theta: PerFeature
    offset: Signed
    means: PerFeature
    scales: PerFeature
    coordinates: Coordinates
    row_bound: float
    score_bound: float

    radius: ClassVar[float] = math.hypot(*EQUATIONS)

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: of a vector and two symmetric matrices."""
        columns = len(self.coordinates) + 1
        return columns * (columns + 2)
