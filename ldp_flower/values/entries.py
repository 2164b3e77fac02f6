"""Entries: what each cell of a column is, looked at one by one before NumPy looks at all of them.

NumPy gives a column one type, which one entry can change for all others: a single text
makes texts of all integers. Here an entry becomes what it is on its own, whatever its
neighbours are, and an entry that is nothing fails nobody else. Arrays of numbers, whose
type is no longer in question, are converted at once, to the same result.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import check_integer, is_integer, plain_arguments

#: What may hold one entry a row: arrays, lists, columns of pandas.
Column = ArrayLike | Sequence[object] | Iterable[object]

_NUMBERS = "biuf"
_MAX_NAME_CHARS = 256  # characters; arrays of texts are as wide as their longest one
_MAX_COLUMNS_NAMED = 5  # that a message names
_MAX_NUMBER_CHARS = 1000  # characters of a text that may be a number
_PERSON = b"ldp-flower items"
_END = 1 << 53  # numbers of items are kept as float64


def entries(values: Any) -> list[Any]:
    """Return a column's entries, or those of an array one after the other, as they are.

    Raises ValueError if it is one text, or one value that is no column.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"Expected a column, one entry a row, got {type(values).__name__}.")
    if isinstance(values, np.ndarray):
        flat = values.ravel()
        return list(flat) if flat.dtype.kind in "mM" else flat.tolist()
    listed = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
    try:
        return list(values if listed is None else listed())
    except Exception:  # of Arrow's entries one may have no value in Python: a year 10,000, no UTF-8
        column: Any = getattr(values, "array", values)
        return [_entry(column, i) for i in range(len(column))]


def number_of(value: Any) -> float:
    """Return ``float(value)``, NaN where there is none.

    True is 1 and ``"7"`` is 7. Dates, durations, complex numbers and arrays are no numbers.
    """
    if type(value) is float:  # most of them
        return value
    if isinstance(value, np.generic | np.ndarray) and (
        value.ndim or value.dtype.kind not in _NUMBERS + "US"
    ):
        return np.nan
    if isinstance(value, str | bytes) and len(value) > _MAX_NUMBER_CHARS:
        return np.nan
    try:
        return float(value)
    except Exception:  # a cell may hold anything, and fail in any way
        return np.nan


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, or what pandas has for them."""
    try:
        return value is None or bool(value != value)
    except Exception:  # pandas' own has no truth; a cell may hold anything
        return True


def is_blank(value: Any) -> bool:
    """Whether a cell holds nothing, or a text of nothing but spaces."""
    return not value.strip() if isinstance(value, str) else is_missing(value)


def as_numbers(values: Any) -> NDArray[np.float64]:
    """Return the number that each entry is by itself, NaN where there is none.

    An array keeps its shape; of anything else every element is one entry.
    """
    array = as_array(values)
    with np.errstate(all="ignore"):
        if array is not None and array.dtype.kind in _NUMBERS:
            aligned = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])
            return aligned.reshape(array.shape)
        shape = (-1,) if array is None else array.shape
        source = values if array is None or hasattr(values, "tolist") else array
        numbers = map(number_of, entries(source))
        return np.fromiter(numbers, np.float64).reshape(shape)


def as_table(rows: Any, num_columns: int | None = None) -> NDArray[np.float64]:
    """Return rows of numbers, NaN where there is none.

    Rows are an array of shape (rows, columns) or a sequence of rows, in which what is no row of
    ``num_columns`` entries is a row of NaN. By default there are as many columns as an array has,
    or as most rows of a sequence have. Raises ValueError if an array has another number of columns,
    or no row shows how many there are.
    """
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # a column of texts makes no other one
        rows = _of_columns(rows)
    array = as_array(rows)
    if array is not None and (array.ndim != 1 or array.dtype.kind != "O"):
        table = as_numbers(array)
        if num_columns is not None and table.shape[1:] != (num_columns,):
            raise ValueError(f"Expected rows of {num_columns} columns, got shape {table.shape}.")
        return table
    numbers = [_row(row) for row in entries(rows if array is None else array)]
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


def as_names(argument: str, values: Column) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names of a column, and which of them each entry is.

    Names are accounts on the ledger, where one person must not have two: they are all texts, in
    their order, or all integers, in order of size. 7 and ``np.int64(7)`` are the same. Raises
    ValueError if entries are anything else or both, or a name has more than 256 characters, or some
    that no ledger keeps (NUL, half a surrogate pair).
    """
    array = as_array(values)
    if array is not None and array.ndim != 1:
        raise ValueError(f"Expected one entry a row in {argument}, got shape {array.shape}.")
    if array is not None and array.dtype.kind in "iuU":
        unique, which = np.unique(array, return_inverse=True)
        texts = unique.astype(np.str_).tolist()
        return [_name(argument, name) for name in texts], which.astype(np.int64)
    listed = entries(values)
    kinds = {_kind_of_name(name) for name in listed}
    if not (kinds <= {"str"} or kinds <= {"int"}):
        raise ValueError(
            f"Expected {argument} to be strings or integers, all of one type, "
            f"got {' and '.join(sorted(kinds))}. Read the column as text."
        )
    distinct = sorted(set(listed))
    place = {name: i for i, name in enumerate(distinct)}
    which = np.fromiter((place[name] for name in listed), np.int64, len(listed))
    return [_name(argument, name) for name in distinct], which


