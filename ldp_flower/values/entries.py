"""Entries: what each cell of a column is, looked at one by one before NumPy looks at all of them.

NumPy gives a column one type, which one entry can change for all others: a single text
makes texts of all integers. Here an entry becomes what it is on its own, whatever its
neighbours are, and an entry that is nothing fails nobody else. Arrays of numbers, whose
type is no longer in question, are converted at once, to the same result.

Every column of every library comes in by :func:`entries` or :func:`as_array`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from importlib.util import find_spec
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: What may hold one entry a row: arrays, lists, columns of pandas.
Column = ArrayLike | Sequence[object] | Iterable[object]
T = TypeVar("T")

_NUMBERS = "biuf"
_MAX_COLUMNS_NAMED = 5  # that a message names
_MAX_NUMBER_CHARS = 1000  # characters of a text that may be a number
_ARROWS_NUMBERS = frozenset(
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 halffloat float double".split()
)
_POLARS_PANICS = frozenset({"String", "Date"})  # of an entry in a millisecond; Arrow is faster
_NO_NUMBERS = frozenset({type(None), date, datetime, time, timedelta})  # types, for speed


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
    is one text, or one value that is no column.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"Expected a column, one entry a row, got {type(values).__name__}.")
    if isinstance(values, np.ndarray):
        flat = _unmasked(values).ravel()
        return list(flat) if flat.dtype.kind in "mM" else _plain(flat.tolist())
    found: list[Any] = []
    _collect(values, found)
    if _Lost in map(type, found):
        lost = sum(entry is _LOST for entry in found)
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
    if has(column, "iterchunks"):  # Arrow's: a part of many chunks would look through all of them
        for chunk in column.iterchunks():
            _collect(chunk, found)
        return
    if (coded := _coded(column)) is not None:
        codes, words = coded
        found += [
            None if code is None or code == -1 else words[code] if 0 <= code < len(words) else _LOST
            for code in codes
        ]
        return
    names = (name for name in ("tolist", "to_pylist", "to_list") if has(column, name))
    listing = next(names, None)
    try:
        found += column if listing is None else getattr(column, listing)()
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


def _coded(column: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the codes of a column of categories, and what they stand for; None if it is none.

    Neither pandas nor Arrow looks whether there is a category for each code; and pandas makes
    floats of categories that are integers, if an entry is missing.
    """
    for array in (column, getattr(column, "array", None) if has(column, "array") else None):
        for codes, words in (("codes", "categories"), ("indices", "dictionary")):
            if has(array, codes, words):
                known: list[Any] = []
                _collect(getattr(array, words), known)
                return getattr(array, codes).tolist(), known
    return None


def _plain(found: list[Any]) -> list[Any]:
    """Return entries with texts of Python's own type: others may bring an equality of their own."""
    if not any(each is _Lost or issubclass(each, str) for each in set(map(type, found)) - {str}):
        return found
    return [
        None if entry is _LOST else str.__str__(entry) if issubclass(type(entry), str) else entry
        for entry in found
    ]


def number_of(value: Any) -> float:
    """Return ``float(value)``, NaN where there is none.

    True is 1 and ``"7"`` is 7. Dates, durations, complex numbers and arrays are no numbers.
    """
    if type(value) is float or type(value) is bool:  # most of them
        return float(value)
    return np.nan if type(value) in _NO_NUMBERS else of_entry(_number, value, np.nan)


