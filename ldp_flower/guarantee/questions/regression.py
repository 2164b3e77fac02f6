"""Questions of regression: gradients and curvatures of a loss, and users' own coefficients."""

from dataclasses import dataclass
from typing import ClassVar

from ...validation import Floats
from ...values.links import LINKS
from .base import (
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


@dataclass(frozen=True, eq=False)
class Gradient(Question):
    """The mean gradient of a loss over a user's rows, shape (users, wanted coordinates).

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Where the gradient is taken.
    centre : ndarray, shape (wanted coordinates,), optional
        What a mechanism for silos adds to every record's gradient.
    feature_bound, row_bound : float, optional
        Clips features to ``[-bound, bound]``; shortens rows to this length.
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
    link: str = "identity"

    @property
    def record_centre(self) -> Floats | float:
        """``centre``, or 0."""
        return 0.0 if self.centre is None else self.centre


@dataclass(frozen=True, eq=False)
class GradientNorm(OneNumber):
    """``log(norm / prior) / log_range`` of the mean gradient of the squared loss, one number.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Where the gradient is taken.
    prior : float
        The norm whose value is 0.
    log_range : float
        The logarithm of the norm over ``prior`` whose value is 1.
    """

    stem: ClassVar[str] = "gradient_norm"

    theta: PerFeature
    prior: Prior
    log_range: float


@dataclass(frozen=True, eq=False)
class Curvature(OneNumber):
    """The mean of ``min(<x, direction>**2, cap)`` over a user's rows, moved to [-1, 1].

    Attributes
    ----------
    direction : ndarray, shape (num_features,)
        Along which the squared loss is bent so much.
    cap : float
        Where squares are cut off.
    """

    stem: ClassVar[str] = "curvature"

    direction: PerFeature
    cap: float


@dataclass(frozen=True, eq=False)
class RootCurvature(OneNumber):
    """``log(size / prior) / log_range`` of the root mean square of ``<x, direction>``, one number.

    Attributes
    ----------
    direction : ndarray, shape (num_features,)
        The direction.
    prior, log_range : float
        As of :class:`GradientNorm`.
    """

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
    theta : ndarray, shape (num_features,)
        Coefficients whose predictions are taken off.
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
class RidgeStep(Question):
    """The direction of a user's own ridge step from ``theta``, shape (users, num_features).

    With A the user's k rows and ``e = clip((y - centre) / scale - A theta, -residual_bound,
    residual_bound)`` it is that of ``A' (A A' / k + ridge / of_rows I)^-1 e / k``: a vector of
    length 1, whatever the rows. A user without rows, or with no residual, has zeros.

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Where the step begins.
    ridge : float
        Penalty for a user of one row, in units of a row's mean square length.
    residual_bound : float
        Clips residuals.
    centre : float
        Target that counts as 0; of either sign.
    scale : float
        Distance from there that counts as 1.
    of_rows : float, optional
        How many rows the penalty is for; by default those of each user, k.
    """

    stem: ClassVar[str] = "ridge_step"

    theta: PerFeature
    ridge: float
    residual_bound: float
    centre: Signed
    scale: float
    of_rows: float | None = None


@dataclass(frozen=True, eq=False)
class ClassCoefficients(Question):
    """Weighted ridge coefficients of what ``theta`` leaves of a user's labels, -1 and 1.

    These stand for classes 0 and 1. What ``theta`` leaves is the label less its expectation
    ``tanh(<x, theta> / 2)`` under logistic regression, brought to mean square 1. Shape (users, k).

    Attributes
    ----------
    theta, weights, ridge, coordinates
        As of :class:`ResidualCoefficients`.
    """

    stem: ClassVar[str] = "class_coefficients"

    theta: PerFeature
    weights: PerCoordinate
    ridge: float
    coordinates: Coordinates | None = None

    @property
    def classes_asked(self) -> int:
        """Number of classes (2)."""
        return 2


@dataclass(frozen=True, eq=False)
class TargetScaleBin(OneNumber):
    """The bin of the root mean square of a user's targets; -1, no bin, if it is 0 or NaN.

    Bin b begins at ``smallest * 2**(b / per_octave)``; the first and the last one take what
    is beyond.

    Attributes
    ----------
    smallest : float
        Lower end of the first bin.
    per_octave : float
        Bins in which a size doubles.
    num_bins : int
        Number of bins.
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

    Attributes
    ----------
    theta : ndarray, shape (num_features,)
        Coefficients whose predictions are judged.
    centre : float
        The prediction that they are compared with.
    loss_weight, baseline_weight, offset : float
        Of either sign.
    """

    stem: ClassVar[str] = "squared_errors"

    theta: PerFeature
    centre: Signed
    loss_weight: Signed
    baseline_weight: Signed
    offset: Signed


@dataclass(frozen=True, eq=False)
class Teacher(Question):
    """What the sparse model that fits a user's own rows best differs by from ``centre``.

    The model minimises the mean loss of ``link`` over the user's rows, plus ``ridge / 2`` times
    its squared length; it is zero for a user without rows. Shape (users, num_features), or
    (users, num_answers).

    Attributes
    ----------
    centre : ndarray, shape (num_features,)
        The model that it is compared with.
    sparsity : int
        Number of the model's coefficients, at most.
    radius : float
        Their length, at most.
    ridge : float, optional
        Penalty, by default none.
    num_answers, synthetic_seed : int, optional
        Together: the difference's products with so many
        :func:`~ldp_flower.values.public_maps.synthetic_features` are wanted.
    link : {"identity", "logistic"} (default: "identity")
        Whose loss.
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
