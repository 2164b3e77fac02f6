"""Questions about rows: means of features, which of them matter most, moments, items, labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from .base import (
    AboutFeatures,
    Coordinates,
    MessageError,
    OfColumns,
    OneNumber,
    PerCoordinate,
    PerFeature,
    Prior,
    Question,
    Rows,
    Signed,
)
from .moments import MAX_DEGREE, num_moments, tensor_powers


@dataclass(frozen=True, eq=False)
class Mean(AboutFeatures):
    """A user's mean row of features minus ``centre``, NaN without rows."""

    stem: ClassVar[str] = "mean"

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class WeightedMean(AboutFeatures):
    """``weights`` times a user's :class:`Mean`, one weight a wanted coordinate."""

    stem: ClassVar[str] = "weighted_mean"

    centre: PerFeature
    weights: PerCoordinate
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class DistanceBin(AboutFeatures, OneNumber):
    """The bin of the length of a user's mean row minus ``centre``.

    Bins are those of :class:`TargetScaleBin`.
    """

    stem: ClassVar[str] = "distance_scale"

    centre: PerFeature
    smallest: float
    per_octave: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class ColumnMeans(OfColumns):
    """:class:`Mean` of all columns: the target counts as the last feature."""

    stem: ClassVar[str] = "column_means"
    alone: ClassVar[bool] = False

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnMeanNorm(OfColumns, OneNumber):
    """``log(norm / prior) / log_range`` of a user's :class:`ColumnMeans`, one number."""

    stem: ClassVar[str] = "column_mean_norm"
    alone: ClassVar[bool] = False

    centre: PerFeature
    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnLogSizes(OfColumns):
    """The logarithm of each column's root mean square over ``prior``.

    Clipped to ``log_range`` in either direction. Users without rows, or with zeros only,
    have zeros.
    """

    stem: ClassVar[str] = "column_log_sizes"
    alone: ClassVar[bool] = False

    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class _FeatureSet(Question):
    """Base class: a user's value is ``set_size`` features by their numbers, -1 for a missing one.

    Shape (users, ``set_size``).
    """

    set_size: int

    def width(self, num_features: int) -> int:
        """Return ``set_size`` if there are so many features."""
        return min(self.set_size, num_features)


@dataclass(frozen=True, eq=False)
class OutstandingFeatures(AboutFeatures, _FeatureSet):
    """The features whose means stand out most.

    A mean is compared with the root mean square of the user's own rows, which is drawn
    towards that of all features as if by four more rows.
    """

    stem: ClassVar[str] = "outstanding_features"


@dataclass(frozen=True, eq=False)
class CorrelatedFeatures(_FeatureSet):
    """The features with the largest ``|X'y|``.

    With ``ridge``, those with the largest ridge coefficients, which takes off what is due to
    correlated features.
    """

    stem: ClassVar[str] = "correlated_features"

    ridge: float | None = None


@dataclass(frozen=True, eq=False)
class LassoFeatures(_FeatureSet):
    """The features with the largest Lasso coefficients.

    The penalty is ``penalty`` times the universal ``sqrt(2 log d / m)`` times the root mean
    square of the targets.
    """

    stem: ClassVar[str] = "lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PostLassoFeatures(_FeatureSet):
    """The features with the largest least-squares coefficients of the Lasso's support.

    ``penalty`` as of :class:`LassoFeatures`.
    """

    stem: ClassVar[str] = "post_lasso_features"

    penalty: float


@dataclass(frozen=True, eq=False)
class PursuedFeatures(_FeatureSet):
    """The first features of orthogonal matching pursuit."""

    stem: ClassVar[str] = "pursued_features"


#: How users may rank features for a vote, by name: from a set's size to the question.
SELECTORS: Mapping[str, Callable[[int], Question]] = {
    "ridge": partial(CorrelatedFeatures, ridge=3.0),
    "marginal": CorrelatedFeatures,
    "lasso": partial(LassoFeatures, penalty=0.6),
    "post-lasso": partial(PostLassoFeatures, penalty=0.6),
    "pursuit": PursuedFeatures,
}


MAX_WIDTH = 1 << 14  # a message can ask for it


@dataclass(frozen=True, eq=False)
class SecondMoments(Question):
    """A user's means of x y and of x x', packed, one after the other.

    They are multiplied by ``product_weight`` and ``square_weight``. x is a row over
    ``feature_bound``, shortened to length 1, y its target over ``target_bound``, clipped to [-1,
    1]. The d products x y come first, then the upper triangle of x x' row by row, off the diagonal
    times sqrt(2), see :func:`~ldp_flower.questions.moments.packed_power`. A value is no longer than
    the root of the sum of the weights' squares. Without rows it is zero.
    """

    stem: ClassVar[str] = "second_moments"

    feature_bound: float
    target_bound: float
    product_weight: float
    square_weight: float

    def width(self, num_features: int) -> int:
        """Return the number of products."""
        return limited(num_moments(num_features, [2]))


