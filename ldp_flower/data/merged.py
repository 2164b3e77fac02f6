"""Whole floats that may stand for several integers, so that two users or items could be one.

pandas makes floats of the integers of a column with a missing entry. Both 2**53 and 2**53 + 1 then
become the float 2.0**53. Names, items and categories from such columns are refused or missing.
"""

import math
from typing import Any, Final

import numpy as np

from .entries import as_array, of_entry

EXACT: Final = 1 << 53  # from here on, one Python float can stand for several integers


def exact_below(kind: Any) -> int:
    """Return the number below which every whole float of the type ``kind`` is one integer only."""
    if not (isinstance(kind, type | np.dtype) and np.issubdtype(kind, np.floating)):
        return EXACT
    return int(min(EXACT, 2 ** (int(np.finfo(kind).nmant) + 1)))


def exact_in(column: Any) -> int:
    """Return the bound of :func:`exact_below` for a column; that of Python's floats for a list."""
    array = as_array(column)
    return EXACT if array is None else exact_below(array.dtype)


def is_merged(value: object, exact: int = EXACT) -> bool:
    """Return True if an entry is a finite float that several integers may be rounded to.

    Such floats begin at ``exact``, or at the bound of the entry's own type if that is smaller.
    """
    kind = type(value)
    return issubclass(kind, float | np.floating) and of_entry(
        lambda entry: min(exact, exact_below(kind)) <= abs(float(entry)) < math.inf, value, False
    )
