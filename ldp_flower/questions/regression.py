"""Questions for regression: gradients and curvatures of a loss, local coefficients, sizes."""

from dataclasses import dataclass
from typing import ClassVar

from ..validation import Floats
from .base import OneNumber, Question, check_together
from .fields import (
    Coordinates,
    MessageError,
    PerCoordinate,
    PerFeature,
    PerValue,
    Prior,
    Signed,
)
from .links import LINKS
from .sizes import Octave


@dataclass(frozen=True, eq=False)
class Gradient(Question):
    """The mean gradient of a loss over a user's rows, shape (users, wanted coordinates).

    A record's gradient is its score, the derivative of the loss in ``<x, theta>``, times its row.

    Attributes
    ----------
    centre : ndarray, shape (wanted coordinates,), optional
        Centre that a mechanism for silos adds to every record's gradient.
    feature_centre : ndarray, shape (num_features,), optional
        Centre that is subtracted from each row in the gradient, but not in the scores.
    offset : float, optional
        Number that is added to ``<x, theta>``.
    constant : float, optional
        If given, there is a last coordinate: the gradient of a feature with this value in all rows.
    feature_bound, row_bound : float, optional
        ``feature_bound`` clips features in the gradient to ``[-bound, bound]``. ``row_bound``
        shortens rows to this length, and multiplies their scores by the same factors. Scores are
        computed from the unclipped rows, so that clipping keeps the mean gradient at the true model
        at zero.
    residual_bound : float, optional
        Bound to which the score is clipped; the score is ``<x, theta> - y`` for the squared loss.
    link : str (default: "identity")
        Link that defines the loss.
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
        """Return the number of wanted coordinates, plus one with a constant."""
        return self.num_wanted(num_features) + (self.constant is not None)

    @property
    def record_centre(self) -> Floats | float:
        """Centre that a mechanism for silos adds to every record's gradient: ``centre``, or 0."""
        return 0.0 if self.centre is None else self.centre


@dataclass(frozen=True, eq=False)
class Curvature(OneNumber):
    """The mean of ``min(<x, direction>**2, cap)`` over a user's rows, rescaled to [-1, 1]."""

    stem: ClassVar[str] = "curvature"

    direction: PerFeature
    cap: float


@dataclass(frozen=True, eq=False)
class RootCurvature(OneNumber):
    """``log(size / prior) / log_range`` for the root mean square ``size`` of ``<x, direction>``."""

    stem: ClassVar[str] = "root_curvature"

    direction: PerFeature
    prior: Prior
    log_range: float


@dataclass(frozen=True, eq=False)
class ResidualCoefficients(Question):
    """Weighted ridge coefficients of a user's residuals under the model ``theta``.

    The user's targets are divided by their root mean square, and ``theta`` predicts these scaled
    targets. The residuals are then scaled to mean square 1. Shape (users, k), or (users, k + 1)
    with a scale. Users whose targets are all zero have zeros.

    Attributes
    ----------
    weights : ndarray, shape (k,)
        Weights that multiply the coefficients.
    ridge : float
        Penalty, in units of a feature's mean square.
    coordinates : ndarray of int64, shape (k,), optional
        Features that the residual is regressed on, by default all.
    scale, scale_weight : float, optional
        If both are given, there is a last column: ``scale_weight`` times the logarithm of the
        targets' root mean square divided by ``scale``.
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
        check_together(scale=self.scale, scale_weight=self.scale_weight)

    def width(self, num_features: int) -> int:
        """Return k, plus one with a scale."""
        return self.num_wanted(num_features) + (self.scale is not None)


@dataclass(frozen=True, eq=False)
class LocalCoefficients(Question):
    """A user's ridge coefficients of a model's residuals, shape (users, coordinates + 1).

    The residuals ``y - offset - <x, theta>`` are regressed on the wanted features and, last, on a
    feature that is ``constant`` in all rows.

    Attributes
    ----------
    theta, offset
        The model.
    ridge : float
        Penalty, in units of the mean square of the wanted features and the constant in the user's
        rows.
    """

    stem: ClassVar[str] = "local_coefficients"

    theta: PerFeature
    offset: Signed
    ridge: float
    constant: float
    coordinates: Coordinates | None = None

    def width(self, num_features: int) -> int:
        """Return the number of wanted features plus one, for the constant."""
        return self.num_wanted(num_features) + 1


@dataclass(frozen=True, eq=False)
class RidgeShift(Question):
    """A user's ridge step from ``theta``, shape (users, num_features).

    Let A be the user's k rows, and ``e = clip((y - centre) / scale - A theta, -residual_bound,
    residual_bound)``. The step is ``A' (A A' / k + ridge / of_rows I)^-1 e / k``. A user without
    rows, or with residuals of zero, has zeros.

    Attributes
    ----------
    ridge : float
        Penalty for a user with one row, in units of a row's mean square length.
    of_rows : float, optional
        Number of rows by which the penalty is divided; by default each user's number of rows, k.
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
    """The direction of a :class:`RidgeShift`: a vector of length 1; zero for a zero shift."""

    stem: ClassVar[str] = "ridge_step"


@dataclass(frozen=True, eq=False)
class RidgeShiftOctave(Octave, RidgeShift):
    """The octave (rounded binary logarithm) of a :class:`RidgeShift`'s length."""

    stem: ClassVar[str] = "ridge_shift_octave"


@dataclass(frozen=True, eq=False)
class TargetScaleBin(OneNumber):
    """The bin of the root mean square of a user's targets, or -1 if the root is 0 or NaN.

    Bin b of ``num_bins`` begins at ``smallest * 2**(b / per_octave)``. The first bin also holds all
    smaller values, and the last bin all larger values.
    """

    stem: ClassVar[str] = "target_scale"

    smallest: float
    per_octave: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class SquaredErrors(OneNumber):
    """A weighted sum of two mean squares over a user's rows, one number.

    The value is ``loss_weight`` times the mean of ``(y - <x, theta>)**2``, plus
    ``baseline_weight`` times the mean of ``(y - centre)**2``, minus ``offset``. For a user without
    rows both means are zero, so that the user does not change their ratio over all users.
    """

    stem: ClassVar[str] = "squared_errors"

    theta: PerFeature
    centre: Signed
    loss_weight: Signed
    baseline_weight: Signed
    offset: Signed


@dataclass(frozen=True, eq=False)
class Teacher(Question):
    """The sparse model that fits a user's rows best, minus ``centre``.

    The model has at most ``sparsity`` nonzero coefficients, and a length of at most ``radius``. It
    minimises the mean loss of ``link`` over the user's rows, plus ``ridge / 2`` times its squared
    length. It is zero for a user without rows. Shape (users, num_features). With ``num_answers``
    and ``synthetic_seed``, the value is instead the product of this difference with ``num_answers``
    rows of :func:`~ldp_flower.questions.public_maps.synthetic_features`, shape (users,
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
        check_together(num_answers=self.num_answers, synthetic_seed=self.synthetic_seed)

    def width(self, num_features: int) -> int:
        """Return ``num_answers`` if it is given, otherwise the number of features."""
        if self.num_answers is None:
            return num_features
        if self.num_answers > num_features:
            raise MessageError("Expected at most as many answers as features.")
        return self.num_answers


@dataclass(frozen=True, eq=False)
class RowCount(OneNumber):
    """``log(rows / prior) / log_range`` for a user's number of rows; 0 rows count as one."""

    stem: ClassVar[str] = "row_count"

    prior: Prior
    log_range: float
