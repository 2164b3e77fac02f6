"""Argument handling: conversion to Python's own numbers, checks, and types of arrays."""

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, partial, wraps
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Check = Callable[[str, Any], None]

MAX_INTEGER = (1 << 63) - 1  # largest integer that messages and arrays hold


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a value of Python's types; return anything else unchanged.

    Arrays without dimensions count as scalars. Numbers of classes that are derived from Python's
    int or float become int or float. The reasons: messages accept only Python's numbers, NumPy
    numbers of a few bytes overflow and round, and a derived class may have its own arithmetic.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0 and not value.dtype.hasobject:
        value = value[()]
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.integer | np.bool_ | np.str_) and not _is_duration(value):
        return value.item()
    return own_number(value)


def own_number(value: Any) -> Any:
    """Return a number of a class derived from int or float as int or float.

    The methods of the derived class are not used. Anything else is returned unchanged, also members
    of an enumeration, True and False.
    """
    kind = type(value)
    if issubclass(kind, float) and not issubclass(kind, Enum):
        return float.__float__(value)
    if issubclass(kind, int) and not issubclass(kind, bool | Enum):
        return int.__int__(value)
    return value


def _is_duration(value: object) -> bool:
    """Return True if ``value`` is a NumPy duration; NumPy treats durations as integers."""
    return isinstance(value, np.timedelta64)


def of_type(name: str, value: Any, kind: Any, ranged: bool = False) -> Any:
    """Return an argument's value in the type ``kind`` of its annotation, with Python's numbers.

    An integer becomes a float if the annotation asks for floats, also inside lists and tuples. If
    ``ranged``, a later check compares the argument with a range. This function then accepts values
    that are not integers, since the error of the later check names both the type and the range.

    Raises
    ------
    ValueError
        If the annotation asks for a number and the value is not a number, is not an integer where
        one is required, is larger than any float, or fails a check of the annotation (such as
        :data:`Positive`).
    """
    if isinstance(value, list | tuple | np.ndarray) and (member := _member(kind)) is not None:
        own = [of_type(name, each, member) for each in value]
        return tuple(own) if isinstance(value, tuple) else own
    value, (kinds, checks) = plain(value), _options(kind)
    if value is None and NoneType in kinds:
        return None
    if kinds <= {int, float, NoneType}:
        if isinstance(value, Enum):
            value = own_number(value.value)
        for check in checks:
            check(name, value)
        if float in kinds:
            check_number(name, value)
        elif not (ranged or is_integer(value)):
            raise ValueError(f"Expected an integer {name}, got {_shown(value)}.")
    if float in kinds and int not in kinds and is_integer(value):
        return _as_float(name, value)
    return value


