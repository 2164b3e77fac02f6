"""Questions about rows themselves: their moments, one of them, items, labels."""

from dataclasses import dataclass
from typing import ClassVar

from ...values.moments import MAX_DEGREE, num_moments, tensor_powers
from .base import (
    AboutFeatures,
    MessageError,
    PerFeature,
    Question,
    Rows,
    integer_expected,
)

MAX_WIDTH = 1 << 14  # a message can ask for it


@dataclass(frozen=True, eq=False)
class SecondMoments(Question):
    """A user's means of x y and of x x', packed, one after the other.

    They are multiplied by ``product_weight`` and ``square_weight``. x is a row over
    ``feature_bound``, shortened to length 1, y its target over ``target_bound``, clipped to [-1,
    1]. The d products x y come first, then the upper triangle of x x' row by row, off the diagonal
    times sqrt(2), see :func:`ldp_flower.values.moments.packed_power`. So a value is no longer than
    the root of the sum of the weights' squares. Without rows it is zero.
    """

    stem: ClassVar[str] = "second_moments"

    feature_bound: float
    target_bound: float
    product_weight: float
    square_weight: float

    def width(self, num_features: int) -> int:
        """Return the number of products."""
        return _limited(num_moments(num_features, [2]))


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
        return _limited(num_moments(num_features, tensor_powers(self.degree, self.stride)))


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

    With ``theta`` what this linear model predicts is subtracted from each target. They are clipped
    to ``[-label_bound, label_bound]``. The rows that they belong to leave beside the reports, as
    they are: of a node only whose operator has declared features public.
    """

    stem: ClassVar[str] = "labels"
    rows: ClassVar[Rows] = Rows.ALL  # or the block would show which targets are finite
    features_public: ClassVar[bool] = True
    #: Largest number of targets: with each a row of features leaves.
    most: ClassVar[int] = 16

    labels_per_user: int
    label_bound: float
    theta: PerFeature | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels_per_user > self.most:
            raise integer_expected("labels_per_user", self.most, self.labels_per_user)

    def width(self, num_features: int) -> int:
        """Return ``labels_per_user``."""
        return self.labels_per_user


def _limited(width: int) -> int:
    if width > MAX_WIDTH:
        raise MessageError(f"Expected at most {MAX_WIDTH} moments, got {width}.")
    return width
