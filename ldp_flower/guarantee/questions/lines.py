"""Questions about a model and a line along which it may be moved, and about numbers of rows."""

from dataclasses import dataclass
from typing import ClassVar

from .base import OneNumber, PerFeature, Prior, Question


@dataclass(frozen=True, eq=False)
class LineMoments(Question):
    """Moments of a user's residuals r and of its steps q along a direction, shape (users, 5).

    A row has the residual ``r = (y - <x, theta>) / residual_scale``. If ``theta`` moves along
    ``direction``, the row's prediction moves in proportion to
    ``q = <x, direction> / direction_scale``. The moments are the means of r, q, r q, q**2 - 1 and
    r**2 - 1 over the user's rows. They suffice for a least squares fit of r on q, with an
    intercept. Users without rows have zeros.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Coefficients of the model whose residuals are meant.
    direction : ndarray, shape (num_features,)
        Direction in which ``theta`` may be moved.
    residual_scale, direction_scale : float
        Usual sizes of ``y - <x, theta>`` and of ``<x, direction>``.
    """

    stem: ClassVar[str] = "line_moments"

    theta: PerFeature
    direction: PerFeature
    residual_scale: float
    direction_scale: float

    def width(self, num_features: int) -> int:
        """Return 5."""
        return 5


@dataclass(frozen=True, eq=False)
class LineSizes(Question):
    """Sizes of a user's residuals and of its steps along a direction, shape (users, 2).

    Both sizes are root mean squares over the user's rows: of ``y - <x, theta>`` and of
    ``<x, direction>``. The user's values are ``log(size / prior) / log_range``, clipped to
    [-1, 1]. Users without rows have zeros.

    Attributes
    ----------
    theta, direction : ndarray, shape (num_features,)
        As of :class:`LineMoments`.
    prior : float
        The size whose value is 0.
    log_range : float
        Largest absolute value of ``log(size / prior)`` that is not clipped.
    """

    stem: ClassVar[str] = "line_sizes"

    theta: PerFeature
    direction: PerFeature
    prior: Prior
    log_range: float

    def width(self, num_features: int) -> int:
        """Return 2."""
        return 2


@dataclass(frozen=True, eq=False)
class RowCount(OneNumber):
    """``log(rows / prior) / log_range`` of a user's number of rows; none counts as one.

    Attributes
    ----------
    prior : float
        The number whose value is 0.
    log_range : float
        The logarithm of the number over ``prior`` whose value is 1.
    """

    stem: ClassVar[str] = "row_count"

    prior: Prior
    log_range: float
