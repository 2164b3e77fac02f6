"""Public words that users share, and the turn of each user's own that sets them apart.

For one user, a codebook of independent uniform directions stays one however it is turned.
For two users of a group, the turns make what they report of the same vector all but
independent: a codebook that favours an axis favours another one for every user.
"""

import math
import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from ...randomness import KeyedRandom, Words, derive
from ..base import Floats

_SIGNS, _SHIFT = 1, 2  # what a user's coin is used for
_KEPT_BYTES = 1 << 26
_CACHED_ENTRIES = 1 << 14

_kept: OrderedDict[tuple[int, int, int, int], Floats] = OrderedDict()
_lock = threading.Lock()


def directions(coin: int, group: int, number: int, dim: int) -> Floats:
    """Return a group's codebook: independent uniform unit vectors, shape (number, dim).

    Those used last are kept: a group's users come one after the other, in one process or
    from many nodes, and what is kept is public.
    """
    key = (coin, group, number, dim)
    with _lock:
        if (words := _kept.get(key)) is not None:
            _kept.move_to_end(key)
            return words
    words = np.empty((number, dim))
    _fill(words, derive(coin, group, np.arange(number, dtype=np.uint64)))
    words.flags.writeable = False
    with _lock:
        _kept[key] = words
        while sum(other.nbytes for other in _kept.values()) > _KEPT_BYTES:
            _kept.popitem(last=False)
    return words


def _fill(directions: Floats, states: Words) -> None:
    """Make rows uniform unit vectors: normals by Box and Muller's way, two from each word.

    They are so to seven digits. No guarantee rests on them, and another processor's last
    digit moves an estimate by as little.
    """
    half = -(-directions.shape[1] // 2)
    other = directions.shape[1] - half
    rows = max(1, _CACHED_ENTRIES // half)
    for start in range(0, len(states), rows):
        words = KeyedRandom(states[start : start + rows])
        words = words.words((len(states[start : start + rows]), half))
        radius = (words >> np.uint64(32)).astype(np.float32)
        radius += np.float32(0.5)
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle = words.astype(np.uint32).view(np.int32).astype(np.float32)
        angle *= np.float32(math.pi * 2.0**-31)
        some = directions[start : start + rows]
        np.multiply(np.cos(angle), radius, out=some[:, :half])
        np.multiply(np.sin(angle[:, :other]), radius[:, :other], out=some[:, half:])
        some /= np.sqrt(np.einsum("ij,ij->i", some, some))[:, None]


def signs(coins: Words, number: int) -> Floats:
    """Return random signs from the users' coins, shape (users, number)."""
    words = KeyedRandom(derive(coins, _SIGNS)).words((len(coins), -(-number // 64)))
    packed = np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(len(coins), -1)
    bits = np.unpackbits(packed, axis=1, count=number).astype(np.float64)
    bits *= -2
    bits += 1
    return bits


def turned(rows: Floats, coins: Words) -> Floats:
    """Return each user's vector after its own turn: its signs, then a shift in a circle."""
    dim = rows.shape[1]
    return _shifted(rows * signs(coins, dim), _shifts(coins, dim))


def turned_back(rows: Floats, coins: Words) -> Floats:
    """Undo :func:`turned`."""
    dim = rows.shape[1]
    back = _shifted(rows, (dim - _shifts(coins, dim)) % dim)
    back *= signs(coins, dim)
    return back


def _shifted(rows: Floats, by: NDArray[np.intp]) -> Floats:
    """Return rows, each moved to the left by so many places, in a circle."""
    twice = np.concatenate([rows, rows], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(twice, rows.shape[1], axis=1)
    return np.asarray(windows[np.arange(len(rows)), by])


def _shifts(coins: Words, dim: int) -> NDArray[np.intp]:
    return (derive(coins, _SHIFT) % np.uint64(dim)).astype(np.intp)
