"""Questions of regression: a loss's gradients and curvatures, users' own coefficients, sizes.

Those about one class are the last: whether a row is of it, and what predicts that. Users' targets
are then the classes' places, 0, 1, ..., as a schema makes them of categories. A row with any other
target is none of their rows.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ..validation import Floats
from .base import (
    AboutFeatures,
    Coordinates,
    MessageError,
    OneNumber,
    PerCoordinate,
    PerFeature,
    PerValue,
    Prior,
    Question,
    Signed,
    together,
)
from .links import LINKS
from .sizes import Octave


@dataclass(frozen=True, eq=False)
class Gradient(Question):
    """A loss's mean gradient at ``theta`` over a user's rows, shape (users, wanted coordinates).

    Attributes
    ----------
    centre : ndarray, shape (wanted coordinates,), optional
        What a mechanism for silos adds to every record's gradient.
    feature_centre : ndarray, shape (num_features,), optional
        What is taken off each row in the gradient. The scores are of the rows as they are.
    offset : float, optional
        What is added to ``<x, theta>``.
    constant : float, optional
        There is a last coordinate, of a feature that is this number in all rows.
    feature_bound, row_bound : float, optional
        Clips features in the gradient to ``[-bound, bound]``; shortens rows to this length, and
        their scores alike. Scores are of the rows as they are: where a model holds its gradient is
        zero then, too, whatever is clipped.
    residual_bound : float, optional
        Clips the score, which is ``<x, theta> - y`` for the squared loss.
    link : str (default: "identity")
        Whose loss.
    """

    stem: ClassVar[str] = "gradient"
    links: ClassVar[tuple[str, ...]] = tuple(LINKS)

    theta: PerFeature
    coordinates: Coordinates | None = None
    centre: PerValue | None = None
    feature_bound: float | None = None
    row_bound: float | None = None
    residual_bound: float | None = None
    feature_centre: PerFeature | None = None
    offset: Signed | None = None
    constant: float | None = None
    link: str = "identity"

    def width(self, num_features: int) -> int:
        """Return the number of wanted coordinates, one more with a constant."""
        return self.num_wanted(num_features) + (self.constant is not None)

    @property
    def record_centre(self) -> Floats | float:
        """``centre``, or 0."""
        return 0.0 if self.centre is None else self.centre


@dataclass(frozen=True, eq=False)
class Curvature(OneNumber):
    """The mean of ``min(<x, direction>**2, cap)`` over a user's rows, moved to [-1, 1]."""

    stem: ClassVar[str] = "curvature"

    direction: PerFeature
    cap: float


@dataclass(frozen=True, eq=False)
class RootCurvature(OneNumber):
    """``log(size / prior) / log_range`` of the root mean square of ``<x, direction>``."""

    stem: ClassVar[str] = "root_curvature"

    direction: PerFeature
    prior: Prior
    log_range: float


@dataclass(frozen=True, eq=False)
class ResidualCoefficients(Question):
    """Weighted ridge coefficients of what ``theta`` leaves of a user's targets.

    Targets are in units of the user's own root mean square, and so is ``theta``; the
    residual is then brought to mean square 1 itself. Shape (users, k), or (users, k + 1) with
    a scale. Users whose targets are all zero have zeros.

    Attributes
    ----------
    weights : ndarray, shape (k,)
        What the coefficients are multiplied by.
    ridge : float
        Penalty, in units of a feature's mean square.
    coordinates : ndarray of int64, shape (k,), optional
        The features that the residual is regressed on, by default all.
    scale, scale_weight : float, optional
        Together: there is a last column, ``scale_weight`` times the logarithm of the
        targets' root mean square over ``scale``.
    """

    stem: ClassVar[str] = "residual_coefficients"

    theta: PerFeature
    weights: PerCoordinate
    ridge: float
    coordinates: Coordinates | None = None
    scale: float | None = None
    scale_weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        together(scale=self.scale, scale_weight=self.scale_weight)

    def width(self, num_features: int) -> int:
        """Return k, one more if the scale is asked for."""
        return self.num_wanted(num_features) + (self.scale is not None)


@dataclass(frozen=True, eq=False)
class LocalCoefficients(Question):
    """A user's own ridge coefficients of what a model leaves, shape (users, coordinates + 1).

    Of the residuals ``y - offset - <x, theta>``, on the wanted features and, last, on a feature
    that is ``constant`` in all rows.

    Attributes
    ----------
    theta, offset
        The model.
    ridge : float
        Penalty, in units of the wanted features' and the constant's mean square in the user's own
        rows.
    """

    stem: ClassVar[str] = "local_coefficients"

    theta: PerFeature
    offset: Signed
    ridge: float
    constant: float
    coordinates: Coordinates | None = None

    def width(self, num_features: int) -> int:
        """Return one more than there are wanted features."""
        return self.num_wanted(num_features) + 1