def as_array(values: Any) -> NDArray[Any] | None:
    """Return what is an array already, or a column that stands for one; None for a list.

    None as well for columns of Arrow's and pandas' own types, of which NumPy makes another type
    if an entry is missing: their entries are looked at one by one.
    """
    if isinstance(values, np.ndarray):
        return values
    own_type = hasattr(values, "array") and not isinstance(values.dtype, np.dtype)
    if own_type or hasattr(values, "to_pylist") or not hasattr(values, "__array__"):
        return None
    return np.asarray(values)


def _of_columns(frame: Any) -> NDArray[np.float64]:
    """Return the numbers of a DataFrame, column by column: NumPy gives all of them one type."""
    table = np.empty(frame.shape)
    for i in range(table.shape[1]):
        table[:, i] = as_numbers(frame.iloc[:, i])
    return table


def _entry(column: Any, i: int) -> Any:
    try:
        entry = column[i]
        return entry.as_py() if hasattr(entry, "as_py") else entry
    except Exception:  # an entry without a value in Python is missing
        return None


def _row(row: Any) -> NDArray[np.float64] | None:
    """Return one row's numbers, None if it is no row."""
    texts = isinstance(row, str | bytes | bytearray | memoryview)
    if texts or not (isinstance(row, Sequence) or hasattr(row, "__array__")):
        return None
    try:
        numbers = as_numbers(row)
    except Exception:  # a record may hold anything
        return None
    return numbers if numbers.ndim == 1 else None


def _kind_of_name(name: object) -> str:
    return "str" if isinstance(name, str) else "int" if is_integer(name) else type(name).__name__


def _name(argument: str, name: Any) -> str:
    too_long = f"Expected {argument} of at most {_MAX_NAME_CHARS} characters"
    if not isinstance(name, str):
        if int(name).bit_length() > 3 * _MAX_NAME_CHARS:
            raise ValueError(f"{too_long}, got an integer of {int(name).bit_length()} bits.")
        return str(int(name))
    text = str.__str__(name)
    if len(text) > _MAX_NAME_CHARS:
        raise ValueError(f"{too_long}, got {len(text)}.")
    if re.search("[\0\ud800-\udfff]", text):
        raise ValueError(f"Expected {argument} without NUL and surrogates, got {text!r}.")
    return text


@plain_arguments
def hash_items(strings: Sequence[str] | NDArray[np.str_], num_bits: int = 40) -> NDArray[np.int64]:
    """Return the item number of every string: the first bits of its BLAKE2b hash.

    Parameters
    ----------
    strings : sequence of str, or ndarray of str, shape (rows,)
        The strings, distinguished by their UTF-8 bytes: case, spaces and accents count.
        Only NUL characters at the end do not, which NumPy's arrays cannot hold.
    num_bits : int (default: 40)
        Numbers lie in ``[0, 2**num_bits)``, 1 to 40 bits.

    Returns
    -------
    ndarray of int64, shape (rows,)
        The same for the same string, on any machine.

    Raises
    ------
    ValueError
        If ``num_bits`` is out of range, or something is no string.

    Notes
    -----
    Strings with the same number are one item. Among V strings chosen without regard to
    the hash, a given one shares its number with another one with a probability of at
    most ``V / 2**num_bits``, any two do with at most ``V**2 / 2**(num_bits + 1)``: 1e-6
    and 0.45 for a million strings and 40 bits. The hash is public and hides nothing;
    what protects a user is the randomizer.
    """
    check_integer("num_bits", num_bits, 1, 40)
    names = entries(strings)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"Expected strings, got {type(name).__name__}.")
    numbers = {name: _hash(name, num_bits) for name in set(names)}
    return np.fromiter((numbers[name] for name in names), np.int64, len(names))


@plain_arguments
def item_numbers(items: Any, num_bits: int) -> NDArray[np.float64]:
    """Return the number that each entry is as an item by itself, NaN where it is none.

    Integers and whole floats in ``[0, 2**53)`` are their own number (a missing entry makes
    floats of pandas' integers); a string is :func:`hash_items` of it; anything else is no
    item. Raises ValueError if ``num_bits`` is out of range, or an array has several dimensions.
    """
    check_integer("num_bits", num_bits, 1, 40)
    array = as_array(items)
    if array is not None and array.ndim != 1:
        raise ValueError(f"Expected items of shape (rows,), got {array.shape}.")
    if array is not None and array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            numbers = array.astype(np.float64)
            whole = (numbers >= 0) & (numbers < _END) & (array == np.floor(array))
        return np.where(whole, numbers, np.nan)
    listed = entries(items)
    hashes = {name: _hash(name, num_bits) for name in {i for i in listed if isinstance(i, str)}}
    each = (hashes[i] if isinstance(i, str) else _own_number(i) for i in listed)
    return np.fromiter(each, np.float64, len(listed))


def _own_number(item: Any) -> float:
    whole = is_integer(item) or (isinstance(item, float | np.floating) and item.is_integer())
    return float(item) if whole and 0 <= int(item) < _END else math.nan


def _hash(name: str, num_bits: int) -> int:
    text = name.rstrip("\0").encode("utf-8", "surrogatepass")
    digest = blake2b(text, digest_size=8, person=_PERSON).digest()
    return int.from_bytes(digest) >> (64 - num_bits)
