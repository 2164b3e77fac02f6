"""Entries: the cells of a column, read one by one, independently of each other.

NumPy gives a column one type, and one entry can change this type for all entries: a single text
turns all integers into texts. This module reads each entry on its own, and an invalid entry does
not make other entries fail. Arrays of numbers already have their type. They are converted at once,
with the same result; see :mod:`.numbers`.

All other code reads columns, of whatever library, by :func:`entries` or :func:`as_array`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: A column with one entry per row: an array, a list or a column of pandas.
Column = ArrayLike | Sequence[object] | Iterable[object]
T = TypeVar("T")

_POLARS_PANICS = frozenset({"String", "Date"})  # a panic takes a millisecond; Arrow is faster


class _Lost:
    """Marker of an entry that its library cannot return."""


_LOST: Final = _Lost()


def of_entry(function: Callable[[Any], T], entry: Any, otherwise: T) -> T:
    """Return ``function(entry)``, or ``otherwise`` if the function fails in any way.

    A cell may hold any object. A library written in Rust may raise errors that are not Exceptions.
    """
    try:
        return function(entry)
    except KeyboardInterrupt:  # comes from the operator
        raise
    except BaseException:
        return otherwise


def has(value: Any, *names: str) -> bool:
    """Return True if a value's type has attributes of these names.

    So the columns of a library are recognised without its import. The value is not asked: its
    attributes could be labels of an index or names of columns.
    """
    return all(hasattr(type(value), name) for name in names)


def entries(values: Any, what: str = "a column") -> list[Any]:
    """Return the entries of a column, or of a flattened array, unchanged.

    An entry that its library cannot return becomes None: Arrow can hold texts that are not UTF-8,
    and years for which Python has no dates. The number of such entries is logged, with ``what`` as
    the column's name. Raise ValueError for a single text, for a value that is not a column, and for
    a set or dict, whose order does not match the rows.
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
            "%d of %d entries of %s cannot be read and count as missing. Such an entry is a text "
            "that is not UTF-8, or a year after 9999, for example.",
            *(lost, len(found), what),
        )
    return _plain(found)


def _collect(column: Any, found: list[Any]) -> None:
    """Append a column's entries to ``found``, all at once or, if that fails, by bisection.

    So only the entries are lost that their library cannot return, and all others are read.
    """
    array = column.array if has(column, "array") else column  # of pandas
    if str(getattr(array, "dtype", "")).startswith("dictionary"):  # of Arrow in pandas
        column = array = array.__arrow_array__()
    if has(column, "iterchunks"):  # of Arrow: a slice of many chunks would search all of them
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
    except KeyboardInterrupt:  # comes from the operator
        raise
    except BaseException:  # a library in Rust may raise an error that is not an Exception
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
    """Return the codes of a categorical column, and the category of each code.

    Return None for any other column.
    Neither pandas nor Arrow checks that each code has a category. pandas also converts integer
    categories to floats if an entry is missing.
    """
    for codes, words in (("codes", "categories"), ("indices", "dictionary")):
        if has(array, codes, words):
            known: list[Any] = []
            used, all_words = getattr(array, codes).tolist(), getattr(array, words)
            places = [i for i in set(used) - {None} if 0 <= i < len(all_words)]
            if places:  # only the used words: each chunk may hold all the words of the column
                _collect(all_words.take(np.array(places)), known)
            return used, dict(zip(places, known, strict=True))
    return None


def _plain(found: list[Any]) -> list[Any]:
    """Return entries, with texts as plain ``str``: a subclass may define another equality."""
    types: set[type] = of_entry(lambda all_found: set(map(type, all_found)), found, {_Lost})
    if not any(each is _Lost or issubclass(each, str) for each in types - {str}):
        return found
    return [
        None if entry is _LOST else str.__str__(entry) if issubclass(type(entry), str) else entry
        for entry in found
    ]


def is_missing(value: Any) -> bool:
    """Return True if a value is missing: None, NaN, masked, or pandas' NA or NaT."""
    if type(value) is str or type(value) is int:  # the most frequent types
        return False
    return value is None or of_entry(_differs, value, True)


def _differs(value: Any) -> bool:
    differs = value != value
    return differs is np.ma.masked or bool(differs)  # bool fails for pandas' NA: it is missing


def is_blank(value: Any) -> bool:
    """Return True if a value is missing, or a text that is empty or has only spaces."""
    return not value.strip() if type(value) is str else is_missing(value)


def columns_of(table: Any) -> list[tuple[str, Any]] | None:
    """Return a table's columns with their names, or None if the value is not a table."""
    if has(table, "iloc", "columns"):  # of pandas, where several columns may have one name
        return [(str(name), table.iloc[:, i]) for i, name in enumerate(table.columns)]
    if has(table, "iter_columns"):  # of polars
        return [(column.name, column) for column in table.iter_columns()]
    if has(table, "itercolumns", "column_names"):
        return list(zip(table.column_names, table.itercolumns(), strict=True))
    return None


def as_array(values: Any) -> NDArray[Any] | None:
    """Return an array, or the array of a column that converts to one; None for a list.

    Return None also for columns with a type that exists only in their library: NumPy would change
    this type if an entry is missing. The entries of such columns are read one by one.
    """
    if isinstance(values, np.ndarray):
        return _unmasked(values)
    kind = getattr(values, "dtype", None)  # a tensor's own type is fine: no entry can be missing
    own_type = not (kind is None or isinstance(kind, np.dtype) or has(values, "__dlpack__"))
    if own_type or has(values, "to_pylist") or not has(values, "__array__"):
        return None
    return of_entry(np.asarray, values, None)  # PyTorch has types that NumPy lacks


def _unmasked(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in which masked entries are missing (NaT, NaN or None)."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    hidden = np.ma.getmaskarray(array)
    if hidden.dtype.names:  # a record is masked if one of its fields is
        hidden = np.asarray(hidden.view(np.bool_).reshape(*hidden.shape, -1).any(axis=-1))
    has_own = array.dtype.kind in "mMfc"  # types with NaT or NaN
    shown = np.array(array.data, None if has_own else object)
    shown[hidden] = "NaT" if array.dtype.kind in "mM" else np.nan if has_own else None
    return shown
