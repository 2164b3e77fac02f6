"""Questions about one class: whether a row is of it, and what predicts that.

Users' targets are the classes' places, 0, 1, ..., as a schema makes them of categories. A row
with any other target is none of their rows.
"""

from dataclasses import dataclass
from typing import ClassVar

from .base import MessageError, OneNumber, PerFeature, Question, Signed

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

    A label is 1 for a row of the class and -1 for another, and e is the label minus
    ``tanh(<x, theta>)``, its expectation. With A the user's k rows it is the direction of ``A' (A
    A' / k + ridge I)^-1 e / k``: a vector of length 1, or, if weighted, of the root mean square
    of e, at most 1. A user without rows has zeros.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Where the step begins; half of what logistic regression calls coefficients.
    ridge : float
        Penalty, in units of a row's mean square length.
    place : float
        Of the class.
    num_classes : int
        How many there are.
    weighted : bool (default: False)
        Whether users whom ``theta`` serves well say less.
    """

    stem: ClassVar[str] = "class_step"

    theta: PerFeature
    ridge: float
    place: Signed
    num_classes: int
    weighted: bool = False


@dataclass(frozen=True, eq=False)
class ClassShare(ClassQuestion, OneNumber):
    """The class's share of a user's rows minus 1/2, one number; 0 without rows.

    Attributes
    ----------
    place : float
        Of the class.
    num_classes : int
        How many there are.
    """

    stem: ClassVar[str] = "class_share"

    place: Signed
    num_classes: int


@dataclass(frozen=True, eq=False)
class MeanScore(OneNumber):
    """The mean of ``<x, theta>`` over a user's rows, each clipped to [-1, 1], one number.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        What scores a row.
    """

    stem: ClassVar[str] = "mean_score"

    theta: PerFeature

    @property
    def about_targets(self) -> bool:
        """No."""
        return False


@dataclass(frozen=True, eq=False)
class Ranking(ClassQuestion, OneNumber):
    """How much more often a user's rows of a class score above 0 than its others.

    The mean over rows of 1 minus ``share`` for a row of the class, minus ``share`` for another,
    with its sign turned where ``<x, theta>`` is below 0. One number; 0 without rows.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        What scores a row.
    place : float
        Of the class.
    share : float
        The class's share of all rows, as far as it is known.
    num_classes : int
        How many there are.
    """

    stem: ClassVar[str] = "ranking"

    theta: PerFeature
    place: Signed
    share: float
    num_classes: int
