"""Entries: what each cell of a column is, looked at one by one before NumPy looks at all of them.

NumPy gives a column one type, which one entry can change for all others: a single text
makes texts of all integers. Here an entry becomes what it is on its own, whatever its
neighbours are, and an entry that is nothing fails nobody else. Arrays of numbers, whose
type is no longer in question, are converted at once, to the same result; see :mod:`.numbers`.

Every column of every library comes in by :func:`entries` or :func:`as_array`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: What may hold one entry a row: arrays, lists, columns of pandas.
Column = ArrayLike | Sequence[object] | Iterable[object]
T = TypeVar("T")

_POLARS_PANICS = frozenset({"String", "Date"})  # of an entry in a millisecond; Arrow is faster


class _Lost:
    """An entry that its library cannot give."""


_LOST: Final = _Lost()


def of_entry(function: Callable[[Any], T], entry: Any, otherwise: T) -> T:
    """Return what a function makes of one entry, ``otherwise`` if it fails in any way.

    A cell may hold anything, and a library written in Rust fails by what is no Exception.
    """
    try:
        return function(entry)
    except KeyboardInterrupt:  # is the operator's
        raise
    except BaseException:
        return otherwise


def has(value: Any, *names: str) -> bool:
    """Whether a value's type has attributes of these names.

    Attributes of the value itself may be labels of its index, or names of its columns.
    """
    return all(hasattr(type(value), name) for name in names)


def entries(values: Any, what: str = "a column") -> list[Any]:
    """Return a column's entries, or those of an array one after the other, as they are.

    An entry that its library cannot give is None: Arrow keeps texts that are not UTF-8, and years
    that Python has no dates for. How many there are of ``what`` is logged. Raises ValueError if it
    is one text, one value that is no column, or a set or dict, whose order is nobody's rows.
    """
    unordered = isinstance(values, str | bytes | set | frozenset | dict)
    if unordered or not isinstance(values, Iterable):
        raise ValueError(f"Expected a column, one entry a row, got {type(values).__name__}.")
    if isinstance(values, np.ndarray):
        flat = _unmasked(values).ravel()
        return list(flat) if flat.dtype.kind in "mM" else _plain(flat.tolist())
    found: list[Any] = []
    _collect(values, found)
    if lost := sum(entry is _LOST for entry in found):
        logging.getLogger(__name__).warning(
            "%d of %d entries of %s cannot be read, as a text that is not UTF-8 or a year after "
            "9999, and count as missing.",
            *(lost, len(found), what),
        )
    return _plain(found)


def _collect(column: Any, found: list[Any]) -> None:
    """Append a column's entries as its library gives them, all at once or in ever smaller parts.

    So an entry that cannot be given costs itself alone, and the others are given as ever.
    """
    array = column.array if has(column, "array") else column  # pandas'
    if str(getattr(array, "dtype", "")).startswith("dictionary"):  # Arrow's, in pandas
        column = array = array.__arrow_array__()
    if has(column, "iterchunks"):  # Arrow's: a part of many chunks would look through all of them
        for chunk in column.iterchunks():
            _collect(chunk, found)
        return
    if (coded := _coded(array)) is not None:
        codes, words = coded
        found += [None if code in (None, -1) else words.get(code, _LOST) for code in codes]
        return
    names = (name for name in ("tolist", "to_pylist", "to_list") if has(column, name))
    listing = next(names, None)
    try:
        found += list(column) if listing is None else getattr(column, listing)()
        return
    except KeyboardInterrupt:  # is the operator's
        raise
    except BaseException:  # of a library written in Rust it need not be an Exception
        if not has(column, "__len__", "__getitem__") or not len(column):
            raise
    if str(getattr(column, "dtype", "")) in _POLARS_PANICS and find_spec("pyarrow") is not None:
        _collect(column.to_arrow(), found)
        return
    if len(column) == 1:
        found.append(_LOST)
        return
    rows = column.iloc if has(column, "iloc") else column
    for part in (slice(None, len(column) // 2), slice(len(column) // 2, None)):
        _collect(rows[part], found)


def _coded(array: Any) -> tuple[list[Any], dict[int, Any]] | None:
    """Return the codes of a column of categories, and what they stand for; None if it is none.

    Neither pandas nor Arrow looks whether there is a category for each code; and pandas makes
    floats of categories that are integers, if an entry is missing.
    """
    for codes, words in (("codes", "categories"), ("indices", "dictionary")):
        if has(array, codes, words):
            known: list[Any] = []
            used, all_words = getattr(array, codes).tolist(), getattr(array, words)
            places = [i for i in set(used) - {None} if 0 <= i < len(all_words)]
            if places:  # not all: each of many chunks may have all the words of a column
                _collect(all_words.take(np.array(places)), known)
            return used, dict(zip(places, known, strict=True))
    return None


def _types(found: list[Any]) -> set[type]:
    return set(map(type, found))


def _plain(found: list[Any]) -> list[Any]:
    """Return entries with texts of Python's own type: others may bring an equality of their own."""
    types: set[type] = of_entry(_types, found, {_Lost})
    if not any(each is _Lost or issubclass(each, str) for each in types - {str}):
        return found
    return [
        None if entry is _LOST else str.__str__(entry) if issubclass(type(entry), str) else entry
        for entry in found
    ]


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, what a mask hides, or what pandas has for them."""
    if type(value) is str or type(value) is int:  # most of them
        return False
    return value is None or of_entry(_differs, value, True)


def _differs(value: Any) -> bool:
    differs = value != value
    return differs is np.ma.masked or bool(differs)  # pandas' own has no truth


def is_blank(value: Any) -> bool:
    """Whether a cell holds nothing, or a text of nothing but spaces."""
    return not value.strip() if type(value) is str else is_missing(value)


def columns_of(table: Any) -> list[tuple[str, Any]] | None:
    """Return a table's columns with their names; None of what is no table."""
    if has(table, "iloc", "columns"):  # pandas', of which several may have one name
        return [(str(name), table.iloc[:, i]) for i, name in enumerate(table.columns)]
    if has(table, "iter_columns"):  # polars'
        return [(column.name, column) for column in table.iter_columns()]
    if has(table, "itercolumns", "column_names"):
        return list(zip(table.column_names, table.itercolumns(), strict=True))
    return None


def as_array(values: Any) -> NDArray[Any] | None:
    """Return what is an array already, or a column that stands for one; None for a list.

    None as well for columns of types that only their library has, of which NumPy makes another
    type if an entry is missing: their entries are looked at one by one.
    """
    if isinstance(values, np.ndarray):
        return _unmasked(values)
    kind = getattr(values, "dtype", None)  # tensors have one of their own, and no missing entries
    own_type = not (kind is None or isinstance(kind, np.dtype) or has(values, "__dlpack__"))
    if own_type or has(values, "to_pylist") or not has(values, "__array__"):
        return None
    return of_entry(np.asarray, values, None)  # PyTorch has types that NumPy has not


def _unmasked(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in which what a mask hides is missing, whatever lies beneath it."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    hidden = np.ma.getmaskarray(array)
    if hidden.dtype.names:  # a record is hidden with any of its fields
        hidden = np.asarray(hidden.view(np.bool_).reshape(*hidden.shape, -1).any(axis=-1))
    has_own = array.dtype.kind in "mMfc"  # NaT or NaN
    shown = np.array(array.data, None if has_own else object)
    shown[hidden] = "NaT" if array.dtype.kind in "mM" else np.nan if has_own else None
    return shown
