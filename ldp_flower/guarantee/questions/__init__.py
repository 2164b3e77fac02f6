"""Questions: what users can be asked, each a typed object with one form on the wire.

Strategies ask with these objects and clients compute by their classes; only here do
statistics have names. The registry is closed: a message can ask for nothing else, unless
the node's own app brings a statistic for it (:func:`wire_types_with`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np

from .base import (
    AboutColumns,
    AboutFeatures,
    Arrays,
    Coordinates,
    FieldSpec,
    MessageError,
    Per,
    PerCoordinate,
    PerFeature,
    PerValue,
    Question,
    Rows,
    Signed,
    Wire,
    name_of,
    slots,
)
from .classes import ClassCoefficients, ClassShare, ClassStep, MeanScore, Ranking
from .columns import Cell, Grain, LevelRounding, SharesBelow, TableCell
from .features import (
    SELECTORS,
    ColumnLogSizes,
    ColumnMeanNorm,
    ColumnMeans,
    CorrelatedFeatures,
    DistanceBin,
    LassoFeatures,
    Mean,
    OutstandingFeatures,
    PostLassoFeatures,
    PursuedFeatures,
    WeightedMean,
)
from .records import (
    DrawnItems,
    FrequentItems,
    Labels,
    Record,
    RecordCopies,
    SecondMoments,
    TensorMoments,
)
from .regression import (
    Curvature,
    Gradient,
    GradientNorm,
    LineMoments,
    LineSizes,
    ResidualCoefficients,
    RidgeStep,
    RootCurvature,
    RowCount,
    SquaredErrors,
    TargetScaleBin,
    Teacher,
)
from .transformed import (
    Fourier,
    OfClasses,
    Projected,
    Rotated,
    RotatedBins,
    Standardised,
    TransformedQuestion,
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
    "DrawnItems",
    "FieldSpec",
    "Fourier",
    "FrequentItems",
    "Gradient",
    "GradientNorm",
    "Grain",
    "Labels",
    "LassoFeatures",
    "LevelRounding",
    "LineMoments",
    "LineSizes",
    "Mean",
    "MeanScore",
    "MessageError",
    "NormalisedUpdate",
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
    "RidgeStep",
    "RootCurvature",
    "Rotated",
    "RotatedBins",
    "RowCount",
    "Rows",
    "SecondMoments",
    "SharesBelow",
    "Signed",
    "SquaredErrors",
    "Standardised",
    "TableCell",
    "TargetScaleBin",
    "Teacher",
    "TensorMoments",
    "TransformedQuestion",
    "UpdateQuestion",
    "WeightedMean",
    "Wire",
    "question_from_wire",
    "slots",
    "wire_types_with",
]


# What can be asked by itself; other questions only inside of transformations.
_PLAIN: tuple[type[Question], ...] = (
    *(Gradient, GradientNorm, Curvature, RootCurvature, ResidualCoefficients, RidgeStep),
    *(LineMoments, LineSizes, RowCount, TargetScaleBin, SquaredErrors, Teacher),
    *(ClassStep, ClassShare, MeanScore, Ranking, ClassCoefficients),
    *(Mean, WeightedMean, DistanceBin, OutstandingFeatures),
    *(CorrelatedFeatures, LassoFeatures, PostLassoFeatures, PursuedFeatures),
    *(SecondMoments, TensorMoments, Record, RecordCopies, Labels, DrawnItems, FrequentItems),
    *(TableCell, LevelRounding, SharesBelow, Cell, Grain, NormalisedUpdate, ClippedUpdate),
)
_TRANSFORMED = (Standardised, OfClasses, Projected, Fourier, Rotated, RotatedBins)


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
            name = kind.stem if link == "identity" else f"{link}_{kind.stem}"
            forms[name] = WireType((kind,), link)
    for view in _TRANSFORMED:
        forms |= {name_of((view, *path)): WireType((view, *path)) for path in view.inners}
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
