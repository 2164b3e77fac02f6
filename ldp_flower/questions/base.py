"""What a question is: typed fields, what of them crosses the wire, and what they must fit.

A field's annotation says all of it: a float or an integer is a positive number, a bool a
flag, an array has one number for each of what its :class:`Per` names. ``Annotated[int, 16]`` has
a largest value: a message can ask for more than anybody should compute. A field with a default is
optional, and does not cross the wire unless it is given.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum, auto
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..validation import Floats, check_number, plain

Arrays = Mapping[str, NDArray[Any]]
Wire = tuple[str, dict[str, NDArray[Any]], dict[str, float]]

_MAX_INTEGER = 1 << 53  # that a float holds, as all below


class MessageError(ValueError):
    """A message that is not what this version of the format allows."""


class Per(Enum):
    """What an array has one number for."""

    FEATURE = auto()
    COORDINATE = auto()  # that is wanted: of those named, by default of the features
    COLUMN = auto()  # features of the users' rows and, last, the target
    VALUE = auto()  # coordinate of a user's value
    INNER = auto()  # coordinate of the value of the question inside this one
    ONE = auto()  # the array is a number, of either sign
    CHOSEN = auto()  # the array lists coordinates
    MARK = auto()  # the array lists any number of places on a scale


class Rows(Enum):
    """Which of its rows a user answers from, and in which order."""

    ALL = auto()
    FINITE = auto()  # those without a number that is not finite
    PRESENT = auto()  # those with entries in all columns that the question is about
    DRAWN = auto()  # these, in an order drawn at random by the user: the first is any of them
    SHUFFLED = auto()  # all, in an order drawn at random by the user


PerFeature = Annotated[Floats, Per.FEATURE]
PerCoordinate = Annotated[Floats, Per.COORDINATE]
PerColumn = Annotated[Floats, Per.COLUMN]
PerValue = Annotated[Floats, Per.VALUE]
PerInner = Annotated[Floats, Per.INNER]
Marks = Annotated[Floats, Per.MARK]
Signed = Annotated[float, Per.ONE]
Coordinates = Annotated[NDArray[np.int64], Per.CHOSEN]
Prior = Annotated[float, "centre"]  # what the wire calls it


@dataclass(frozen=True)
class FieldSpec:
    """How one field of a question crosses the wire, where it has the name ``wire``.

    ``kind`` is float, int, bool or ndarray. ``per`` is what it is an array for; None: a number.
    ``most`` is the largest integer that is valid.
    """

    field: str
    wire: str
    kind: type
    per: Per | None
    required: bool
    most: int = _MAX_INTEGER

    def valid(self, value: Any) -> Any:
        """Return a field's value in its own type; raise MessageError if it is none."""
        if self.kind is np.ndarray:
            if not np.isfinite(value).all():
                raise MessageError(f"Expected finite numbers in array {self.wire!r}.")
            return value
        value = plain(value)
        if self.kind is bool and isinstance(value, bool):
            return value
        try:
            check_number(self.wire, value)
        except ValueError as error:
            raise MessageError(str(error)) from None
        if not math.isfinite(value):
            raise MessageError(f"Expected a finite float for {self.wire!r}, got {value!r}.")
        if self.kind is bool:
            return bool(value)
        if self.per is None and value <= 0:
            raise MessageError("Expected positive numbers.")
        if self.kind is int and (value != int(value) or value > self.most):
            raise integer_expected(self.wire, self.most, value)
        return self.kind(value)

    def read(self, arrays: Arrays, params: Mapping[str, object]) -> Any:
        """Return what an untrusted message has for this field, None if it has nothing."""
        given: Mapping[str, Any] = params if self.per is None else arrays
        if self.wire not in given:
            return None
        found = given[self.wire]
        if self.per is None:
            if type(found) is not float:
                raise MessageError(f"Expected a finite float for {self.wire!r}, got {found!r}.")
            if found <= 0:  # a flag, too
                raise MessageError("Expected positive numbers.")
        elif self.per is Per.ONE:
            _check_floats(self.wire, found, 1)
            return float(found[0])
        return found


