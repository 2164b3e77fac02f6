"""Items: numbers for the entries of a column, where users report items and not quantities."""

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import check_integer, is_integer, plain_arguments
from .entries import as_array, entries, of_entry
from .merged import exact_below

_PERSON = b"ldp-flower items"


@plain_arguments
def hash_items(strings: Sequence[str] | NDArray[np.str_], num_bits: int = 40) -> NDArray[np.int64]:
    """Return the item number of each string: the first bits of its BLAKE2b hash.

    Parameters
    ----------
    strings : sequence of str, or ndarray of str, shape (rows,)
        The strings. They differ by their UTF-8 bytes: case, spaces and accents count. Only NUL
        characters at the end do not count, since NumPy's arrays cannot hold them.
    num_bits : int (default: 40)
        Number of bits, 1 to 40. Numbers lie in ``[0, 2**num_bits)``.

    Returns
    -------
    ndarray of int64, shape (rows,)
        The item numbers. A string has the same number on every machine.

    Raises
    ------
    ValueError
        If ``num_bits`` is out of range, or an entry is not a string.

    Notes
    -----
    Strings with the same number are one item. Take V strings that were chosen
    independently of the hash. A given string shares its number with another string with a
    probability of at most ``V / 2**num_bits``. Any two strings share a number with a probability of
    at most ``V**2 / 2**(num_bits + 1)``. These are 1e-6 and 0.45 for a million strings and 40 bits.
    The hash is public and hides nothing. The randomizer protects the users.
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
    """Return the item number of each entry, and NaN for an entry that is not an item.

    Integers and whole floats in ``[0, 2**53)`` are their own item numbers. Whole floats count since
    pandas makes floats of integers beside a missing entry. NumPy's floats of four bytes have to be
    below ``2**24``, and floats of two bytes below ``2**11``. A string has the number that
    :func:`hash_items` gives. Any other entry is not an item. An entry's number does not depend on
    the other entries. Raise ValueError if ``num_bits`` is out of range, or if an array has several
    dimensions.
    """
    check_integer("num_bits", num_bits, 1, 40)
    array = as_array(items)
    if array is not None and array.ndim != 1:
        raise ValueError(f"Expected items of shape (rows,), got {array.shape}.")
    if array is not None and array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            numbers = array.astype(np.float64)
            whole = (
                (numbers >= 0) & (numbers < exact_below(array.dtype)) & (array == np.floor(array))
            )
        return np.where(whole, numbers, np.nan)
    listed = entries(items)
    hashes = {name: _hash(name, num_bits) for name in {i for i in listed if type(i) is str}}
    each = (hashes[i] if type(i) is str else of_entry(_own_number, i, math.nan) for i in listed)
    return np.fromiter(each, np.float64, len(listed))


def _own_number(item: Any) -> float:
    whole = is_integer(item) or (isinstance(item, float | np.floating) and item.is_integer())
    return float(item) if whole and 0 <= int(item) < exact_below(type(item)) else math.nan


def _hash(name: str, num_bits: int) -> int:
    text = name.rstrip("\0").encode("utf-8", "surrogatepass")
    digest = blake2b(text, digest_size=8, person=_PERSON).digest()
    return int.from_bytes(digest) >> (64 - num_bits)
