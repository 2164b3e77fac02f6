"""Names of users, which are accounts on a ledger; a person must not have two accounts."""

import re
from typing import Any, Final, Literal, get_args
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ..validation import check_choice
from .entries import Column, as_array, entries, is_blank
from .merged import exact_below

#: Treatment of rows without the name of a user: raise an error, or leave them out.
MissingIds = Literal["raise", "drop"]

_MAX_NAME_CHARS = 256  # characters; arrays of texts are as wide as their longest text
_NOT_KEPT: Final = re.compile("[\0\ud800-\udfff]")
_MAX_ROWS_NAMED = 5


def check_missing_ids(missing_ids: str, named: object) -> None:
    """Raise ValueError for an unknown choice, or for "drop" without names of users."""
    check_choice("missing_ids", missing_ids, get_args(MissingIds))
    if missing_ids == "drop" and named is None:
        raise ValueError('Expected missing_ids="drop" only where the user of each row is named.')


def as_names(
    argument: str, values: Column, missing_ids: MissingIds = "raise"
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names of a column, and for each entry the index of its name.

    Names are accounts on the ledger, and one person must not have two accounts. So names are either
    all texts, sorted, or all integers, in order of size. 7 and ``np.int64(7)`` are the same name.
    None, NaN and blank texts are missing. A missing entry raises ValueError or, with "drop", has
    the index -1. Raise ValueError also if texts and integers are mixed, if entries have another
    type, or if :func:`check_names` refuses the names.
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
            f"Expected {argument} without missing entries, got {missing_rows(absent)}. Fill them "
            'in, or leave these rows out: missing_ids="drop" (--drop-missing-ids).'
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


def missing_rows(absent: NDArray[np.bool_]) -> str:
    """Return a text with the number of rows in a mask of missing names, and the first of them."""
    rows = np.flatnonzero(absent)
    first = ", ".join(map(str, rows[:_MAX_ROWS_NAMED]))
    more = ", ..." if len(rows) > _MAX_ROWS_NAMED else ""
    which = f"row{'s' if len(rows) > 1 else ''} {first}{more}, counted from 0"
    return f"{len(rows)} of {len(absent)} ({which})"


def _whole(
    argument: str, array: NDArray[Any] | None, listed: list[Any], absent: NDArray[np.bool_]
) -> list[Any]:
    """Return the entries ``listed``, with whole floats as integers and None for missing entries.

    pandas makes floats of integers if one is missing. Other entries stay unchanged. Raise
    ValueError if integers are so large that one float stands for several of them.
    """
    if array is None or array.dtype.kind != "f":
        return listed
    known, exact = array[~absent], exact_below(array.dtype)
    if not (known == np.floor(known)).all():
        return listed
    if (np.abs(known) >= exact).any():
        raise ValueError(
            f"Expected integers below 2**{exact.bit_length() - 1} in {argument}, which are floats "
            "as some are missing: larger integers are not told apart. Read the column as text."
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
    """Raise ValueError unless a ledger can store these distinct names, one per user.

    Two spellings of a name would be two accounts of one person. Spellings differ by spaces around
    the name, or by accents as separate characters (NFD) or not (NFC).
    """
    if (longest := max(map(len, names), default=0)) > _MAX_NAME_CHARS:
        raise ValueError(
            f"Expected {argument} of at most {_MAX_NAME_CHARS} characters, got {longest}."
        )
    if _NOT_KEPT.search("".join(names)):
        wrong = next(filter(_NOT_KEPT.search, names))
        raise ValueError(f"Expected {argument} without NUL and surrogates, got {wrong!r}.")
    spelled = [normalize("NFC", name).strip() for name in names]
    if spelled == names:  # the usual case, checked fast
        return
    known: dict[str, str] = {}
    for name, spelling in zip(names, spelled, strict=True):
        if (other := known.setdefault(spelling, name)) != name:
            raise ValueError(
                f"Expected one spelling of each name in {argument}, got {other!a} and {name!a}: "
                "two names would be two users, each of whom spends a whole budget."
            )
