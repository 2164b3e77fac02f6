"""Questions: what users can be asked, each a typed object with one form on the wire.

Strategies ask with these objects and clients compute by their classes; only here do
statistics have names. The registry is closed: a message can ask for nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .base import AboutFeatures, Arrays, MessageError, Per, Question, Slot, Wire, name_of, slots
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
from .records import FrequentItems, Labels, Record, RecordCopies, SecondMoments, TensorMoments
from .regression import (
    ClassCoefficients,
    Curvature,
    Gradient,
    GradientNorm,
    ResidualCoefficients,
    RootCurvature,
    SquaredErrors,
    TargetScaleBin,
    Teacher,
)
from .updates import ClippedUpdate, NormalisedUpdate, UpdateQuestion
from .views import Fourier, OfClasses, Projected, Rotated, RotatedBins, Standardised, View

_PLAIN: tuple[type[Question], ...] = (
    *(Gradient, GradientNorm, Curvature, RootCurvature, ResidualCoefficients),
    *(ClassCoefficients, TargetScaleBin, SquaredErrors, Teacher),
    *(Mean, WeightedMean, DistanceBin, OutstandingFeatures),
    *(CorrelatedFeatures, LassoFeatures, PostLassoFeatures, PursuedFeatures),
    *(SecondMoments, TensorMoments, Record, RecordCopies, FrequentItems, Labels),
    *(NormalisedUpdate, ClippedUpdate),
)
_VIEWS: tuple[type[View], ...] = (Standardised, OfClasses, Projected, Fourier, Rotated, RotatedBins)


@dataclass(frozen=True)
class Form:
    """What a name on the wire stands for.

    Attributes
    ----------
    kinds : tuple of type
        The question's class; before it those of the views around it, the outermost first.
    link : str
        The question's link.
    """

    kinds: tuple[type[Question], ...]
    link: str = "identity"

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All that crosses the wire beside the name."""
        return tuple(slot for kind in self.kinds for slot in slots(kind))


def _forms() -> dict[str, Form]:
    forms = {kind.stem: Form((kind,)) for kind in _PLAIN}
    for kind in _PLAIN:
        forms |= {
            f"{link}_{kind.stem}": Form((kind,), link) for link in kind.links if link != "identity"
        }
    for view in _VIEWS:
        forms |= {name_of((view, *path)): Form((view, *path)) for path in view.inners}
    return forms


#: Every name that a message can ask by.
FORMS: Mapping[str, Form] = _forms()


def question_from_wire(name: object, arrays: Arrays, params: Mapping[str, object]) -> Question:
    """Build a question from untrusted plain values, checking each.

    Raises
    ------
    MessageError
        If it is not a well-formed question.
    """
    if not isinstance(name, str):
        raise MessageError("Expected the name of a statistic.")
    if name not in FORMS:
        raise MessageError(f"Unknown statistic {name!r}.")
    form = FORMS[name]
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


def _check_names(what: str, wanted: list[Slot], given: Mapping[str, object]) -> None:
    required = {slot.wire for slot in wanted if slot.required}
    if not required <= set(given) <= {slot.wire for slot in wanted}:
        raise MessageError(f"Expected the {what} {sorted(required)}, got {sorted(given)}.")


__all__ = [
    "FORMS",
    "SELECTORS",
    "AboutFeatures",
    "Arrays",
    "ClassCoefficients",
    "ClippedUpdate",
    "ColumnLogSizes",
    "ColumnMeanNorm",
    "ColumnMeans",
    "CorrelatedFeatures",
    "Curvature",
    "DistanceBin",
    "Fourier",
    "FrequentItems",
    "Gradient",
    "GradientNorm",
    "Labels",
    "LassoFeatures",
    "Mean",
    "MessageError",
    "NormalisedUpdate",
    "OfClasses",
    "OutstandingFeatures",
    "Per",
    "PostLassoFeatures",
    "Projected",
    "PursuedFeatures",
    "Question",
    "Record",
    "RecordCopies",
    "ResidualCoefficients",
    "RootCurvature",
    "Rotated",
    "RotatedBins",
    "SecondMoments",
    "Slot",
    "SquaredErrors",
    "Standardised",
    "TargetScaleBin",
    "Teacher",
    "TensorMoments",
    "UpdateQuestion",
    "View",
    "WeightedMean",
    "Wire",
    "question_from_wire",
]
