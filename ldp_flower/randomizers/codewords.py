"""Codewords: random directions from public coins, and how each user turns them."""

import math
import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from ..randomness import KeyedRandom, Words, derive
from ..validation import Floats

_SIGNS, _SHIFT = 1, 2  # purposes of a user's coin; 0 selects its codebook
_KEPT_BYTES = 1 << 26
_FILLED_ENTRIES = 1 << 14  # entries of words made at a time, so that they stay in the cache
_BELOW_ONE = np.float32(1 - 2.0**-24)

Key = tuple[int, int, int, int]


class _Kept:
    """Cache of the codebooks that were used last, up to ``_KEPT_BYTES`` bytes in total."""

    def __init__(self) -> None:
        self._words: OrderedDict[Key, Floats] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0

    def known(self, keys: list[Key]) -> dict[Key, Floats]:
        with self._lock:
            return {key: self._words[key] for key in keys if key in self._words}

    def keep(self, found: dict[Key, Floats]) -> None:
        with self._lock:
            for key, words in found.items():
                if key not in self._words:
                    self._words[key] = words
                    self.nbytes += words.nbytes
                self._words.move_to_end(key)
            while self.nbytes > _KEPT_BYTES:
                self.nbytes -= self._words.popitem(last=False)[1].nbytes


_kept = _Kept()


def codewords(coin: int, groups: Words, number: int, dim: int) -> list[Floats]:
    """Return the groups' codebooks: independent uniform unit vectors, each of shape (number, dim).

    The codebooks that were used last are cached, since a group's users come one after the other,
    in one process or from many nodes. The cached data are public.
    """
    keys = [(coin, group, number, dim) for group in groups.tolist()]
    found = _kept.known(keys)
    if missing := [key for key in keys if key not in found]:
        which = np.array([group for _, group, *_ in missing], np.uint64)[:, None]
        made = np.empty((len(missing), number, dim))
        states = derive(coin, which, np.arange(number, dtype=np.uint64)[None])
        _fill(made.reshape(-1, dim), states.reshape(-1))
        made.flags.writeable = False
        found.update(zip(missing, made, strict=True))
    _kept.keep(found)
    return [found[key] for key in keys]


def _fill(words: Floats, states: Words) -> None:
    """Fill the rows with uniform unit vectors, from normals by the Box-Muller method.

    Each word gives two normals. The vectors have a precision of seven digits. No guarantee depends
    on them, and a different last digit on another processor changes an estimate just as little.
    """
    half = -(-words.shape[1] // 2)
    other = words.shape[1] - half
    rows = max(1, _FILLED_ENTRIES // half)
    for start in range(0, len(states), rows):
        some = words[start : start + rows]
        bits = KeyedRandom(states[start : start + rows]).words((len(some), half))
        radius = (bits >> np.uint64(32)).astype(np.float32)
        radius += np.float32(0.5)
        radius *= np.float32(2.0**-32)
        # One in 2**25 is rounded to 1, whose logarithm is 0: the word would have no direction.
        np.minimum(radius, _BELOW_ONE, out=radius)
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle = bits.astype(np.uint32).view(np.int32).astype(np.float32)
        angle *= np.float32(math.pi * 2.0**-31)
        np.multiply(np.cos(angle), radius, out=some[:, :half])
        np.multiply(np.sin(angle[:, :other]), radius[:, :other], out=some[:, half:])
        some /= np.sqrt(np.einsum("ij,ij->i", some, some))[:, None]


def signs(coins: Words, number: int) -> Floats:
    """Return ``number`` random signs, +1 or -1, for each user, from its public coin."""
    words = KeyedRandom(derive(coins, _SIGNS)).words((len(coins), -(-number // 64)))
    packed = np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(len(coins), -1)
    bits = np.unpackbits(packed, axis=1, count=number).astype(np.float64)
    bits *= -2
    bits += 1
    return bits


def turned(rows: Floats, coins: Words) -> Floats:
    """Return each user's vector, rotated by its public coin: random signs, then a cyclic shift.

    A client ranks the shared codewords by their products with the rotated vector.
    """
    dim = rows.shape[1]
    return _shifted(rows * signs(coins, dim), _shifts(coins, dim))


def turned_back(rows: Floats, coins: Words) -> Floats:
    """Return each user's vector as it was before :func:`turned`, for a reported codeword."""
    dim = rows.shape[1]
    return _shifted(rows, (dim - _shifts(coins, dim)) % dim) * signs(coins, dim)


def _shifted(rows: Floats, by: NDArray[np.intp]) -> Floats:
    """Return each row, shifted cyclically to the left by ``by`` places."""
    twice = np.concatenate([rows, rows], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(twice, rows.shape[1], axis=1)
    return np.asarray(windows[np.arange(len(rows)), by])


def _shifts(coins: Words, dim: int) -> NDArray[np.intp]:
    return (derive(coins, _SHIFT) % np.uint64(dim)).astype(np.intp)
