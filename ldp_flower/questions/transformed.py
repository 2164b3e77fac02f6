"""Questions about what public transformations make of rows, or of another question's values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray

from ..randomizers.elementwise import padded
from .base import (
    MessageError,
    Per,
    PerColumn,
    PerInner,
    PerValue,
    Question,
    Wire,
    integer_expected,
    name_of,
)
from .features import (
    ColumnLogSizes,
    ColumnMeanNorm,
    ColumnMeans,
    CorrelatedFeatures,
    LassoFeatures,
    Mean,
    PostLassoFeatures,
    PursuedFeatures,
    Record,
    RecordCopies,
    SecondMoments,
    TensorMoments,
)
from .regression import (
    ClassStep,
    Gradient,
    LocalCoefficients,
    MeanScore,
    Ranking,
    ResidualCoefficients,
    RidgeShift,
    RidgeShiftOctave,
    RidgeStep,
    RootCurvature,
)

Path = tuple[type[Question], ...]

_MAX_PROJECTED = 1 << 13  # a message can ask for it
_SELECTIONS = ((CorrelatedFeatures,), (LassoFeatures,), (PostLassoFeatures,), (PursuedFeatures,))
_VECTORS = ((Mean,), (Gradient,), (ResidualCoefficients,))


@dataclass(frozen=True, eq=False)
class TransformedQuestion(Question):
    """Base class: another question, wrapped in a public transformation of rows or of values.

    ``inner``, the other question, is one of the ``inners``, with one of its links if ``linked``.
    """

    linked: ClassVar[bool] = False

    #: Classes of the other question, each after those of transformations in between.
    inners: ClassVar[tuple[Path, ...]] = ()

    inner: Question

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner.name not in {name_of(*form) for form in self.forms()}:
            raise MessageError(f"Unknown statistic {self.name!r}.")

    @classmethod
    def forms(cls) -> Iterator[tuple[Path, str]]:
        """Yield the classes of what it may hold, and the link of the last one."""
        for path in cls.inners:
            for link in path[-1].links if cls.linked else ("identity",):
                yield path, link

    @property
    def name(self) -> str:
        """The inner question's, between ``stem`` and ``suffix``."""
        return self.stem + self.inner.name + self.suffix

    def needs_targets(self, num_features: int) -> bool:
        """Whether the inner question is about targets."""
        return self.inner.needs_targets(self.features(num_features))

    @property
    def classes_asked(self) -> int:
        """The inner question's."""
        return self.inner.classes_asked

    @property
    def record_centre(self) -> NDArray[Any] | float:
        """The inner question's."""
        return self.inner.record_centre

    def to_wire(self) -> Wire:
        """Return the name, and all arrays and numbers of both questions."""
        name, arrays, params = super().to_wire()
        _, more_arrays, more_params = self.inner.to_wire()
        return name, more_arrays | arrays, more_params | params

    def width(self, num_features: int) -> int:
        """Return the inner question's."""
        return self.inner.width(self.features(num_features))

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Check both questions' arrays."""
        inner = self.inner.check_arrays(self.features(num_features), users_have)
        expected = self.width(num_features)
        lengths = {Per.COLUMN: num_features + 1, Per.INNER: inner, Per.VALUE: expected}
        self.check_lengths(lengths, users_have)
        return expected


@dataclass(frozen=True, eq=False)
class Standardised(TransformedQuestion):
    """Of features and targets that public constants have brought to about mean 0 and scale 1.

    A column of mean 0 and scale 1 is left as it is; others become ``(x - mean) / scale``,
    clipped to [-3, 3]. The last of ``means`` and ``scales`` is the target's.
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
    """Of users whose targets are labels: 1 for class 1, -1 for class 0."""

    stem: ClassVar[str] = "class_"
    inners: ClassVar[tuple[Path, ...]] = (
        *_SELECTIONS,
        *((TensorMoments,), (RecordCopies,)),
    )

    classes_asked: ClassVar[int] = 2


@dataclass(frozen=True, eq=False)
class Projected(TransformedQuestion):
    """Of features that a public random matrix projected, see :mod:`.public_maps`.

    ``seed`` decides the matrix; ``projected_dim`` is the number of features after it, at most as
    many as before.
    """

    stem: ClassVar[str] = "projected_"
    inners: ClassVar[tuple[Path, ...]] = (
        *((Mean,), (SecondMoments,), (TensorMoments,), (Record,), (RecordCopies,)),
        *((OfClasses, TensorMoments), (OfClasses, RecordCopies)),
    )

    seed: int
    projected_dim: int

    def features(self, num_features: int) -> int:
        """Return ``projected_dim``."""
        high = min(num_features, _MAX_PROJECTED)
        if self.projected_dim > high:
            raise integer_expected("projected_dim", high, self.projected_dim)
        return self.projected_dim


@dataclass(frozen=True, eq=False)
class Fourier(TransformedQuestion):
    """Of random Fourier features, see :func:`ldp_flower.questions.public_maps.fourier_features`.

    ``seed`` decides the frequencies; ``num_features`` is their number, even; ``length_scale`` is
    the kernel's.
    """

    stem: ClassVar[str] = "fourier_"
    inners: ClassVar[tuple[Path, ...]] = ((SecondMoments,), (Record,))

    seed: int
    num_features: Annotated[int, 1 << 10]
    length_scale: float

    def features(self, num_features: int) -> int:
        """Return ``num_features`` of the question."""
        if self.num_features % 2:
            raise MessageError(f"Expected an even num_features, got {self.num_features}.")
        return self.num_features


class _Turned(TransformedQuestion):
    """Base class: the inner question's values after a public random rotation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, Gradient) and self.inner.centre is not None:
            raise MessageError("Expected no centre of a gradient that is rotated.")

    def width(self, num_features: int) -> int:
        """Return the number of rotated coordinates."""
        own = self.inner.width(num_features)
        if own != self.inner.num_wanted(num_features):
            raise MessageError("Expected coordinates only: what comes with them has no sign.")
        return padded(own)


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

    ``num_bins`` bins of one width cover ``[-bound, bound]``; the first and the last one take what
    is beyond.
    """

    stem: ClassVar[str] = "rotated_"
    suffix: ClassVar[str] = "_bins"
    inners: ClassVar[tuple[Path, ...]] = _VECTORS

    signs: PerInner
    bound: float
    num_bins: int


@dataclass(frozen=True, eq=False)
class Shortened(TransformedQuestion):
    """The inner question's values, shortened to ``radius``, and whether they are.

    The last coordinate is ``told`` where the value is at most ``radius`` long, and its negative
    where it is longer. NaN where there is no value.
    """

    stem: ClassVar[str] = "shortened_"
    linked: ClassVar[bool] = True
    inners: ClassVar[tuple[Path, ...]] = ((Gradient,), (Mean,), (LocalCoefficients,))

    radius: float
    told: float

    def width(self, num_features: int) -> int:
        """Return one more than the inner question's."""
        return self.inner.width(num_features) + 1
