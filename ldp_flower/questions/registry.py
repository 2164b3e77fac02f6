"""Registry: the questions that a message can ask, by their names on the wire.

The registry is closed: it holds the questions of this package's modules, and it is built when the
package is imported. A node's app can add questions with statistics (:func:`wire_types_with`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np

from . import (  # noqa: F401 -- they define the questions
    classes,
    columns,
    features,
    model_sums,
    regression,
    scores,
    selection,
    sizes,
    sums,
    updates,
)
from .base import Question, name_of, slots
from .fields import Arrays, FieldSpec, MessageError, Per
from .transformed import TransformedQuestion
from .updates import UpdateQuestion


@dataclass(frozen=True)
class WireType:
    """The question that a name on the wire stands for: its classes and its link.

    ``kinds`` are the classes of the transformations around the question, outermost first, and last
    the question's class.
    """

    kinds: tuple[type[Question], ...]
    link: str = "identity"

    @property
    def slots(self) -> tuple[FieldSpec, ...]:
        """Encodings of all fields that a message holds for such a question, beside the name."""
        return tuple(slot for kind in self.kinds for slot in slots(kind))


def _forms() -> dict[str, WireType]:
    forms = {}
    for kind in _all_of(Question):
        if issubclass(kind, TransformedQuestion):
            for path, link in kind.forms():
                forms[name_of((kind, *path), link)] = WireType((kind, *path), link)
        elif kind.alone:
            for link in kind.links:  # the link "identity" gives the name without a prefix
                forms[name_of((kind,), link)] = WireType((kind,), link)
    return forms


def _all_of(kind: type[Question]) -> list[type[Question]]:
    """Return ``kind`` and its subclasses, except for base classes, which define no stem."""
    own = [kind] if "stem" in vars(kind) and kind.stem else []
    return own + [each for below in kind.__subclasses__() for each in _all_of(below)]


#: The questions that a message can ask, by their names on the wire.
WIRE_TYPES: Mapping[str, WireType] = _forms()


_STEM = re.compile("[a-z][a-z0-9_]{0,63}")


def wire_types_with(kinds: Iterable[type[Question]]) -> Mapping[str, WireType]:
    """Return the registry with these additional questions.

    Raise ValueError if one of them is not a question about private rows with a new name, or if one
    of its fields has a type that cannot be sent to clients.
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
    if "__dataclass_params__" not in vars(kind):  # no fields otherwise; subclasses are frozen
        raise ValueError(f"Expected {name} to be a frozen dataclass.")
    if not isinstance(kind.stem, str) or not _STEM.fullmatch(kind.stem):
        raise ValueError(
            f"Expected the stem of {name} to be lowercase letters, digits and underscores, "
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
            "such as PerFeature. Fields of other types cannot be sent to clients."
        )


def question_from_wire(
    name: object,
    arrays: Arrays,
    params: Mapping[str, object],
    forms: Mapping[str, WireType] = WIRE_TYPES,
) -> Question:
    """Return the question of a name, with arrays and numbers from an untrusted message.

    ``forms`` maps names to the known questions. Raise MessageError if the values are invalid.
    """
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
