"""Types of the fields of questions: their encoding on the wire, and their checks.

A field's annotation defines its encoding and its checks. A float or an integer is a positive
number, and a bool is a flag. The :class:`Per` of an array says for which things (features, columns,
coordinates) it has one number each.
``Annotated[int, 16]`` has the largest value 16, so that a message cannot demand too large a
computation. A field with a default is optional: it crosses the wire only if it is given.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ..validation import Floats, check_number, plain

Arrays = Mapping[str, NDArray[Any]]

MOST_MARKS = 1 << 12  # largest number of marks that a message can request
_MAX_INTEGER = 1 << 53  # a float can represent all integers up to this number


class MessageError(ValueError):
    """Error of a message that this version of the format does not allow."""


class Per(Enum):
    """Meaning of an array's entries: the kind of thing for which it has one number each."""

    FEATURE = auto()
    COORDINATE = auto()  # a wanted coordinate: those in ``coordinates``, by default all features
    COLUMN = auto()  # a column: the features of the users' rows and, last, the target
    VALUE = auto()  # a coordinate of a user's value
    INNER = auto()  # a coordinate of the value of the inner question
    ONE = auto()  # the array holds one number, of either sign
    CHOSEN = auto()  # the array lists coordinates
    MARK = auto()  # the array lists numbers, such as edges of bins, and may have any length
    LETTER = auto()  # the array holds the bytes of a text


PerFeature = Annotated[Floats, Per.FEATURE]
PerCoordinate = Annotated[Floats, Per.COORDINATE]
PerColumn = Annotated[Floats, Per.COLUMN]
PerValue = Annotated[Floats, Per.VALUE]
PerInner = Annotated[Floats, Per.INNER]
Marks = Annotated[Floats, Per.MARK]
Signed = Annotated[float, Per.ONE]
Coordinates = Annotated[NDArray[np.int64], Per.CHOSEN]
Letters = Annotated[NDArray[np.uint8], Per.LETTER]
Prior = Annotated[float, "centre"]  # a field of this type has the name "centre" on the wire


@dataclass(frozen=True)
class FieldSpec:
    """Encoding of one field of a question on the wire, where the field has the name ``wire``.

    ``kind`` is float, int, bool or ndarray. ``per`` is the meaning of an array's entries, or None
    for a field that crosses the wire as a number. ``most`` is the largest valid integer.
    """

    field: str
    wire: str
    kind: type
    per: Per | None
    required: bool
    most: int = _MAX_INTEGER

    def valid(self, value: Any) -> Any:
        """Return a field's value, converted to its type; raise MessageError if it is invalid."""
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
        """Return this field's value in an untrusted message, or None if the field is missing."""
        given: Mapping[str, Any] = params if self.per is None else arrays
        if self.wire not in given:
            return None
        found = given[self.wire]
        if self.per is None:
            if type(found) is not float:
                raise MessageError(f"Expected a finite float for {self.wire!r}, got {found!r}.")
            if found <= 0:  # flags have to be positive, too
                raise MessageError("Expected positive numbers.")
        elif self.per is Per.ONE:
            check_floats(self.wire, found, 1)
            return float(found[0])
        return found


def integer_expected(name: str, high: int, value: float) -> MessageError:
    """Return the error to raise for an argument that is not an integer up to ``high``."""
    return MessageError(f"Expected an integer {name} of at most {high}, got {value}.")


def check_floats(name: str, array: NDArray[Any], length: int, because: str = "") -> None:
    """Raise MessageError unless ``array`` lists ``length`` floats, all of them finite.

    The error names the array's field, and ends with the reason for its length, ``because``.
    """
    if array.ndim != 1 or array.dtype != np.float64:
        raise MessageError(f"Expected {length} floats in {name}.")
    if len(array) != length:
        raise MessageError(f"Expected {length} floats in {name}, got {len(array)}{because}.")


def check_marks(name: str, marks: Marks, increasing: bool = False) -> None:
    """Raise MessageError unless ``marks`` lists 1 to ``MOST_MARKS`` positions on a scale.

    If ``increasing``, the positions must also increase.
    """
    if marks.ndim != 1 or marks.dtype != np.float64 or not 1 <= len(marks) <= MOST_MARKS:
        raise MessageError(f"Expected from 1 to {MOST_MARKS} floats in {name}.")
    if increasing and (np.diff(marks) <= 0).any():
        raise MessageError(f"Expected {name} that increase.")
