"""Base classes of questions: what a question says of itself, and how it fits users and wire.

The types of a question's fields are in :mod:`.fields`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum, auto
from types import NoneType
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..validation import Floats
from .fields import (
    Coordinates,
    FieldSpec,
    MessageError,
    Per,
    check_floats,
)

Wire = tuple[str, dict[str, NDArray[Any]], dict[str, float]]


class Rows(Enum):
    """Selection and order of the user's rows that a question uses."""

    ALL = auto()
    FINITE = auto()  # rows whose numbers are all finite
    PRESENT = auto()  # rows with entries in all columns that the question is about
    DRAWN = auto()  # the rows of PRESENT, in a random order that the user draws
    SHUFFLED = auto()  # all rows, in a random order that the user draws


_SLOTS: dict[type["Question"], tuple[FieldSpec, ...]] = {}


def slots(kind: type["Question"]) -> tuple[FieldSpec, ...]:
    """Return the encodings for the wire of a question class's fields, in their order."""
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
        if plain is Question or plain is str:  # the name encodes the inner question and the link
            continue
        per = next((mark for mark in marks if isinstance(mark, Per)), None)
        wire = next((mark for mark in marks if isinstance(mark, str)), own.name)
        most = next((mark for mark in marks if isinstance(mark, int)), FieldSpec.most)
        scalar = plain if plain in (float, int, bool) else np.ndarray
        found.append(FieldSpec(own.name, wire, scalar, per, own.default is MISSING, most))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Question:
    """Base class of questions: a computation on each user's rows, with its public arguments.

    Subclasses are frozen dataclasses whose fields are these arguments. Their docstrings describe
    the value that a user computes. The functions that compute it are in
    :mod:`ldp_flower.clients.statistics`. A field ``coordinates`` lists the wanted coordinates of
    the features (or of all columns), by default all. A question raises MessageError if an argument
    is not finite, or if a number is not positive and its field is not :data:`~.fields.Signed`.
    """

    #: Name of the question on the wire, without the parts for its link and its inner question.
    stem: ClassVar[str] = ""
    #: Part of the name that follows the inner question's name, as ``stem`` precedes it.
    suffix: ClassVar[str] = ""
    #: Links that the question allows, if it has a link.
    links: ClassVar[tuple[str, ...]] = ("identity",)
    #: True if a message can ask the question by itself, without a transformation around it.
    alone: ClassVar[bool] = True
    #: True if the features are sent beside the reports without randomisation.
    features_public: ClassVar[bool] = False
    #: The rows that the question uses.
    rows: ClassVar[Rows] = Rows.FINITE
    #: True if users draw a part of their value at random.
    draws: ClassVar[bool] = False
    #: Number of coordinates of a user's value, if neither rows nor arguments change it.
    fixed_width: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        for slot in slots(type(self)):
            if (value := getattr(self, slot.field)) is not None:
                object.__setattr__(self, slot.field, slot.valid(value))
        if (link := getattr(self, "link", "identity")) not in self.links:
            raise MessageError(f"Expected a link in {list(self.links)}, got {link!r}.")

    @property
    def name(self) -> str:
        """Name of the question on the wire, in the ledger and in a result."""
        return name_of((type(self),), getattr(self, "link", "identity"))

    def to_wire(self) -> Wire:
        """Return the question's encoding for the wire: its name, arrays and numbers."""
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
        """Return the number of coordinates of a user's value, for rows of ``num_features``.

        Raise MessageError if the question does not fit such rows.
        """
        return self.num_wanted(num_features) if self.fixed_width is None else self.fixed_width

    def features(self, num_features: int) -> int:
        """Return how many features the question works on, before some of them are selected.

        By default this is ``num_features``. It is one more if the target counts as a feature, and
        another number if rows are projected first.
        """
        return num_features

    def num_wanted(self, num_features: int) -> int:
        """Return the number of wanted coordinates: those in ``coordinates``, or all features."""
        chosen = getattr(self, "coordinates", None)
        return self.features(num_features) if chosen is None else len(chosen)

    def needs_targets(self, num_features: int) -> bool:
        """Return True if the question uses targets, which some users do not have.

        ``num_features`` is the number of features of the users' rows.
        """
        return True

    def reads(self, num_features: int) -> Sequence[int] | None:
        """Return the indices of all columns that may change a user's value.

        The target has the last index. By default these are all columns, since a row counts only if
        all its entries are finite. Return None if the columns are not known.
        """
        return range(num_features + 1)

    @property
    def classes_asked(self) -> int:
        """Number of classes if the question treats targets as class indices from 0; otherwise 0."""
        return 2 if getattr(self, "link", "") == "logistic" else 0

    @property
    def record_centre(self) -> Floats | float:
        """Public vector that a mechanism for silos adds to every record's value, after clipping."""
        return 0.0

    def check(self, num_features: int, width: int) -> None:
        """Raise MessageError unless the question fits the rows and the randomizer.

        Rows have ``num_features`` features, and the randomizer takes values of ``width``
        coordinates.
        """
        users_have = f"the node's users have {num_features} features"
        expected = self.check_arrays(num_features, users_have)
        if width != expected:
            raise MessageError(
                f"Expected a randomizer of {expected} coordinates, got {width}: {users_have}."
            )

    def check_arrays(self, num_features: int, users_have: str) -> int:
        """Raise MessageError unless all arrays fit the users' rows; return the value's width."""
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
        """Raise MessageError unless the arrays of each kind in ``lengths`` have its length.

        ``users_have`` ends the error: the number of features that the length follows from.
        """
        for slot in slots(type(self)):
            array = getattr(self, slot.field)
            if slot.per is not None and slot.per in lengths and array is not None:
                check_floats(slot.wire, array, lengths[slot.per], f": {users_have}")


