"""Questions with public transformations of the rows or of another question's values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray

from ..randomizers.elementwise import padded_size
from .base import Question, Wire, name_of
from .classes import ClassStep, MeanScore, Ranking
from .features import (
    ColumnLogSizes,
    ColumnMeanNorm,
    ColumnMeans,
    Mean,
    Record,
    RecordCopies,
    SecondMoments,
    TensorMoments,
)
from .fields import MessageError, Per, PerColumn, PerInner, PerValue, integer_expected
from .model_sums import ClassMoves, RidgeMove
from .regression import (
    Gradient,
    LocalCoefficients,
    ResidualCoefficients,
    RidgeShift,
    RidgeShiftOctave,
    RidgeStep,
    RootCurvature,
)
from .selection import CorrelatedFeatures, LassoFeatures, PostLassoFeatures, PursuedFeatures
from .sizes import OCTAVES, DistanceOctave, ResidualOctave

Path = tuple[type[Question], ...]

_MAX_PROJECTED = 1 << 13  # largest dimension that a message can request
_SELECTIONS = ((CorrelatedFeatures,), (LassoFeatures,), (PostLassoFeatures,), (PursuedFeatures,))
_VECTORS = ((Mean,), (Gradient,), (ResidualCoefficients,))


@dataclass(frozen=True, eq=False)
class TransformedQuestion(Question):
    """Base class of a question that wraps another question in a public transformation.

    The transformation changes rows or values. The classes of the wrapped question ``inner`` must be
    one of the paths in ``inners``. If ``linked`` is True, the innermost question may have any link
    function of its class. Otherwise its link function must be the identity.
    """

    linked: ClassVar[bool] = False

    #: Allowed inner questions. Each is a path: the classes of transformations between this question
    #: and the inner question, and last the class of the inner question.
    inners: ClassVar[tuple[Path, ...]] = ()

    inner: Question

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner.name not in {name_of(*form) for form in self.forms()}:
            raise MessageError(f"Unknown statistic {self.name!r}.")

    @classmethod
    def forms(cls) -> Iterator[tuple[Path, str]]:
        """Yield the allowed inner questions.

        Each is a pair: a path of classes, and the name of the innermost question's link function.
        """
        for path in cls.inners:
            for link in path[-1].links if cls.linked else ("identity",):
                yield path, link

    @property
    def name(self) -> str:
        """Name of the inner question, between ``stem`` and ``suffix``."""
        return self.stem + self.inner.name + self.suffix

    def needs_targets(self, num_features: int) -> bool:
        """Return True if the inner question uses targets."""
        return self.inner.needs_targets(self.features(num_features))

    @property
    def classes_asked(self) -> int:
        """Number of classes of the inner question."""
        return self.inner.classes_asked

    @property
    def record_centre(self) -> NDArray[Any] | float:
        """The inner question's public vector that a mechanism for silos adds to all values."""
        return self.inner.record_centre

    def to_wire(self) -> Wire:
        """Return the name, and the arrays and numbers of both questions."""
        name, arrays, params = super().to_wire()
        _, more_arrays, more_params = self.inner.to_wire()
        return name, more_arrays | arrays, more_params | params

    def width(self, num_features: int) -> int:
        """Return the width of the inner question."""
        return self.inner.width(self.features(num_features))

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Raise MessageError unless the arrays of both questions fit; return the value's width."""
        inner = self.inner.check_arrays(self.features(num_features), users_have)
        expected = self.width(num_features)
        lengths = {Per.COLUMN: num_features + 1, Per.INNER: inner, Per.VALUE: expected}
        self.check_lengths(lengths, users_have)
        return expected


@dataclass(frozen=True, eq=False)
class Standardised(TransformedQuestion):
    """The inner question, asked about features and targets standardised with public constants.

    A column becomes ``(x - mean) / scale``, clipped to [-3, 3]. A column with mean 0 and scale 1
    stays unchanged. The last entries of ``means`` and ``scales`` are the target's.
    """

    stem: ClassVar[str] = "standardised_"
    inners: ClassVar[tuple[Path, ...]] = (
        *((ColumnMeans,), (ColumnLogSizes,), (ColumnMeanNorm,), (RidgeStep,)),
        *((RidgeShift,), (RidgeShiftOctave,)),
        *((ClassStep,), (RootCurvature,), (MeanScore,), (Ranking,)),
    )

    means: PerColumn
    scales: PerColumn