def _number(value: Any) -> float:
    if isinstance(value, np.generic | np.ndarray) and (
        value.ndim or value.dtype.kind not in _NUMBERS + "US"
    ):
        return np.nan
    if isinstance(value, str | bytes) and len(value) > _MAX_NUMBER_CHARS:
        return np.nan
    return float(value)


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, or what pandas has for them."""
    if type(value) is str or type(value) is int:  # most of them
        return False
    return value is None or of_entry(_differs, value, True)


def _differs(value: Any) -> bool:
    return bool(value != value)  # pandas' own has no truth


def is_blank(value: Any) -> bool:
    """Whether a cell holds nothing, or a text of nothing but spaces."""
    return not value.strip() if type(value) is str else is_missing(value)


def as_numbers(values: Any, what: str = "a column") -> NDArray[np.float64]:
    """Return the number that each entry is by itself, NaN where there is none.

    An array keeps its shape; of anything else every element is one entry.
    """
    array = _numbers_at_once(values) if (found := as_array(values)) is None else found
    with np.errstate(all="ignore"):
        if array is not None and array.dtype.kind in _NUMBERS:
            aligned = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])
            return aligned.reshape(array.shape)
        shape = (-1,) if array is None else array.shape
        source = values if array is None or has(values, "tolist") else array
        numbers = map(number_of, entries(source, what))
        return np.fromiter(numbers, np.float64).reshape(shape)


def as_column(values: Any, what: str, numbers: bool) -> NDArray[Any] | list[Any]:
    """Return an array of numbers as it is; of everything else the entries, to be read once.

    Where nothing but ``numbers`` counts, these are an array where their library has them as one.
    """
    array = as_array(values)
    if array is None and numbers:
        array = _numbers_at_once(values)
    if array is not None and array.dtype.kind in _NUMBERS:
        return array
    return entries(values, what)


def as_table(rows: Any, num_columns: int | None = None) -> NDArray[np.float64]:
    """Return rows of numbers, NaN where there is none.

    Rows are an array of shape (rows, columns) or a sequence of rows, in which what is no row of
    ``num_columns`` entries is a row of NaN. By default there are as many columns as an array has,
    or as most rows of a sequence have. Raises ValueError if an array has another number of columns,
    or no row shows how many there are.
    """
    if (columns := columns_of(rows)) is not None:  # a column of texts makes no other one
        rows = np.empty((len(rows), len(columns)))
        for i, (name, column) in enumerate(columns):
            rows[:, i] = as_numbers(column, f"column {name!r}")
    array = as_array(rows)
    if array is not None and (array.ndim != 1 or array.dtype.kind != "O"):
        table = as_numbers(array)
        if num_columns is not None and table.shape[1:] != (num_columns,):
            raise ValueError(f"Expected rows of {num_columns} columns, got shape {table.shape}.")
        return table
    listed = entries(rows if array is None else array)
    numbers = [of_entry(_row, row, None) for row in listed]
    if num_columns is None:
        lengths = Counter(len(row) for row in numbers if row is not None)
        if not lengths:
            raise ValueError("Expected rows of numbers, shape (rows, columns), got none.")
        num_columns = max(lengths, key=lambda length: (lengths[length], length))
    table = np.full((len(numbers), num_columns), np.nan)
    for i, row in enumerate(numbers):
        if row is not None and len(row) == num_columns:
            table[i] = row
    return table


def without_numbers(table: NDArray[np.float64], columns: Sequence[str] | None) -> str:
    """Return which columns have entries that are no finite numbers, and in how many rows.

    The worst come first. The table is as :func:`as_table` gives it; columns without names are
    listed by number.
    """
    counts = (~np.isfinite(table)).sum(axis=0)
    worst = [int(i) for i in np.argsort(-counts, kind="stable")[:_MAX_COLUMNS_NAMED] if counts[i]]
    shown = [
        f"{i if columns is None else repr(columns[i])} ({counts[i]} of {len(table)} rows)"
        for i in worst
    ]
    more = int((counts > 0).sum()) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


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
    return np.asarray(values)


def _numbers_at_once(column: Any) -> NDArray[Any] | None:
    """Return a column of Arrow's or polars' numbers, NaN where one is missing; None of others."""
    if has(column, "to_pylist", "__array__"):
        numbers = str(column.type) in _ARROWS_NUMBERS
    else:
        kind = getattr(column, "dtype", None)
        numbers = has(kind, "is_integer", "is_float") and (kind.is_integer() or kind.is_float())
    return np.asarray(column) if numbers else None


def _unmasked(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in which what a mask hides is missing."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if array.dtype.kind in "mM":
        return np.asarray(array.filled(np.array("NaT", array.dtype)))
    plain = array if array.dtype.kind in "fc" else array.astype(object)
    return np.asarray(plain.filled(np.nan if plain is array else None))


def _row(row: Any) -> NDArray[np.float64] | None:
    """Return one row's numbers, None if it is no row."""
    texts = isinstance(row, str | bytes | bytearray | memoryview)
    if texts or not (isinstance(row, Sequence) or hasattr(row, "__array__")):
        return None
    numbers = as_numbers(row)
    return numbers if numbers.ndim == 1 else None