def _as_float(name: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        most = sys.float_info.max
        raise ValueError(
            f"Expected -{most:.3g} <= {name} <= {most:.3g}, got {_shown(value)}."
        ) from None


def _shown(value: object) -> str:
    """Return the text of a value for an error message, short even for huge integers."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


@cache
def _options(kind: Any) -> tuple[frozenset[Any], tuple[Check, ...]]:
    """Return the types that an annotation allows, and the functions that check a value of it."""
    if get_origin(kind) is Annotated:
        own, *marks = get_args(kind)
        kinds, checks = _options(own)
        return kinds, (*checks, *(mark for mark in marks if callable(mark)))
    if get_origin(kind) in (Union, UnionType):
        options = [_options(each) for each in get_args(kind)]
        return frozenset().union(*(kinds for kinds, _ in options)), tuple(
            check for _, checks in options for check in checks
        )
    return frozenset({kind}), ()


@cache
def _member(kind: Any) -> Any:
    """Return the type of the items of sequences that an annotation allows, if they are numbers."""
    members = (
        get_args(option)[0]
        for option in _options(kind)[0]
        if get_origin(option) in (Sequence, Iterable, list, tuple) and get_args(option)
    )
    return next((member for member in members if {int, float} & _options(member)[0]), None)


class PlainFields:
    """Base class of dataclasses that convert and check their fields with :func:`of_type`.

    A field of type ``Literal`` must have one of the listed values. A subclass that defines
    ``__post_init__`` must first call the ``__post_init__`` of this class.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if not field.init:
                continue
            given = getattr(self, field.name)
            if get_origin(field.type) is Literal:
                check_choice(field.name, given, get_args(field.type))
            if (own := of_type(field.name, given, field.type, ranged=True)) is not given:
                object.__setattr__(self, field.name, own)


P = ParamSpec("P")
R = TypeVar("R")


def plain_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that :func:`of_type` converts its annotated arguments."""
    known = signature(function)
    kinds = {
        name: parameter.annotation
        for name, parameter in known.parameters.items()
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = known.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's own error names the function
        for name, value in bound.arguments.items():
            if name in kinds:
                bound.arguments[name] = of_type(name, value, kinds[name])
        return function(*bound.args, **bound.kwargs)

    return called


def is_integer(value: object) -> bool:
    """Return True if a value's type is an integer type; True, 2.0 and durations do not count."""
    value = plain(value)
    return isinstance(value, int) and not isinstance(value, bool)


def check_number(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is an integer or a float, Python's or NumPy's."""
    if not (is_integer(value) or isinstance(plain(value), float)):
        raise ValueError(f"Expected {name} to be a number, got {value!r}.")
    _as_float(name, value)


def check_positive(name: str, value: float) -> None:
    """Raise ValueError unless ``value`` is a finite number above 0."""
    check_number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"Expected {name} > 0 and finite, got {value}.")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError unless ``value`` is a number in ``[low, high]``."""
    check_number(name, value)
    if not low <= value <= high:
        raise ValueError(f"Expected {low:g} <= {name} <= {high:g}, got {value}.")


def check_integer(name: str, value: int, low: int, high: int | None = None) -> None:
    """Raise ValueError unless ``value`` is an integer in ``[low, high]``.

    Without ``high``, the largest integer of 64 bits (:data:`MAX_INTEGER`) is the limit.
    """
    value, most = plain(value), MAX_INTEGER if high is None else high
    if not is_integer(value) or not low <= value <= most:
        open_end = high is None and not (is_integer(value) and value > most)
        allowed = f"{name} >= {low}" if open_end else f"{low} <= {name} <= {most}"
        raise ValueError(f"Expected an integer {allowed}, got {_shown(value)}.")


def check_seed(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is None or an integer; there is no range."""
    if not (value is None or is_integer(value)):
        raise ValueError(f"Expected an integer {name}, got {value!r}.")


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless ``0 < value < 1``."""
    check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"Expected 0 < {name} < 1, got {value}.")


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raise ValueError unless ``value`` is one of the allowed values."""
    choices = list(allowed)
    if not isinstance(value, Hashable) or value not in choices:
        raise ValueError(f"Expected {name} in {choices}, got {value!r}.")


def check_truth(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"Expected {name} true or false, got {value!r}.")


def check_unused(instance: Any, mode: str, *names: str) -> None:
    """Raise ValueError if one of these arguments of ``instance`` is not at its default.

    They have no effect in the chosen mode. The error names the argument and the ``mode``, a text
    such as ``'with noise="node"'``.
    """
    for field in fields(instance):
        if field.name in names and (value := getattr(instance, field.name)) != field.default:
            raise ValueError(
                f"Expected no {field.name} {mode}, where it has no effect, got {_shown(value)}."
            )


# Field types that restrict the numbers that a field accepts.
Positive = Annotated[float, check_positive]  # above 0 and finite
Fraction = Annotated[float, check_fraction]  # in (0, 1)
Count = Annotated[int, partial(check_integer, low=1)]
Seconds = Annotated[float, partial(check_range, low=0, high=math.inf)]