@dataclass(frozen=True, eq=False)
class TensorMoments(Question):
    """A user's means of x y and of several tensor powers of x, packed.

    x and y as in :class:`SecondMoments`. The powers are every ``stride``-th one (1 or 2) up to
    ``degree + 1``. All parts have the weight that keeps a value within the unit ball.
    """

    stem: ClassVar[str] = "tensor_moments"

    feature_bound: float
    target_bound: float
    degree: int
    stride: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride > 2 or self.degree not in range(
            self.stride - 1, MAX_DEGREE + 1, self.stride
        ):
            raise MessageError(
                f"Expected stride 1 or 2 and a degree that fits, got {self.stride} and "
                f"{self.degree}."
            )

    def width(self, num_features: int) -> int:
        """Return the number of products."""
        return limited(num_moments(num_features, tensor_powers(self.degree, self.stride)))


@dataclass(frozen=True, eq=False)
class Record(Question):
    """A user's first row and its target, shape (users, num_features + 1); NaN without rows.

    The row is over ``feature_bound``, shortened to length 1, the target over
    ``target_bound``, clipped to [-1, 1].
    """

    stem: ClassVar[str] = "record"

    feature_bound: float
    target_bound: float

    def width(self, num_features: int) -> int:
        """Return one more than there are features."""
        return num_features + 1


@dataclass(frozen=True, eq=False)
class RecordCopies(Question):
    """A user's first row times its target, then ``copies`` times the row.

    Bounded as by :class:`Record`; shape (users, (copies + 1) num_features).
    """

    stem: ClassVar[str] = "record_copies"

    feature_bound: float
    target_bound: float
    copies: int

    def width(self, num_features: int) -> int:
        """Return the features of all copies."""
        if (self.copies + 1) * num_features > MAX_WIDTH:
            raise MessageError(f"Expected few copies, got {self.copies}.")
        return (self.copies + 1) * num_features


@dataclass(frozen=True, eq=False)
class DrawnItems(AboutFeatures):
    """The items of a user's rows in an order drawn at random, shape (users, ``set_size``).

    Items are the first column of the features, integers below ``domain_size``;
    what is none (NaN, a fraction, a number out of range) is passed over, and so is an item that
    came before: the first one is that of a row drawn at random. A user with fewer distinct
    items than ``set_size`` has the numbers ``domain_size``, ``domain_size + 1``, ... in place
    of the rest. They stand for no item, and one that is outside the randomizer's domain
    becomes a random item.
    """

    stem: ClassVar[str] = "drawn_items"
    rows: ClassVar[Rows] = Rows.SHUFFLED

    set_size: int
    domain_size: int

    def width(self, num_features: int) -> int:
        """Return ``set_size``."""
        return self.set_size


@dataclass(frozen=True, eq=False)
class FrequentItems(DrawnItems):
    """A user's most frequent items, the most frequent first, else as :class:`DrawnItems`.

    Equally frequent ones are in the order that was drawn.
    """

    stem: ClassVar[str] = "frequent_items"


@dataclass(frozen=True, eq=False)
class Labels(Question):
    """A user's first ``labels_per_user`` targets, zero where there are fewer or one is not finite.

    With ``theta`` and ``offset`` what this linear model predicts is subtracted from each target.
    They are clipped to ``[-label_bound, label_bound]``. The rows that they belong to leave beside
    the reports, as they are: of a node only whose operator has declared features public.
    """

    stem: ClassVar[str] = "labels"
    rows: ClassVar[Rows] = Rows.ALL  # or the block would show which targets are finite
    features_public: ClassVar[bool] = True
    #: Largest number of targets: with each a row of features leaves.
    most: ClassVar[int] = 16

    labels_per_user: Annotated[int, most]
    label_bound: float
    theta: PerFeature | None = None
    offset: Signed | None = None

    def width(self, num_features: int) -> int:
        """Return ``labels_per_user``."""
        return self.labels_per_user


@dataclass(frozen=True, eq=False)
class DrawnLabels(Labels):
    """A user's targets as in :class:`Labels`, of rows in an order that the user draws."""

    stem: ClassVar[str] = "drawn_labels"
    rows: ClassVar[Rows] = Rows.SHUFFLED


def limited(width: int) -> int:
    """Return a number of moments; MessageError if nobody should compute so many."""
    if width > MAX_WIDTH:
        raise MessageError(f"Expected at most {MAX_WIDTH} moments, got {width}.")
    return width