@dataclass(frozen=True, eq=False)
class OfClasses(TransformedQuestion):
    """The inner question, asked about labels as targets: 1 for class 1, -1 for class 0."""

    stem: ClassVar[str] = "class_"
    inners: ClassVar[tuple[Path, ...]] = (
        *_SELECTIONS,
        *((TensorMoments,), (RecordCopies,)),
    )

    classes_asked: ClassVar[int] = 2


@dataclass(frozen=True, eq=False)
class Projected(TransformedQuestion):
    """The inner question, asked about features after a public random projection.

    See :mod:`.public_maps`. ``seed`` defines the matrix. ``projected_dim`` is the number of
    projected features, at most the number of features.
    """

    stem: ClassVar[str] = "projected_"
    inners: ClassVar[tuple[Path, ...]] = (
        *((Mean,), (SecondMoments,), (TensorMoments,), (Record,), (RecordCopies,)),
        *((OfClasses, TensorMoments), (OfClasses, RecordCopies)),
    )

    seed: int
    projected_dim: int

    def features(self, num_features: int) -> int:
        """Return the number of projected features, ``projected_dim``."""
        high = min(num_features, _MAX_PROJECTED)
        if self.projected_dim > high:
            raise integer_expected("projected_dim", high, self.projected_dim)
        return self.projected_dim


@dataclass(frozen=True, eq=False)
class Fourier(TransformedQuestion):
    """The inner question, asked about random Fourier features of the rows.

    See :func:`ldp_flower.questions.public_maps.fourier_features`. ``seed`` defines the frequencies.
    ``num_features`` is the number of Fourier features, an even number. ``length_scale`` is the
    length scale of the kernel.
    """

    stem: ClassVar[str] = "fourier_"
    inners: ClassVar[tuple[Path, ...]] = ((SecondMoments,), (Record,))

    seed: int
    num_features: Annotated[int, 1 << 10]
    length_scale: float

    def features(self, num_features: int) -> int:
        """Return the number of Fourier features."""
        if self.num_features % 2:
            raise MessageError(f"Expected an even num_features, got {self.num_features}.")
        return self.num_features


class _Turned(TransformedQuestion):
    """Base class of questions for the inner question's values after a public random rotation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, Gradient) and self.inner.centre is not None:
            raise MessageError("Expected no centre of a gradient that is rotated.")

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of rotated coordinates."""
        own = self.inner.width(num_features)
        if own != self.inner.num_wanted(num_features):
            raise MessageError("Expected a question without an additional coordinate to rotate.")
        return padded_size(own)


@dataclass(frozen=True, eq=False)
class Rotated(_Turned):
    """The inner question's values, rotated by public ``signs``, minus ``midpoints``.

    See :func:`ldp_flower.questions.public_maps.rotate`.
    """

    stem: ClassVar[str] = "rotated_"
    inners: ClassVar[tuple[Path, ...]] = _VECTORS

    signs: PerInner
    midpoints: PerValue


@dataclass(frozen=True, eq=False)
class RotatedBins(_Turned):
    """The bins of the inner question's values after a rotation by public ``signs``.

    ``num_bins`` bins of equal width cover ``[-bound, bound]``. The first and the last bin also hold
    values outside of this range.
    """

    stem: ClassVar[str] = "rotated_"
    suffix: ClassVar[str] = "_bins"
    inners: ClassVar[tuple[Path, ...]] = _VECTORS

    signs: PerInner
    bound: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class Shortened(TransformedQuestion):
    """The inner question's values, clipped to the length ``radius``, with a clipping indicator.

    The last coordinate is the indicator: ``told`` if the length of the value is at most ``radius``,
    ``-told`` if it is longer. The value of a user without one is 0, and is not clipped.
    """

    stem: ClassVar[str] = "shortened_"
    linked: ClassVar[bool] = True
    inners: ClassVar[tuple[Path, ...]] = (
        *((Gradient,), (Mean,), (LocalCoefficients,), (RidgeMove,), (ClassMoves,)),
    )

    radius: float
    told: float

    def width(self, num_features: int) -> int:
        """Return the width of the inner question plus one, for the indicator."""
        return self.inner.width(num_features) + 1


@dataclass(frozen=True, eq=False)
class OctaveShares(TransformedQuestion):
    """The inner question's octave, one-hot encoded, so that the mean over users is a histogram.

    Index i stands for sizes from ``2**(i - 32)`` to ``2**(i - 31)``. The logarithm is rounded down
    and not at random. A user without an octave has zeros.
    """

    stem: ClassVar[str] = "shares_of_"
    inners: ClassVar[tuple[Path, ...]] = ((ResidualOctave,), (DistanceOctave,))

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a value: the number of octaves."""
        return OCTAVES
