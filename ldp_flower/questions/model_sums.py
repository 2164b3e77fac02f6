"""Questions for noise at the node about models: steps towards a fit, and errors.

As in :mod:`.sums`, a value summarises all rows of a user, and a node adds noise to the sum only.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from .base import Question
from .classes import ClassQuestion, NumClasses
from .fields import Coordinates, Marks, MessageError, PerFeature, Signed
from .sums import SQUARE


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
    ``b**2 - 1/2``, each times :data:`~.sums.SQUARE`. Its length is at most :attr:`radius`.
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