class AboutFeatures(Question):
    """Base class of questions that use features but no targets."""

    def needs_targets(self, num_features: int) -> bool:
        """Return False, since the question uses features only."""
        return False


class OfColumns(Question):
    """Base class of questions that treat the target as the last feature."""

    def features(self, num_features: int) -> int:
        """Return ``num_features + 1``, since the target counts as a feature."""
        return num_features + 1


class AboutColumns(OfColumns):
    """Base class of questions about some columns, and about the rows with entries in all of them.

    The field ``coordinates`` lists the columns: features or, as the last column, the target.
    """

    coordinates: Coordinates

    def needs_targets(self, num_features: int) -> bool:
        """Return True if the target is among the columns."""
        return num_features in self.coordinates

    def reads(self, num_features: int) -> Sequence[int]:
        """Return the indices of the columns in the field ``coordinates``."""
        return list(map(int, self.coordinates))


class OneNumber(Question):
    """Base class of questions whose value is one number per user."""

    fixed_width: ClassVar[int] = 1


def check_coordinates(coordinates: NDArray[Any], num_features: int, users_have: str) -> None:
    """Raise MessageError unless ``coordinates`` are distinct indices below ``num_features``."""
    if coordinates.ndim != 1 or coordinates.dtype != np.int64 or not len(coordinates):
        raise MessageError("Expected a list of coordinates.")
    if coordinates.min() < 0 or coordinates.max() >= num_features:
        raise MessageError(f"Expected coordinates from 0 to {num_features - 1}: {users_have}.")
    if len(np.unique(coordinates)) != len(coordinates):
        raise MessageError("Expected distinct coordinates.")


def name_of(kinds: Sequence[type[Question]], link: str = "identity") -> str:
    """Return a question's name on the wire.

    ``kinds`` are the classes of the transformations around the question, outermost first, and last
    the question's class.
    """
    name = "" if link == "identity" else f"{link}_"
    name += kinds[-1].stem + kinds[-1].suffix
    for kind in reversed(kinds[:-1]):
        name = kind.stem + name + kind.suffix
    return name


def check_together(**given: object) -> None:
    """Raise MessageError if some of the named arguments are given and others are None."""
    if len({value is None for value in given.values()}) > 1:
        *names, last = given
        raise MessageError(f"Expected {', '.join(names)} and {last} together.")
