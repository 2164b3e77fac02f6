"""Checks of constructor arguments, all with the same wording."""

import math
from collections.abc import Iterable


def check_positive(name: str, value: float) -> None:
    """Raise ValueError unless ``value`` is a finite number above 0."""
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"Expected {name} > 0 and finite, got {value}.")


def check_integer(name: str, value: int, low: int, high: int | None = None) -> None:
    """Raise ValueError unless ``value`` is an integer in ``[low, high]``."""
    allowed = f"{name} >= {low}" if high is None else f"{low} <= {name} <= {high}"
    too_high = high is not None and value > high
    if isinstance(value, bool) or int(value) != value or value < low or too_high:
        raise ValueError(f"Expected an integer {allowed}, got {value}.")


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless ``0 < value < 1``."""
    if not 0 < value < 1:
        raise ValueError(f"Expected 0 < {name} < 1, got {value}.")


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raise ValueError unless ``value`` is one of the allowed ones."""
    choices = list(allowed)
    if value not in choices:
        raise ValueError(f"Expected {name} in {choices}, got {value!r}.")
