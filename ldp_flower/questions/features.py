"""Questions about rows: means of features, moments, records, items, labels."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .base import AboutFeatures, OfColumns, OneNumber, Question, Rows
from .fields import Coordinates, MessageError, PerCoordinate, PerFeature, Prior, Signed
from .moments import MAX_DEGREE, num_moments, tensor_powers


@dataclass(frozen=True, eq=False)
class Mean(AboutFeatures):
    """A user's mean row of features minus ``centre``; NaN without rows."""

    stem: ClassVar[str] = "mean"

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class WeightedMean(AboutFeatures):
    """``weights`` times a user's :class:`Mean`, with one weight per wanted coordinate."""

    stem: ClassVar[str] = "weighted_mean"

    centre: PerFeature
    weights: PerCoordinate
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class DistanceBin(AboutFeatures, OneNumber):
    """The bin of the length of the vector "a user's mean row minus ``centre``".

    Bins are as in :class:`TargetScaleBin`.
    """

    stem: ClassVar[str] = "distance_scale"

    centre: PerFeature
    smallest: float
    per_octave: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class ColumnMeans(OfColumns):
    """The :class:`Mean` of all columns; the target counts as the last feature."""

    stem: ClassVar[str] = "column_means"
    alone: ClassVar[bool] = False

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnMeanNorm(OfColumns, OneNumber):
    """``log(norm / prior) / log_range`` for the norm of a user's :class:`ColumnMeans`."""

    stem: ClassVar[str] = "column_mean_norm"
    alone: ClassVar[bool] = False

    centre: PerFeature
    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ColumnLogSizes(OfColumns):
    """The logarithm of each column's root mean square divided by ``prior``.

    The logarithm is clipped to ``[-log_range, log_range]``. Users without rows, or with zeros only,
    have zeros.
    """

    stem: ClassVar[str] = "column_log_sizes"
    alone: ClassVar[bool] = False

    prior: Prior
    log_range: float
    coordinates: Coordinates | None = None


MAX_WIDTH = 1 << 14  # largest number of coordinates that a message can request


@dataclass(frozen=True, eq=False)
class SecondMoments(Question):
    """A user's means of x y and of the packed x x', concatenated.

    The means are multiplied by ``product_weight`` and ``square_weight``. x is a row divided by
    ``feature_bound``, and shortened to length 1 if it is longer. y is the row's target divided by
    ``target_bound``, clipped to [-1, 1]. The d products x y come first. The upper triangle of x x'
    follows row by row, with its off-diagonal entries times sqrt(2), see
    :func:`~ldp_flower.questions.moments.packed_power`. The length of a value is at most the root of
    the sum of the weights' squares. Without rows it is zero.
    """

    stem: ClassVar[str] = "second_moments"

    feature_bound: float
    target_bound: float
    product_weight: float
    square_weight: float

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of moments."""
        return limited(num_moments(num_features, [2]))


@dataclass(frozen=True, eq=False)
class TensorMoments(Question):
    """A user's means of x y and of several packed tensor powers of x, concatenated.

    x and y are as in :class:`SecondMoments`. The exponents are the multiples of ``stride`` (1 or 2)
    up to ``degree + 1``. All parts have one weight, which keeps a value within the unit ball.
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
                f"Expected stride 1 or 2, and a degree up to {MAX_DEGREE} with degree + 1 a "
                f"multiple of the stride, got {self.stride} and {self.degree}."
            )

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of moments."""
        return limited(num_moments(num_features, tensor_powers(self.degree, self.stride)))


@dataclass(frozen=True, eq=False)
class Record(Question):
    """A user's first row and its target, shape (users, num_features + 1); NaN without rows.

    The row is divided by ``feature_bound``, and shortened to length 1 if it is longer. The target
    is divided by ``target_bound``, and clipped to [-1, 1].
    """

    stem: ClassVar[str] = "record"

    feature_bound: float
    target_bound: float

    def width(self, num_features: int) -> int:
        """Return the number of features plus one, for the target."""
        return num_features + 1


@dataclass(frozen=True, eq=False)
class RecordCopies(Question):
    """A user's first row times its target, followed by ``copies`` copies of the row.

    Row and target are bounded as in :class:`Record`. Shape (users, (copies + 1) num_features).
    """

    stem: ClassVar[str] = "record_copies"

    feature_bound: float
    target_bound: float
    copies: int

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value, ``num_features`` for each of its vectors.

        The vectors are the row times the target, and all copies of the row. Raise MessageError if
        there are more coordinates than a message may request.
        """
        if (self.copies + 1) * num_features > MAX_WIDTH:
            raise MessageError(
                f"Expected at most {MAX_WIDTH} coordinates, got {self.copies + 1} vectors of "
                f"{num_features} features."
            )
        return (self.copies + 1) * num_features


@dataclass(frozen=True, eq=False)
class DrawnItems(AboutFeatures):
    """The items of a user's rows in an order drawn at random, shape (users, ``set_size``).

    Items are the integers from 0 to ``domain_size - 1`` in the first column of the features. The
    statistic skips invalid items (NaN, fractions, numbers out of range) and repeated items. The
    first item is that of a random valid row. A user with fewer distinct items than ``set_size`` has
    ``domain_size``, ``domain_size + 1``, ... in the remaining entries. These numbers stand for no
    item. The randomizer replaces a number outside its domain by a random item.
    """

    stem: ClassVar[str] = "drawn_items"
    rows: ClassVar[Rows] = Rows.SHUFFLED

    set_size: int
    domain_size: int

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: ``set_size``."""
        return self.set_size


@dataclass(frozen=True, eq=False)
class FrequentItems(DrawnItems):
    """A user's most frequent items, the most frequent first.

    Equally frequent items are in the order that was drawn. All else is as in :class:`DrawnItems`.
    """

    stem: ClassVar[str] = "frequent_items"


@dataclass(frozen=True, eq=False)
class Labels(Question):
    """A user's first ``labels_per_user`` targets; zero for a missing or non-finite target.

    With ``theta`` and ``offset``, the prediction of this linear model is subtracted from each
    target. The targets are then clipped to ``[-label_bound, label_bound]``. The features of the
    same rows are sent unchanged beside the reports, but only by a node whose operator has declared
    features public.
    """

    stem: ClassVar[str] = "labels"
    rows: ClassVar[Rows] = Rows.ALL  # FINITE would reveal by the block which targets are finite
    features_public: ClassVar[bool] = True
    #: Largest number of targets. A row of features is sent with each target.
    most: ClassVar[int] = 16

    labels_per_user: Annotated[int, most]
    label_bound: float
    theta: PerFeature | None = None
    offset: Signed | None = None

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: ``labels_per_user``."""
        return self.labels_per_user


@dataclass(frozen=True, eq=False)
class DrawnLabels(Labels):
    """A user's targets as in :class:`Labels`, from its rows in a random order that it draws."""

    stem: ClassVar[str] = "drawn_labels"
    rows: ClassVar[Rows] = Rows.SHUFFLED


def limited(width: int) -> int:
    """Return the width of a value; raise MessageError if a message may not request so much."""
    if width > MAX_WIDTH:
        raise MessageError(f"Expected at most {MAX_WIDTH} moments, got {width}.")
    return width
