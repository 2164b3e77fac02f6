"""Questions about one class: whether a row is of it, and what predicts that.

Users' targets are the classes' places, 0, 1, ..., as a schema makes them of categories. A row
with any other target is none of their rows.
"""

from dataclasses import dataclass
from typing import ClassVar

from .base import (
    AboutFeatures,
    Coordinates,
    MessageError,
    OneNumber,
    PerCoordinate,
    PerFeature,
    Question,
    Signed,
)

_MAX_CLASSES = 1 << 16  # a message can ask for them


class ClassQuestion(Question):
    """Base class: targets are class indices 0, ..., num_classes - 1."""

    num_classes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes > _MAX_CLASSES:
            raise MessageError(f"Expected at most {_MAX_CLASSES} classes, got {self.num_classes}.")

    @property
    def classes_asked(self) -> int:
        """``num_classes``."""
        return self.num_classes


@dataclass(frozen=True, eq=False)
class ClassStep(ClassQuestion):
    """The direction of a user's own logistic step from ``theta``, shape (users, num_features).

    A label is 1 for a row of the class at ``place`` and -1 for another, and e is the label minus
    ``tanh(<x, theta>)``, its expectation: ``theta`` is half of what logistic regression calls
    coefficients. With A the user's k rows it is the direction of ``A' (A A' / k + ridge I)^-1 e /
    k``, with ``ridge`` in units of a row's mean square length: a vector of length 1, or, if
    ``weighted``, of the root mean square of e, at most 1, so that users whom ``theta`` serves well
    say less. A user without rows has zeros.
    """

    stem: ClassVar[str] = "class_step"

    theta: PerFeature
    ridge: float
    place: Signed
    num_classes: int
    weighted: bool = False


@dataclass(frozen=True, eq=False)
class ClassShare(ClassQuestion, OneNumber):
    """The share of the class at ``place`` in a user's rows, minus 1/2; 0 without rows."""

    stem: ClassVar[str] = "class_share"

    place: Signed
    num_classes: int


@dataclass(frozen=True, eq=False)
class MeanScore(AboutFeatures, OneNumber):
    """The mean of ``<x, theta>`` over a user's rows, each clipped to [-1, 1], one number."""

    stem: ClassVar[str] = "mean_score"

    theta: PerFeature


@dataclass(frozen=True, eq=False)
class Ranking(ClassQuestion, OneNumber):
    """How much more often a user's rows of a class score above 0 than its others.

    The mean over rows of 1 minus ``share`` for a row of the class at ``place``, minus ``share`` for
    another, with its sign turned where ``<x, theta>`` is below 0. ``share`` is the class's share of
    all rows, as far as it is known. One number; 0 without rows.
    """

    stem: ClassVar[str] = "ranking"

    theta: PerFeature
    place: Signed
    share: float
    num_classes: int


@dataclass(frozen=True, eq=False)
class ClassCoefficients(Question):
    """Weighted ridge coefficients of what ``theta`` leaves of a user's labels, -1 and 1.

    These stand for classes 0 and 1. What ``theta`` leaves is the label less its expectation
    ``tanh(<x, theta> / 2)`` under logistic regression, brought to mean square 1. Shape (users, k);
    arguments as of :class:`ResidualCoefficients`.
    """

    stem: ClassVar[str] = "class_coefficients"

    theta: PerFeature
    weights: PerCoordinate
    ridge: float
    coordinates: Coordinates | None = None

    @property
    def classes_asked(self) -> int:
        """2."""
        return 2
