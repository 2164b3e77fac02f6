"""Conversion of a column's entries to numbers; an entry that is not a number becomes NaN."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .entries import as_array, columns_of, entries, has, of_entry

_NUMBERS = "biuf"
_MAX_COLUMNS_NAMED = 5  # largest number of columns that a message names
_MOST_ENTRIES = 1 << 28  # largest number of entries of a sparse matrix, with its zeros: 2 GiB
_MAX_NUMBER_CHARS = 1000  # a longer text does not count as a number
_ARROWS_NUMBERS = frozenset(
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 halffloat float double".split()
)
_NO_NUMBERS = frozenset({type(None), date, datetime, time, timedelta})  # types, for speed


def number_of(value: Any) -> float:
    """Return ``float(value)``, or NaN if the value is not a number.

    True is 1 and ``"7"`` is 7. Dates, durations, complex numbers and arrays do not count as
    numbers.
    """
    if type(value) is float or type(value) is bool:  # the most frequent types
        return float(value)
    return of_entry(_number, value, np.nan)


def _number(value: Any) -> float:
    if type(value) in _NO_NUMBERS:
        return np.nan
    if isinstance(value, np.generic | np.ndarray) and (
        value.ndim or value.dtype.kind not in _NUMBERS + "US"
    ):
        return np.nan
    if isinstance(value, str | bytes) and len(value) > _MAX_NUMBER_CHARS:
        return np.nan
    return float(value)


def as_numbers(values: Any, what: str = "a column") -> NDArray[np.float64]:
    """Return each entry as a number, independently of the others; NaN if it is not a number.

    An array keeps its shape. In any other value, each element is one entry.
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
    """Return an array of numbers unchanged, and any other column as a list of its entries.

    If ``numbers`` is True, only numbers count, and a numeric column of Arrow or polars also becomes
    an array.
    """
    array = as_array(values)
    if array is None and numbers:
        array = _numbers_at_once(values)
    if array is not None and array.dtype.kind in _NUMBERS:
        return array
    return entries(values, what)


def dense(rows: Any) -> Any:
    """Return a sparse matrix of SciPy as an array; return anything else unchanged.

    Raise ValueError if the array would be too large.
    """
    if not has(rows, "toarray", "nnz"):
        return rows
    if (size := math.prod(rows.shape)) > _MOST_ENTRIES:
        raise ValueError(
            f"Expected a sparse matrix with at most {_MOST_ENTRIES:,} entries, zeros included, got "
            f"{size:,} in shape {rows.shape}: rows are stored with their zeros. Choose some of the "
            "columns, or hash them to fewer columns."
        )
    return rows.toarray()


def as_table(rows: Any, num_columns: int | None = None) -> NDArray[np.float64]:
    """Return rows as an array, shape (rows, columns), with NaN for entries that are not numbers.

    ``rows`` is an array, a sparse matrix, a table or a sequence of rows. In a sequence, a row
    without ``num_columns`` entries becomes a row of NaN. By default, the number of columns is the
    array's or, for a sequence, the most frequent length. Raise ValueError if an array has another
    number of columns, or if no row shows the number of columns.
    """
    rows = dense(rows)
    if (columns := columns_of(rows)) is not None:  # a column of texts must not change the others
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
    """Return a text with the columns that have non-finite entries, and with their numbers of rows.

    Logs and errors show it, so that the owner of the table can correct these columns. The columns
    with the most such rows come first. ``table`` is a result of :func:`as_table`. Columns without
    names are listed by index.
    """
    counts = (~np.isfinite(table)).sum(axis=0)
    worst = [int(i) for i in np.argsort(-counts, kind="stable")[:_MAX_COLUMNS_NAMED] if counts[i]]
    shown = [
        f"{i if columns is None else repr(columns[i])} ({counts[i]} of {len(table)} rows)"
        for i in worst
    ]
    more = int((counts > 0).sum()) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _numbers_at_once(column: Any) -> NDArray[Any] | None:
    """Return a numeric column of Arrow or polars as an array, with NaN for missing entries.

    Return None for any other column.
    """
    if has(column, "to_pylist", "__array__"):
        numbers = str(column.type) in _ARROWS_NUMBERS
    else:
        kind: Any = getattr(column, "dtype", None)
        numbers = has(kind, "is_integer", "is_float") and (kind.is_integer() or kind.is_float())
    return of_entry(np.asarray, column, None) if numbers else None  # NumPy lacks 128-bit numbers


def _row(row: Any) -> NDArray[np.float64] | None:
    """Return one row's numbers, or None if the value is not a row."""
    texts = isinstance(row, str | bytes | bytearray | memoryview)
    if texts or not (isinstance(row, Sequence) or hasattr(row, "__array__")):
        return None
    numbers = as_numbers(row)
    return numbers if numbers.ndim == 1 else None
