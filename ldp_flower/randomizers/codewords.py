"""Public words that users share, and the turn of each user's own that sets them apart.

For one user, a codebook of independent uniform directions stays one however it is turned.
For two users of a group, the turns make what they report of the same vector all but
independent: a codebook that favours an axis favours another one for every user.

Here is also how far the best of many random directions point along a vector, by quadrature.
"""

import math
import threading
from collections import OrderedDict
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, gammaln, ndtr, roots_legendre

from ..randomness import KeyedRandom, Words, derive
from ..validation import Floats

_SIGNS, _SHIFT = 1, 2  # what a user's coin is used for
_KEPT_BYTES = 1 << 26
_CACHED_ENTRIES = 1 << 14
_NODES = 1500  # of the quadrature
_WIDEST = 14.0  # standard deviations of a coordinate
_BELOW_ONE = np.float32(1 - 2.0**-24)

Key = tuple[int, int, int, int]


class _Kept:
    """The codebooks that were used last, up to so many bytes together."""

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


def directions(coin: int, groups: Words, number: int, dim: int) -> list[Floats]:
    """Return the groups' codebooks: independent uniform unit vectors, each (number, dim).

    Those used last are kept: a group's users come one after the other, in one process or
    from many nodes, and what is kept is public.
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


def _fill(directions: Floats, states: Words) -> None:
    """Make rows uniform unit vectors: normals by Box and Muller's way, two from each word.

    They are so to seven digits. No guarantee rests on them, and another processor's last
    digit moves an estimate by as little.
    """
    half = -(-directions.shape[1] // 2)
    other = directions.shape[1] - half
    rows = max(1, _CACHED_ENTRIES // half)
    for start in range(0, len(states), rows):
        some = directions[start : start + rows]
        words = KeyedRandom(states[start : start + rows]).words((len(some), half))
        radius = (words >> np.uint64(32)).astype(np.float32)
        radius += np.float32(0.5)
        radius *= np.float32(2.0**-32)
        # Of 1, to which one in 2**25 is rounded, the logarithm is 0: a word without a direction.
        np.minimum(radius, _BELOW_ONE, out=radius)
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle = words.astype(np.uint32).view(np.int32).astype(np.float32)
        angle *= np.float32(math.pi * 2.0**-31)
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
    twice = np.empty((len(rows), 2 * dim))
    np.multiply(rows, signs(coins, dim), out=twice[:, :dim])
    return _shifted(twice, _shifts(coins, dim))


def turned_back(rows: Floats, coins: Words) -> Floats:
    """Undo :func:`turned`."""
    dim = rows.shape[1]
    twice = np.empty((len(rows), 2 * dim))
    twice[:, :dim] = rows
    back = _shifted(twice, (dim - _shifts(coins, dim)) % dim)
    back *= signs(coins, dim)
    return back


def _shifted(twice: Floats, by: NDArray[np.intp]) -> Floats:
    """Return the left halves of rows, each moved to the left by so many places, in a circle."""
    dim = twice.shape[1] // 2
    twice[:, dim:] = twice[:, :dim]
    windows = np.lib.stride_tricks.sliding_window_view(twice, dim, axis=1)
    return np.asarray(windows[np.arange(len(twice)), by])


def _shifts(coins: Words, dim: int) -> NDArray[np.intp]:
    return (derive(coins, _SHIFT) % np.uint64(dim)).astype(np.intp)


# ----------------------------------------------------------- how far the best words point


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = roots_legendre(_NODES)
    return nodes, weights


def _best(w: Floats, density: Floats, above: Floats, number: int) -> tuple[Floats, Floats]:
    """Return expected sums of w and w**2 over the best r of ``number`` independent ones.

    Entry r - 1 is ``number`` times the integral of w (or w**2) against its density (times
    the quadrature's weights) times the probability that at most r - 1 of the others exceed it.
    """
    others = np.arange(number, dtype=np.float64)[:, None]
    logs = gammaln(number) - gammaln(others + 1) - gammaln(number - others)
    above = np.clip(above, 1e-300, 1 - 1e-16)  # of finite logarithms
    logs = logs + others * np.log(above)
    logs += (number - 1 - others) * np.log1p(-above)
    # Of each number of others that exceed w: the integral, which is added up over numbers.
    exactly = np.exp(logs, out=logs) @ np.stack([density * w, density * w * w], axis=1)
    sums, squares = number * np.cumsum(exactly, axis=0).T
    return sums, squares


@lru_cache(maxsize=256)
def of_directions(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return expected sums of W and W**2 over the best r of ``number`` random directions.

    W is a direction's inner product with a unit vector of R^dim; the directions are
    independent. The quadrature is in the angle w = sin(a), where W's density is
    cos(a)**(dim - 2).
    """
    limit = min(math.pi / 2, _WIDEST / math.sqrt(dim))
    nodes, weights = _quadrature()
    angle = limit * nodes
    w = np.sin(angle)
    log_density = (dim - 2) * np.log(np.cos(angle)) - betaln((dim - 1) / 2, 0.5)
    upper = betainc((dim - 1) / 2, 0.5, np.cos(angle) ** 2) / 2
    above = np.where(w >= 0, upper, 1 - upper)
    return _best(w, limit * weights * np.exp(log_density), above, number)


@lru_cache(maxsize=256)
def of_axes(dim: int, number: int) -> tuple[Floats, Floats]:
    """Return the same for ``number`` of the axes of R^dim, turned at random together.

    A random direction's coordinates are those of a normal vector over its length, which
    does not depend on them; so are the best of them.
    """
    nodes, weights = _quadrature()
    w = _WIDEST * nodes
    density = _WIDEST * weights * np.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    sums, squares = _best(w, density, ndtr(-w), number)
    length = math.sqrt(2) * math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2))
    return sums / length, squares / dim
