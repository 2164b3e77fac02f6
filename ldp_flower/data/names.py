"""Names of users: accounts on a ledger, of which one person must not have two."""

import re
from typing import Any, Final, Literal
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ..validation import check_choice
from .entries import Column, as_array, entries, is_blank
from .merged import exact_below

#: What becomes of rows without the name of a user: an error, or they are left out.
MissingIds = Literal["raise", "drop"]

_CHOICES: Final = ("raise", "drop")
_MAX_NAME_CHARS = 256  # characters; arrays of texts are as wide as their longest one
_NOT_KEPT: Final = re.compile("[\0\ud800-\udfff]")
_MAX_ROWS_NAMED = 5


def check_missing_ids(missing_ids: str, named: object) -> None:
    """Raise ValueError for what is no choice, or has no effect as nothing is named."""
    check_choice("missing_ids", missing_ids, _CHOICES)
    if missing_ids == "drop" and named is None:
        raise ValueError('Expected missing_ids="drop" only where the user of each row is named.')


def as_names(
    argument: str, values: Column, missing_ids: MissingIds = "raise"
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names of a column, and which of them each entry is.

    Names are accounts on the ledger, where one person must not have two: they are all texts, in
    their order, or all integers, in order of size. 7 and ``np.int64(7)`` are the same. None, NaN
    and texts of nothing but spaces are missing, which raises ValueError or, if they are to be
    dropped, is -1. Raises ValueError as well if entries are anything else or both, or by
    :func:`check_names`.
    """
    array = as_array(values)
    if array is not None and array.ndim != 1:
        raise ValueError(f"Expected one entry a row in {argument}, got shape {array.shape}.")
    if array is not None and array.dtype.kind in "iu":
        unique, which = np.unique(array, return_inverse=True)
        return unique.astype(np.str_).tolist(), which.astype(np.int64)
    listed = entries(values)
    absent = np.fromiter(map(is_blank, listed), np.bool_, len(listed))
    if missing_ids == "raise" and absent.any():
        raise ValueError(
            f"Expected {argument} without missing entries, got {_rows(absent)}. Fill them in, or "
            'leave these rows out: missing_ids="drop" (--drop-missing-ids).'
        )
    if absent.any():
        listed = _whole(argument, array, listed, absent)
    named = [name for name, none in zip(listed, absent, strict=True) if not none]
    kinds = set(map(_kind_of_name, set(map(type, named))))
    if not (kinds <= {"str"} or kinds <= {"int"}):
        raise ValueError(
            f"Expected {argument} to be strings or integers, all of one type, "
            f"got {' and '.join(sorted(kinds))}. Read the column as text."
        )
    distinct = sorted(set(named))
    place = {name: i for i, name in enumerate(distinct)}
    which = np.full(len(listed), -1)
    which[~absent] = np.fromiter((place[name] for name in named), np.int64, len(named))
    texts = [_text(argument, name) for name in distinct]
    check_names(argument, texts)
    return texts, which


def missing_rows(which: NDArray[np.int64]) -> str:
    """Return how many rows have no user, and the first of them; empty if there are none."""
    return _rows(which < 0) if (which < 0).any() else ""


def _rows(absent: NDArray[np.bool_]) -> str:
    rows = np.flatnonzero(absent)
    first = ", ".join(map(str, rows[:_MAX_ROWS_NAMED]))
    more = ", ..." if len(rows) > _MAX_ROWS_NAMED else ""
    which = f"row{'s' if len(rows) > 1 else ''} {first}{more}, counted from 0"
    return f"{len(rows)} of {len(absent)} ({which})"


def _whole(
    argument: str, array: NDArray[Any] | None, listed: list[Any], absent: NDArray[np.bool_]
) -> list[Any]:
    """Return pandas' integers, of which it makes floats beside a missing entry; others as is.

    Raises ValueError if they are too large for floats to tell them apart.
    """
    if array is None or array.dtype.kind != "f":
        return listed
    if not (array[~absent] == np.floor(array[~absent])).all():
        return listed
    exact = exact_below(array.dtype)
    if (np.abs(array[~absent]) >= exact).any():
        raise ValueError(
            f"Expected integers below 2**{exact.bit_length() - 1} in {argument}, which are floats "
            "as some are missing: larger ones are not told apart. Read the column as text."
        )
    return [None if none else int(name) for name, none in zip(listed, absent, strict=True)]


def _kind_of_name(kind: type) -> str:
    if issubclass(kind, bool | np.timedelta64):
        return kind.__name__
    return "int" if issubclass(kind, int | np.integer) else kind.__name__


def _text(argument: str, name: Any) -> str:
    if isinstance(name, str):
        return name
    if int(name).bit_length() > 3 * _MAX_NAME_CHARS:
        raise ValueError(
            f"Expected {argument} of at most {_MAX_NAME_CHARS} characters, "
            f"got an integer of {int(name).bit_length()} bits."
        )
    return str(int(name))


def check_names(argument: str, names: list[str]) -> None:
    """Raise ValueError unless a ledger can keep these distinct names, each of them another user's.

    Two spellings of one name are two accounts of one person: with spaces around it or without, or
    with accents as characters of their own (NFD) or not (NFC).
    """
    if (longest := max(map(len, names), default=0)) > _MAX_NAME_CHARS:
        raise ValueError(
            f"Expected {argument} of at most {_MAX_NAME_CHARS} characters, got {longest}."
        )
    if _NOT_KEPT.search("".join(names)):
        wrong = next(filter(_NOT_KEPT.search, names))
        raise ValueError(f"Expected {argument} without NUL and surrogates, got {wrong!r}.")
    spelled = [normalize("NFC", name).strip() for name in names]
    if spelled == names:  # most of the time, and known at once
        return
    known: dict[str, str] = {}
    for name, spelling in zip(names, spelled, strict=True):
        if (other := known.setdefault(spelling, name)) != name:
            raise ValueError(
                f"Expected one spelling of each name in {argument}, got {other!a} and {name!a}: "
                "of two users each would spend a whole budget."
            )
