"""Random sources: the operating system's in deployment, keyed by user in simulation.

Every draw that a randomizer makes goes through a :class:`RandomSource`, row by
row: row ``i`` of whatever is drawn belongs to user ``i`` alone.

* :class:`SystemRandom` reads the operating system's CSPRNG. It cannot be seeded.
* :class:`KeyedRandom` gives every user a stream of its own that depends on
  nothing but the user's 64-bit state (derived from seed, step and key), so the
  same experiment gives the same reports however users are spread over nodes. It
  is a counter-based generator (the output function of SplitMix64, Steele, Lea &
  Flood 2014, at state + counter), evaluated for all users at once. Public
  randomness (codewords, assigned coordinates) uses it as well, because client
  and server must agree on it whatever their version of NumPy.
* :class:`NumpyRandom` wraps a ``numpy.random.Generator``, for notebooks.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64's multipliers
_MASK = (1 << 64) - 1
_CACHED_WORDS = 1 << 15  # mixing touches each word seven times: stay in the cache


def _mix(words: Words) -> Words:
    """SplitMix64's bijection of 64-bit words, in place."""
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= np.uint64(_FIRST)
    np.right_shift(words, np.uint64(27), out=shifted)
    words ^= shifted
    words *= np.uint64(_SECOND)
    np.right_shift(words, np.uint64(31), out=shifted)
    words ^= shifted
    return words


def _mixed(word: int) -> int:
    """Return :func:`_mix` of one number, taken modulo 2**64."""
    word &= _MASK
    word = (word ^ word >> 30) * _FIRST & _MASK
    word = (word ^ word >> 27) * _SECOND & _MASK
    return word ^ word >> 31


def derive(*parts: int | NDArray[np.integer[Any]]) -> Words:
    """Hash integers (or arrays of them, broadcast together) to 64-bit states.

    Parameters
    ----------
    *parts : int or ndarray of integers
        What the state depends on, in order; integers are taken modulo 2**64.

    Returns
    -------
    ndarray of uint64
        An array of the broadcast shape (at least one-dimensional).
    """
    leading = 0  # what numbers before the first array come to, without the cost of arrays
    numbers = next((i for i, part in enumerate(parts) if not isinstance(part, int)), len(parts))
    for number in parts[:numbers]:
        leading = _mixed(_mixed(leading + int(_GOLDEN)) ^ (int(number) & _MASK))
    state = np.array([leading], np.uint64)
    for part in parts[numbers:]:
        if isinstance(part, int):
            part = np.array([part & _MASK], np.uint64)
        state = _mix(_mix(state + _GOLDEN) ^ part.astype(np.uint64, copy=False))
    return _mix(state + _GOLDEN)


class RandomSource(ABC):
    """Random words, uniforms and normals; the leading axis is the users."""

    @abstractmethod
    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""

    def blocks(self, users: int, size: int) -> Iterator[tuple[slice, "RandomSource"]]:
        """Yield runs of ``size`` users in turn, each with the source to draw for it from."""
        for start in range(0, users, size):
            yield slice(start, min(start + size, users)), self

    def uniforms(self, shape: tuple[int, ...]) -> Floats:
        """Draw uniforms of 52 bits from the open interval (0, 1): odd multiples of 2**-53."""
        words = self.words(shape)
        words >>= np.uint64(12)
        uniforms = words.astype(np.float64)
        uniforms += 0.5
        uniforms *= 2.0**-52
        return uniforms

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Draw standard normals by inversion."""
        uniforms = self.uniforms(shape)
        return np.asarray(ndtri(uniforms, out=uniforms))


class SystemRandom(RandomSource):
    """The operating system's cryptographically secure generator."""

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""
        size = int(np.prod(shape))
        return np.frombuffer(bytearray(os.urandom(8 * size)), np.uint64).reshape(shape)


class KeyedRandom(RandomSource):
    """One independent, reproducible stream per user.

    Parameters
    ----------
    states : ndarray of uint64, shape (users,)
        One state per user, see :func:`derive`.
    """

    def __init__(self, states: Words) -> None:
        self._states = states
        self._position = 0

    def _check(self, users: int) -> None:
        if users != len(self._states):
            raise ValueError(f"Expected {len(self._states)} users, got {users}.")

    def skip(self, words: Words) -> "KeyedRandom":
        """Return these streams from ``words[i]`` words after the start of user i's."""
        return KeyedRandom(self._states + words * _GOLDEN)

    def blocks(self, users: int, size: int) -> Iterator[tuple[slice, RandomSource]]:
        """Yield runs of users, each with the streams of its own, and go on behind them."""
        self._check(users)
        begin = self._position
        for run, _ in super().blocks(users, size):
            streams = KeyedRandom(self._states[run])
            streams._position = begin
            yield run, streams
            self._position = streams._position

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words; ``shape[0]`` must be the number of users."""
        self._check(shape[0])
        width = int(np.prod(shape[1:]))
        counters = np.arange(self._position + 1, self._position + width + 1, dtype=np.uint64)
        counters *= _GOLDEN
        self._position += width
        words = np.empty((len(self._states), width), np.uint64)
        rows = max(1, _CACHED_WORDS // max(1, width))
        for start in range(0, len(words), rows):
            block = words[start : start + rows]
            np.add(self._states[start : start + rows, None], counters, out=block)
            _mix(block)
        return words.reshape(shape)


class NumpyRandom(RandomSource):
    """A ``numpy.random.Generator`` as a random source; not for deployment."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""
        return self._generator.integers(0, _MASK, shape, np.uint64, endpoint=True)

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Draw standard normals."""
        return self._generator.standard_normal(shape)


def as_source(rng: RandomSource | np.random.Generator) -> RandomSource:
    """Return ``rng`` as a random source."""
    return NumpyRandom(rng) if isinstance(rng, np.random.Generator) else rng
