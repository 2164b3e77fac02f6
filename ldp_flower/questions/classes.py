"""Questions about one class of a classification.

Targets are class indices 0, 1, ..., which a schema makes from categories. Rows with any other
target are left out.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .base import AboutFeatures, OneNumber, Question
from .fields import Coordinates, PerCoordinate, PerFeature, Signed

NumClasses = Annotated[int, 1 << 16]


class ClassQuestion(Question):
    """Base class of questions whose targets are class indices 0, ..., num_classes - 1."""

    num_classes: NumClasses

    @property
    def classes_asked(self) -> int:
        """Number of classes, which is ``num_classes``."""
        return self.num_classes


@dataclass(frozen=True, eq=False)
class ClassStep(ClassQuestion):
    """The direction of a user's logistic step from ``theta``, shape (users, num_features).

    A label is 1 for a row of the class with index ``place``, and -1 for another row. The residual e
    is the label minus its expectation ``tanh(<x, theta>)``. So ``theta`` is half the usual
    coefficients of logistic regression. Let A be the user's k rows. The value is the direction of
    ``A' (A A' / k + ridge I)^-1 e / k``, with ``ridge`` in units of a row's mean square length. Its
    length is 1. If ``weighted``, its length is the root mean square of e, at most 1, so that users
    whom ``theta`` fits well have less weight. A user without rows has zeros.
    """

    stem: ClassVar[str] = "class_step"

    theta: PerFeature
    ridge: float
    place: Signed
    num_classes: NumClasses
    weighted: bool = False


@dataclass(frozen=True, eq=False)
class ClassShare(ClassQuestion, OneNumber):
    """The share of the class with index ``place`` in a user's rows, minus 1/2; 0 without rows."""

    stem: ClassVar[str] = "class_share"

    place: Signed
    num_classes: NumClasses


@dataclass(frozen=True, eq=False)
class MeanScore(AboutFeatures, OneNumber):
    """The mean of ``<x, theta>`` over a user's rows, each clipped to [-1, 1], one number."""

    stem: ClassVar[str] = "mean_score"

    theta: PerFeature


@dataclass(frozen=True, eq=False)
class Ranking(ClassQuestion, OneNumber):
    """The ranking statistic (AUC) of one class against the others in a user's rows, one number.

    A row of the class with index ``place`` counts ``1 - share``, and another row ``-share``. This
    number is multiplied by the sign of ``<x, theta>``. The value is the mean over the user's rows,
    0 without rows. ``share`` is an estimate of the class's share of all rows.
    """

    stem: ClassVar[str] = "ranking"

    theta: PerFeature
    place: Signed
    share: float
    num_classes: NumClasses


@dataclass(frozen=True, eq=False)
class ClassCoefficients(Question):
    """Weighted ridge coefficients of the residuals of a user's labels under the model ``theta``.

    A label is -1 for class 0 and 1 for class 1. A residual is the label minus its expectation
    ``tanh(<x, theta> / 2)`` under logistic regression. The residuals are scaled to mean square 1.
    Shape (users, k). The arguments are as in :class:`~.regression.ResidualCoefficients`.
    """

    stem: ClassVar[str] = "class_coefficients"
    classes_asked: ClassVar[int] = 2

    theta: PerFeature
    weights: PerCoordinate
    ridge: float
    coordinates: Coordinates | None = None
