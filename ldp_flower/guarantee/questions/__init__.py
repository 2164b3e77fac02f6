"""Questions: what users can be asked, each a typed object with one form on the wire.

Strategies ask with these objects and clients compute by their classes; only here do
statistics have names. The registry is closed: a message can ask for nothing else, but for public
transformations around a question, and for questions that the node's own app brings a statistic for
(:func:`wire_types_with`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomizers.elementwise import padded
from .base import (
    AboutColumns,
    AboutFeatures,
    Arrays,
    Coordinates,
    FieldSpec,
    MessageError,
    Per,
    PerColumn,
    PerCoordinate,
    PerFeature,
    PerInner,
    PerValue,
    Question,
    Rows,
    Signed,
    Wire,
    integer_expected,
    name_of,
    slots,
)
from .columns import Cell, Grain, LevelRounding, SharesBelow, TableCell
from .features import (
    SELECTORS,
    ColumnLogSizes,
    ColumnMeanNorm,
    ColumnMeans,
    CorrelatedFeatures,
    DistanceBin,
    DrawnItems,
    DrawnLabels,
    FrequentItems,
    Labels,
    LassoFeatures,
    Mean,
    OutstandingFeatures,
    PostLassoFeatures,
    PursuedFeatures,
    Record,
    RecordCopies,
    SecondMoments,
    TensorMoments,
    WeightedMean,
)
from .regression import (
    ClassCoefficients,
    ClassShare,
    ClassStep,
    Curvature,
    Gradient,
    LocalCoefficients,
    MeanScore,
    Ranking,
    ResidualCoefficients,
    RidgeShift,
    RidgeShiftOctave,
    RidgeStep,
    RootCurvature,
    RowCount,
    SquaredErrors,
    TargetScaleBin,
    Teacher,
)
from .sizes import (
    DistanceOctave,
    Octave,
    ResidualOctave,
    ResidualSquares,
    ScoreOctave,
    Squares,
)
from .updates import ClippedUpdate, NormalisedUpdate, UpdateQuestion

__all__ = [
    "SELECTORS",
    "WIRE_TYPES",
    "AboutColumns",
    "AboutFeatures",
    "Arrays",
    "Cell",
    "ClassCoefficients",
    "ClassShare",
    "ClassStep",
    "ClippedUpdate",
    "ColumnLogSizes",
    "ColumnMeanNorm",
    "ColumnMeans",
    "Coordinates",
    "CorrelatedFeatures",
    "Curvature",
    "DistanceBin",
    "DistanceOctave",
    "DrawnItems",
    "DrawnLabels",
    "FieldSpec",
    "Fourier",
    "FrequentItems",
    "Gradient",
    "Grain",
    "Labels",
    "LassoFeatures",
    "LevelRounding",
    "LocalCoefficients",
    "Mean",
    "MeanScore",
    "MessageError",
    "NormalisedUpdate",
    "Octave",
    "OfClasses",
    "OutstandingFeatures",
    "Per",
    "PerCoordinate",
    "PerFeature",
    "PerValue",
    "PostLassoFeatures",
    "Projected",
    "PursuedFeatures",
    "Question",
    "Ranking",
    "Record",
    "RecordCopies",
    "ResidualCoefficients",
    "ResidualOctave",
    "ResidualSquares",
    "RidgeShift",
    "RidgeShiftOctave",
    "RidgeStep",
    "RootCurvature",
    "Rotated",
    "RotatedBins",
    "RowCount",
    "Rows",
    "ScoreOctave",
    "SecondMoments",
    "SharesBelow",
    "Shortened",
    "Signed",
    "SquaredErrors",
    "Squares",
    "Standardised",
    "TableCell",
    "TargetScaleBin",
    "Teacher",
    "TensorMoments",
    "TransformedQuestion",
    "UpdateQuestion",
    "WeightedMean",
    "Wire",
    "WireType",
    "question_from_wire",
    "slots",
    "wire_types_with",
]

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
    """Of features that a public random matrix projected, see :mod:`ldp_flower.values.public_maps`.

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
    """Of random Fourier features, see :func:`ldp_flower.values.public_maps.fourier_features`.

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

    See :func:`ldp_flower.values.public_maps.rotate`.
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


# What can be asked by itself; other questions only inside of transformations.
_PLAIN: tuple[type[Question], ...] = (
    *(Gradient, Curvature, RootCurvature, ResidualCoefficients, LocalCoefficients, RidgeStep),
    *(RidgeShift, RidgeShiftOctave, RowCount, TargetScaleBin, SquaredErrors, Teacher),
    *(ClassStep, ClassShare, MeanScore, Ranking, ClassCoefficients),
    *(Mean, WeightedMean, DistanceBin, OutstandingFeatures),
    *(CorrelatedFeatures, LassoFeatures, PostLassoFeatures, PursuedFeatures),
    *(ResidualOctave, ScoreOctave, DistanceOctave, Squares, ResidualSquares),
    *(SecondMoments, TensorMoments, Record, RecordCopies, Labels, DrawnLabels),
    *(DrawnItems, FrequentItems),
    *(TableCell, LevelRounding, SharesBelow, Cell, Grain, NormalisedUpdate, ClippedUpdate),
)
_TRANSFORMED = (Standardised, OfClasses, Projected, Fourier, Rotated, RotatedBins, Shortened)


@dataclass(frozen=True)
class WireType:
    """What a name on the wire stands for.

    Its classes are the question's and, before it, those of the transformations around it, the
    outermost first.
    """

    kinds: tuple[type[Question], ...]
    link: str = "identity"

    @property
    def slots(self) -> tuple[FieldSpec, ...]:
        """All that crosses the wire beside the name."""
        return tuple(slot for kind in self.kinds for slot in slots(kind))


def _forms() -> dict[str, WireType]:
    forms = {}
    for kind in _PLAIN:
        for link in kind.links:  # "identity" among them, for the plain name
            forms[name_of((kind,), link)] = WireType((kind,), link)
    for view in _TRANSFORMED:
        for path, link in view.forms():
            forms[name_of((view, *path), link)] = WireType((view, *path), link)
    return forms


#: Every name that a message can ask by.
WIRE_TYPES: Mapping[str, WireType] = _forms()


_STEM = re.compile("[a-z][a-z0-9_]{0,63}")


def wire_types_with(kinds: Iterable[type[Question]]) -> Mapping[str, WireType]:
    """Return what a message can ask by where these questions are known, too.

    ValueError if one is no question of its own with a new name, all of whose fields cross the wire.
    """
    forms = dict(WIRE_TYPES)
    for kind in kinds:
        _check_new(kind)
        if kind.stem in forms:
            raise ValueError(f"Expected {kind.__name__} to have a new stem, got {kind.stem!r}.")
        forms[kind.stem] = WireType((kind,))
    return forms


def _check_new(kind: type[Question]) -> None:
    if not (isinstance(kind, type) and issubclass(kind, Question)):
        raise ValueError(f"Expected a subclass of Question, got {kind!r}.")
    name = kind.__name__
    if issubclass(kind, TransformedQuestion | UpdateQuestion) or kind.features_public:
        raise ValueError(f"Expected {name} to be about rows, all of which stay private.")
    if "__dataclass_params__" not in vars(kind):  # its fields would not be any; all are frozen
        raise ValueError(f"Expected {name} to be a frozen dataclass.")
    if not isinstance(kind.stem, str) or not _STEM.fullmatch(kind.stem):
        raise ValueError(
            f"Expected the stem of {name} to be lower-case letters, digits and underscores, "
            f"got {kind.stem!r}."
        )
    crossing = {
        slot.field
        for slot in slots(kind)
        if (slot.kind is np.ndarray) == (slot.per not in (None, Per.ONE))
    }
    if lost := sorted({field.name for field in fields(kind)} - crossing):
        raise ValueError(
            f"Expected {name}.{lost[0]} to be annotated as float, int, bool, Signed or an array "
            "such as PerFeature: nothing else crosses the wire."
        )


def question_from_wire(
    name: object,
    arrays: Arrays,
    params: Mapping[str, object],
    forms: Mapping[str, WireType] = WIRE_TYPES,
) -> Question:
    """Build a question of one of ``forms`` from untrusted plain values, or raise MessageError."""
    if not isinstance(name, str):
        raise MessageError("Expected the name of a statistic.")
    if name not in forms:
        raise MessageError(f"Unknown statistic {name!r}.")
    form = forms[name]
    _check_names("arrays", [slot for slot in form.slots if slot.per is not None], arrays)
    _check_names("numbers", [slot for slot in form.slots if slot.per is None], params)
    question: Question | None = None
    for kind in reversed(form.kinds):
        given = {slot.field: slot.read(arrays, params) for slot in slots(kind)}
        given = {field: value for field, value in given.items() if value is not None}
        if question is not None:
            given["inner"] = question
        elif form.link != "identity":
            given["link"] = form.link
        question = kind(**given)
    assert question is not None
    return question


def _check_names(what: str, wanted: list[FieldSpec], given: Mapping[str, object]) -> None:
    required = {slot.wire for slot in wanted if slot.required}
    if not required <= set(given) <= {slot.wire for slot in wanted}:
        raise MessageError(f"Expected the {what} {sorted(required)}, got {sorted(given)}.")