@dataclass(frozen=True, eq=False)
class RidgeShift(Question):
    """A user's own ridge step from ``theta``, shape (users, num_features).

    With A the user's k rows and ``e = clip((y - centre) / scale - A theta, -residual_bound,
    residual_bound)`` it is ``A' (A A' / k + ridge / of_rows I)^-1 e / k``. A user without rows, or
    with no residual, has zeros.

    Attributes
    ----------
    ridge : float
        Penalty for a user of one row, in units of a row's mean square length.
    of_rows : float, optional
        How many rows the penalty is for; by default those of each user, k.
    """

    stem: ClassVar[str] = "ridge_shift"

    theta: PerFeature
    ridge: float
    residual_bound: float
    centre: Signed
    scale: float
    of_rows: float | None = None


@dataclass(frozen=True, eq=False)
class RidgeStep(RidgeShift):
    """The direction of a :class:`RidgeShift`: a vector of length 1, whatever the rows."""

    stem: ClassVar[str] = "ridge_step"


@dataclass(frozen=True, eq=False)
class RidgeShiftOctave(Octave, RidgeShift):
    """The octave of a :class:`RidgeShift`'s length."""

    stem: ClassVar[str] = "ridge_shift_octave"


@dataclass(frozen=True, eq=False)
class TargetScaleBin(OneNumber):
    """The bin of the root mean square of a user's targets; -1, no bin, if it is 0 or NaN.

    Bin b of ``num_bins`` begins at ``smallest * 2**(b / per_octave)``; the first and the last one
    take what is beyond.
    """

    stem: ClassVar[str] = "target_scale"

    smallest: float
    per_octave: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class SquaredErrors(OneNumber):
    """A weighted sum of two mean squares over a user's rows, one number.

    ``loss_weight`` times the mean of ``(y - <x, theta>)**2`` plus ``baseline_weight`` times the
    mean of ``(y - centre)**2`` minus ``offset``. Without rows both means are zero, which leaves
    their ratio over all users as it is.
    """

    stem: ClassVar[str] = "squared_errors"

    theta: PerFeature
    centre: Signed
    loss_weight: Signed
    baseline_weight: Signed
    offset: Signed


@dataclass(frozen=True, eq=False)
class Teacher(Question):
    """The sparse model that fits a user's own rows best, minus ``centre``.

    The model has at most ``sparsity`` coefficients, of at most the length ``radius``. It minimises
    the mean loss of ``link`` over the user's rows, plus ``ridge / 2`` times its squared length; it
    is zero for a user without rows. Shape (users, num_features). With ``num_answers`` and
    ``synthetic_seed`` the difference's products with so many
    :func:`~ldp_flower.questions.public_maps.synthetic_features` are wanted instead, shape (users,
    num_answers).
    """

    stem: ClassVar[str] = "teacher"
    links: ClassVar[tuple[str, ...]] = ("identity", "logistic")

    centre: PerFeature
    sparsity: int
    radius: float
    ridge: float | None = None
    num_answers: int | None = None
    synthetic_seed: int | None = None
    link: str = "identity"

    def __post_init__(self) -> None:
        super().__post_init__()
        together(num_answers=self.num_answers, synthetic_seed=self.synthetic_seed)

    def width(self, num_features: int) -> int:
        """Return the number of answers if they are asked for, otherwise of features."""
        if self.num_answers is None:
            return num_features
        if self.num_answers > num_features:
            raise MessageError("Expected at most as many answers as features.")
        return self.num_answers


@dataclass(frozen=True, eq=False)
class RowCount(OneNumber):
    """``log(rows / prior) / log_range`` of a user's number of rows; none counts as one."""

    stem: ClassVar[str] = "row_count"

    prior: Prior
    log_range: float


NumClasses = Annotated[int, 1 << 16]


class ClassQuestion(Question):
    """Base class: targets are class indices 0, ..., num_classes - 1."""

    num_classes: NumClasses

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
    num_classes: NumClasses
    weighted: bool = False


@dataclass(frozen=True, eq=False)
class ClassShare(ClassQuestion, OneNumber):
    """The share of the class at ``place`` in a user's rows, minus 1/2; 0 without rows."""

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
    """The ranking statistic (AUC) of a user's rows: of a class against its others.

    The mean over rows of 1 minus ``share`` for a row of the class at ``place``, minus ``share`` for
    another, with its sign turned where ``<x, theta>`` is below 0. ``share`` is the class's share of
    all rows, as far as it is known. One number; 0 without rows.
    """

    stem: ClassVar[str] = "ranking"

    theta: PerFeature
    place: Signed
    share: float
    num_classes: NumClasses


@dataclass(frozen=True, eq=False)
class ClassCoefficients(Question):
    """Weighted ridge coefficients of what ``theta`` leaves of a user's labels, -1 and 1.

    These stand for classes 0 and 1. What ``theta`` leaves is the label less its expectation
    ``tanh(<x, theta> / 2)`` under logistic regression, brought to mean square 1. Shape (users, k);
    arguments as of :class:`ResidualCoefficients`.
    """

    stem: ClassVar[str] = "class_coefficients"
    classes_asked: ClassVar[int] = 2

    theta: PerFeature
    weights: PerCoordinate
    ridge: float
    coordinates: Coordinates | None = None