def integer_expected(name: str, high: int, value: float) -> MessageError:
    """Return the error of a number that is no integer up to ``high``."""
    return MessageError(f"Expected an integer {name} of at most {high}, got {value}.")


_SLOTS: dict[type["Question"], tuple[FieldSpec, ...]] = {}


def slots(kind: type["Question"]) -> tuple[FieldSpec, ...]:
    """Return the fields of a question that cross the wire beside its name."""
    if kind not in _SLOTS:
        _SLOTS[kind] = _slots(kind)
    return _SLOTS[kind]


def _slots(kind: type["Question"]) -> tuple[FieldSpec, ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for own in fields(kind):
        hint = hints[own.name]
        if NoneType in get_args(hint):
            (hint,) = (option for option in get_args(hint) if option is not NoneType)
        plain, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        if plain is Question or plain is str:  # the inner question, the link: in the name
            continue
        per = next((mark for mark in marks if isinstance(mark, Per)), None)
        wire = next((mark for mark in marks if isinstance(mark, str)), own.name)
        most = next((mark for mark in marks if isinstance(mark, int)), _MAX_INTEGER)
        scalar = plain if plain in (float, int, bool) else np.ndarray
        found.append(FieldSpec(own.name, wire, scalar, per, own.default is MISSING, most))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Question:
    """Base class: what each user computes, with its public arguments.

    Subclasses are frozen dataclasses whose fields are these arguments. Their docstrings say
    what a user computes; :mod:`ldp_flower.clients.statistics` has the functions that do.
    Wherever there are ``coordinates`` they are those wanted (of features, or of all columns),
    by default all. MessageError if an argument is not finite, or a number not positive, unless its
    field is :data:`Signed`.
    """

    #: What the wire calls it, but for what other fields and the question inside add.
    stem: ClassVar[str] = ""
    #: What its name has behind that of the question inside, as ``stem`` is before it.
    suffix: ClassVar[str] = ""
    #: The links that it can be asked for, if it has one.
    links: ClassVar[tuple[str, ...]] = ("identity",)
    #: Whether a message can ask for it by itself, and not only within a transformation.
    alone: ClassVar[bool] = True
    #: Whether the features leave as they are beside the reports.
    features_public: ClassVar[bool] = False
    #: The rows that count.
    rows: ClassVar[Rows] = Rows.FINITE
    #: Whether users draw a part of their value at random.
    draws: ClassVar[bool] = False
    #: Number of coordinates of a user's value, where neither rows nor arguments change it.
    fixed_width: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        for slot in slots(type(self)):
            if (value := getattr(self, slot.field)) is not None:
                object.__setattr__(self, slot.field, slot.valid(value))
        if (link := getattr(self, "link", "identity")) not in self.links:
            raise MessageError(f"Expected a link in {list(self.links)}, got {link!r}.")

    @property
    def name(self) -> str:
        """What the wire, the ledger and a result call it."""
        return name_of((type(self),), getattr(self, "link", "identity"))

    def to_wire(self) -> Wire:
        """Return the name, the arrays and the numbers that cross the wire."""
        arrays: dict[str, NDArray[Any]] = {}
        params: dict[str, float] = {}
        for slot in slots(type(self)):
            value = getattr(self, slot.field)
            if value is None or value is False:
                continue
            if slot.per is None:
                params[slot.wire] = float(value)
            else:
                arrays[slot.wire] = np.array([value]) if slot.per is Per.ONE else value
        return self.name, arrays, params

    def width(self, num_features: int) -> int:
        """Return the number of coordinates of a user's value, given those of its rows.

        MessageError if the question does not fit such rows.
        """
        return self.num_wanted(num_features) if self.fixed_width is None else self.fixed_width

    def features(self, num_features: int) -> int:
        """Return the number of features that it is about, of rows with so many."""
        return num_features

    def num_wanted(self, num_features: int) -> int:
        """Return the number of coordinates that are wanted."""
        chosen = getattr(self, "coordinates", None)
        return self.features(num_features) if chosen is None else len(chosen)

    def needs_targets(self, num_features: int) -> bool:
        """Whether it is about targets, which some users do not have; of so many features."""
        return True

    @property
    def classes_asked(self) -> int:
        """Number of classes that targets are places of, from 0; 0 where they are numbers."""
        return 2 if getattr(self, "link", "") == "logistic" else 0

    @property
    def record_centre(self) -> Floats | float:
        """What a mechanism for silos adds to every record's value."""
        return 0.0

    def check(self, num_features: int, width: int) -> None:
        """Raise MessageError unless it can be asked of such rows, for reports of this width."""
        users_have = f"the node's users have {num_features} features"
        expected = self.check_arrays(num_features, users_have)
        if width != expected:
            raise MessageError(
                f"Expected a randomizer of {expected} coordinates, got {width}: {users_have}."
            )

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Raise MessageError unless all arrays fit; return the width."""
        chosen = getattr(self, "coordinates", None)
        if chosen is not None:
            check_coordinates(chosen, self.features(num_features), users_have)
        expected = self.width(num_features)
        lengths = {
            Per.FEATURE: self.features(num_features),
            Per.COORDINATE: self.num_wanted(num_features),
            Per.COLUMN: num_features + 1,
            Per.VALUE: expected,
        }
        self.check_lengths(lengths, users_have)
        return expected

    def check_lengths(self, lengths: Mapping[Per, int], users_have: str) -> None:
        """Raise MessageError unless the arrays of these kinds have these lengths."""
        for slot in slots(type(self)):
            array = getattr(self, slot.field)
            if slot.per is not None and slot.per in lengths and array is not None:
                _check_floats(slot.wire, array, lengths[slot.per], f": {users_have}")


class AboutFeatures(Question):
    """Base class: targets play no part."""

    def needs_targets(self, num_features: int) -> bool:
        """Return False."""
        return False


class OfColumns(Question):
    """Base class: all columns are features here, the target the last one."""

    def features(self, num_features: int) -> int:
        """Return one more: the target is a column, too."""
        return num_features + 1


class AboutColumns(OfColumns):
    """Base class: about some columns, and rows with entries in all of them.

    Its field ``coordinates`` names them: features or, as the last column, the target.
    """

    def needs_targets(self, num_features: int) -> bool:
        """Whether the target is among the columns."""
        return num_features in getattr(self, "coordinates")  # noqa: B009


class OneNumber(Question):
    """Base class: a user's value is one number."""

    fixed_width: ClassVar[int] = 1


def _check_floats(name: str, array: NDArray[Any], length: int, because: str = "") -> None:
    if array.ndim != 1 or array.dtype != np.float64:
        raise MessageError(f"Expected {length} floats in {name}.")
    if len(array) != length:
        raise MessageError(f"Expected {length} floats in {name}, got {len(array)}{because}.")


def check_coordinates(coordinates: NDArray[Any], num_features: int, users_have: str) -> None:
    """Raise MessageError unless these are distinct indices of so many things."""
    if coordinates.ndim != 1 or coordinates.dtype != np.int64 or not len(coordinates):
        raise MessageError("Expected a list of coordinates.")
    if coordinates.min() < 0 or coordinates.max() >= num_features:
        raise MessageError(f"Expected coordinates from 0 to {num_features - 1}: {users_have}.")
    if len(np.unique(coordinates)) != len(coordinates):
        raise MessageError("Expected distinct coordinates.")


def name_of(kinds: Sequence[type[Question]], link: str = "identity") -> str:
    """Return what the wire calls a question, given its class and, before it, those around it."""
    name = "" if link == "identity" else f"{link}_"
    name += kinds[-1].stem + kinds[-1].suffix
    for kind in reversed(kinds[:-1]):
        name = kind.stem + name + kind.suffix
    return name


def together(**given: object) -> None:
    """Raise MessageError if some of these are given and others are not."""
    if len({value is None for value in given.values()}) > 1:
        *names, last = given
        raise MessageError(f"Expected {', '.join(names)} and {last} together.")
