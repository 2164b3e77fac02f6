"""Whole floats that may stand for several integers: a missing entry makes floats of integers."""

import math
from typing import Any, Final

import numpy as np

from .entries import as_array, of_entry

EXACT: Final = 1 << 53  # from here on Python's own floats do not tell integers apart


def exact_below(kind: Any) -> int:
    """Return below which number whole floats of a type stand for one integer each."""
    if not (isinstance(kind, type | np.dtype) and np.issubdtype(kind, np.floating)):
        return EXACT
    return int(min(EXACT, 2 ** (int(np.finfo(kind).nmant) + 1)))


def exact_in(column: Any) -> int:
    """Return the same of a column's floats, whose entries may be given as wider ones."""
    array = as_array(column)
    return EXACT if array is None else exact_below(array.dtype)


def is_merged(value: object, exact: int = EXACT) -> bool:
    """Whether an entry is a float that may stand for several integers."""
    kind = type(value)
    return issubclass(kind, float | np.floating) and of_entry(
        lambda entry: min(exact, exact_below(kind)) <= abs(float(entry)) < math.inf, value, False
    )
