"""Questions about a model and a line along which it may be moved, and about numbers of rows."""

from dataclasses import dataclass
from typing import ClassVar

from .base import OneNumber, PerFeature, Prior, Question


@dataclass(frozen=True, eq=False)
class LineMoments(Question):
    """What a least squares fit of residuals on a line needs of a user, shape (users, 5).

    With ``r = (y - <x, theta>) / residual_scale`` and ``q = <x, direction> / direction_scale`` of
    a row: the means over the user's rows of r, q, r q, q**2 - 1 and r**2 - 1. Users without rows
    have zeros.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Coefficients whose residuals are meant.
    direction : ndarray, shape (num_features,)
        What they may be moved along.
    residual_scale, direction_scale : float
        Usual size of a residual, and of a step along the direction.
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
    """Sizes of a user's residuals and of a step along a line, shape (users, 2).

    ``log(size / prior) / log_range`` of the root mean square of ``y - <x, theta>``, and that of
    ``<x, direction>``. Users without rows have zeros.

    Attributes
    ----------
    theta, direction : ndarray, shape (num_features,)
        As of :class:`LineMoments`.
    prior : float
        The size whose value is 0.
    log_range : float
        The logarithm of the size over ``prior`` whose value is 1; others are clipped to
        [-1, 1].
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
