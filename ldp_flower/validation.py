"""Checks of constructor arguments, all with the same wording, and the types of arrays."""

import math
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def plain(value: Any) -> Any:
    """Return Python's own number for a NumPy scalar, and anything else as it is.

    Messages take Python's numbers only, and those of a few bytes overflow and round.
    """
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def make_plain(instance: Any) -> None:
    """Replace the NumPy scalars among a dataclass's fields by Python's own numbers."""
    for field in fields(instance):
        if field.init and isinstance(value := getattr(instance, field.name), np.generic):
            object.__setattr__(instance, field.name, plain(value))


def is_integer(value: object) -> bool:
    """Whether a value is an integer by its type: neither True nor 2.0 are, nor durations."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def check_number(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is an integer or a float, Python's or NumPy's."""
    if not (is_integer(value) or isinstance(value, float | np.floating)):
        raise ValueError(f"Expected {name} to be a number, got {value!r}.")


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
    """Raise ValueError unless ``value`` is an integer in ``[low, high]``."""
    allowed = f"{name} >= {low}" if high is None else f"{low} <= {name} <= {high}"
    if not is_integer(value) or value < low or (high is not None and value > high):
        raise ValueError(f"Expected an integer {allowed}, got {plain(value)!r}.")


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless ``0 < value < 1``."""
    check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"Expected 0 < {name} < 1, got {value}.")


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raise ValueError unless ``value`` is one of the allowed ones."""
    choices = list(allowed)
    if value not in choices:
        raise ValueError(f"Expected {name} in {choices}, got {value!r}.")


def check_unused(instance: Any, mode: str, *names: str) -> None:
    """Raise ValueError if an argument is given that has no effect in the chosen mode."""
    for field in fields(instance):
        if field.name in names and (value := getattr(instance, field.name)) != field.default:
            raise ValueError(
                f"Expected no {field.name} {mode}, where it has no effect, got {value!r}."
            )


def check_optional(instance: Any, *names: str) -> None:
    """Raise ValueError unless each of these arguments is None or a finite number above 0."""
    for name in names:
        if (value := getattr(instance, name)) is not None:
            check_positive(name, value)


# Types of fields that say which numbers they take.
Positive = Annotated[float, check_positive]  # finite
Fraction = Annotated[float, check_fraction]  # in (0, 1)
Count = Annotated[int, partial(check_integer, low=1)]


def check_fields(instance: Any) -> None:
    """Raise ValueError if a field's value is none of its type (``Positive | None`` allows None).

    Types that are checked are those above, and ``Literal`` of texts.
    """
    for field in fields(instance):
        value = getattr(instance, field.name)
        if get_origin(field.type) is Literal:
            check_choice(field.name, value, get_args(field.type))
        for kind in (field.type, *get_args(field.type)):
            for check in getattr(kind, "__metadata__", ()):
                if kind is field.type or value is not None:
                    check(field.name, value)
