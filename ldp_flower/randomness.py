"""Random sources: the operating system's generator for deployment, keyed ones for simulation.

Every draw of a randomizer goes through a :class:`RandomSource`. Draws are made row by row: row
``i`` of a draw belongs to user ``i`` alone. A word is 64 random bits, and a uniform is a random
number between 0 and 1.

* :class:`SystemRandom` reads the operating system's CSPRNG. It cannot be seeded.
* :class:`KeyedRandom` gives every user a separate stream that depends only on the user's 64-bit
  state (derived from seed, step and key). The same experiment therefore gives the same reports
  however users are spread over nodes. It is a counter-based generator (the output function of
  SplitMix64, Steele, Lea & Flood 2014, at state + counter), evaluated for all users at once.
  Public randomness (codewords, assigned coordinates) uses it as well, because client and server
  must agree on it whatever their version of NumPy.
* :class:`SecretRandom` derives the words of every user from a secret key, by SHAKE-256. A key
  that was drawn once from the operating system gives the same words forever.
* :class:`NumpyRandom` wraps a ``numpy.random.Generator``, for notebooks.

A uniform has 52 bits of one word. Near 0 and 1 these are too few: normals would end at 8.2
standard deviations, and some reports would be possible for one value and impossible for another.
A uniform within 2**-28 of 0 or 1 therefore gets 960 more low-order bits. They come from further
words that are used for this draw only, so that all other draws stay the same.
"""

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log1p, ndtri, xlogy

from .validation import Floats

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64's multipliers
_MASK = (1 << 64) - 1
_TAIL = 2.0**-28  # nearer to 0 or 1 a uniform gets more bits
_FURTHER_WORDS = 15  # number of further 64-bit words; with probability 2**-960 they are all 0
_FURTHER = -2  # number that separates streams of further words from other streams of a state
_CACHED_WORDS = 1 << 15  # words mixed at a time, in the cache: mixing touches each word 7 times


def _mix(words: Words) -> Words:
    """Apply SplitMix64's bijection to 64-bit words in place, and return them."""
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


def _is_number(part: int | NDArray[np.integer[Any]]) -> bool:
    return isinstance(part, int) or part.shape == (1,)


def derive(*parts: int | NDArray[np.integer[Any]]) -> Words:
    """Return 64-bit hashes of integers, or of arrays of integers that are broadcast together.

    They are the states of users' streams of random words, and public random numbers.
    A hash depends on all parts in their order; integers are taken modulo 2**64. The result is an
    array of uint64 of the broadcast shape, with at least one dimension.
    """
    # Hash the leading parts that are single numbers without the cost of arrays. On a node with
    # one user, all arrays have one element.
    leading = 0
    numbers = next((i for i, part in enumerate(parts) if not _is_number(part)), len(parts))
    for part in parts[:numbers]:
        number = part if isinstance(part, int) else int(part[0])
        leading = _mixed(_mixed(leading + int(_GOLDEN)) ^ (number & _MASK))
    if numbers == len(parts):
        return np.array([_mixed(leading + int(_GOLDEN))], np.uint64)
    state = np.array([leading], np.uint64)
    for part in parts[numbers:]:
        if isinstance(part, int):
            part = np.array([part & _MASK], np.uint64)
        state = _mix(_mix(state + _GOLDEN) ^ part.astype(np.uint64, copy=False))
    return _mix(state + _GOLDEN)


def public_coin(*parts: int) -> int:
    """Return a public random number, a hash of the integers ``parts`` such as a salt and a step.

    Server and clients compute the same number. It has 63 bits, which fit into Flower's records.
    """
    return int(derive(*parts)[0] >> np.uint64(1))


def _finer(uniform: float, further: Words) -> float:
    """Return a uniform of 52 bits extended by the bits of further words.

    The result is rounded down to a float and is above 0.
    """
    bits = 64 * len(further)
    number = int(uniform * 2**52) << bits | int.from_bytes(further.astype(">u8").tobytes())
    number = 2 * number + 1
    rounded = max(0, number.bit_length() - 53)
    return math.ldexp(number >> rounded, rounded - 53 - bits)


def drawable(probability: ArrayLike) -> Floats:
    """Return probabilities, rounded up to multiples of 2**-52, which events can have exactly.

    A uniform is below such a number with exactly this probability. The probabilities are first
    raised by a factor of 1 + 1e-15, which is larger than a few rounding errors.
    """
    raised = np.asarray(probability, np.float64) * (1 + 1e-15)
    return np.asarray(np.ceil(raised * 2**52) * 2.0**-52)


class RandomSource(ABC):
    """Source of random words, uniforms, normals and exponentials; row i of a draw is user i's."""

    @abstractmethod
    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""

    def blocks(self, users: int, size: int) -> Iterator[tuple[slice, "RandomSource"]]:
        """Yield blocks of ``size`` users, as slices, each with the source for its draws.

        Mechanisms randomise large numbers of users block by block, to save memory.
        """
        for start in range(0, users, size):
            yield slice(start, min(start + size, users)), self

    def _further(self, shape: tuple[int, ...], where: Places) -> Words:
        """Draw further words, shape (places, 15), for some entries of the last draw.

        ``shape`` is the shape of the last draw, and ``where`` holds flat indices into it.
        """
        return self.words((len(where), _FURTHER_WORDS))

    def _drawn(self, shape: tuple[int, ...]) -> tuple[Floats, Places, Floats, Floats]:
        """Draw uniforms u.

        Return all u, the flat indices of those u that are near 0 or 1, and at these indices u and
        1 - u with further bits.
        """
        words = self.words(shape).reshape(-1)
        uniforms, near = np.empty(len(words)), []
        for start in range(0, len(words), _CACHED_WORDS):
            part = slice(start, start + _CACHED_WORDS)
            block = uniforms[part]
            block[:] = words[part] >> np.uint64(12)
            block += 0.5
            block *= 2.0**-52
            if block.min() < _TAIL or block.max() > 1 - _TAIL:
                near.append(start + np.flatnonzero((block < _TAIL) | (block > 1 - _TAIL)))
        uniforms = uniforms.reshape(shape)
        if not near:
            return uniforms, np.empty(0, np.intp), np.empty(0), np.empty(0)
        where = np.concatenate(near)
        coarse = uniforms.flat[where]
        low = coarse < 0.5
        further = self._further(shape, where)
        nearer = np.array(list(map(_finer, np.minimum(coarse, 1 - coarse).tolist(), further)))
        below, above = np.where(low, nearer, 1 - nearer), np.where(low, 1 - nearer, nearer)
        uniforms.flat[where] = np.where(low, below, coarse)
        return uniforms, where, below, above

    def uniforms(self, shape: tuple[int, ...]) -> Floats:
        """Draw uniforms from the open interval (0, 1).

        They are odd multiples of 2**-53, except below 2**-28, where they have full relative
        precision. A uniform lies below a multiple of 2**-52 with exactly that probability.
        """
        return self._drawn(shape)[0]

    def sides(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return two arrays, uniform draws u and 1 - u, both with full relative precision."""
        uniforms, where, below, above = self._drawn(shape)
        rest = 1 - uniforms
        uniforms.flat[where], rest.flat[where] = below, above
        return uniforms, rest

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Draw standard normals by inversion, up to 37 standard deviations in both tails."""
        uniforms, where, below, above = self._drawn(shape)
        normals = np.asarray(ndtri(uniforms, out=uniforms))
        normals.flat[where] = np.where(below < above, ndtri(below), -ndtri(above))
        return normals

    def exponentials(self, shape: tuple[int, ...]) -> Floats:
        """Draw standard exponentials by inversion, between 1e-305 and 701."""
        uniforms, where, below, above = self._drawn(shape)
        exponentials = np.asarray(np.log(uniforms, out=uniforms))
        # SciPy's functions compute one number at a time, so that a result does not depend on
        # how many numbers are near an end.
        exponentials.flat[where] = np.where(below < above, xlogy(1.0, below), log1p(-above))
        return np.asarray(np.negative(exponentials, out=exponentials))


class SystemRandom(RandomSource):
    """Random source that reads the operating system's cryptographically secure generator."""

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""
        size = math.prod(shape)
        return np.frombuffer(bytearray(os.urandom(8 * size)), np.uint64).reshape(shape)


class _Streams(RandomSource):
    """Base class of sources with one reproducible stream of words per user.

    Every draw continues the streams where the last one ended.
    """

    def __init__(self, users: int) -> None:
        self._users, self._position = users, 0

    @abstractmethod
    def _of(self, run: slice) -> "_Streams":
        """Return the random streams of the users in ``run``, set back to their beginning."""

    def _check(self, users: int) -> None:
        if users != self._users:
            raise ValueError(f"Expected {self._users} users, got {users}.")

    def blocks(self, users: int, size: int) -> Iterator[tuple[slice, RandomSource]]:
        """Yield consecutive blocks of ``size`` users, each with the streams of its users.

        The next draw from this source continues where the blocks have ended.
        """
        self._check(users)
        begin = self._position
        for run, _ in super().blocks(users, size):
            streams = self._of(run)
            streams._position = begin
            yield run, streams
            self._position = streams._position


class KeyedRandom(_Streams):
    """Independent, reproducible stream per user, from the user's 64-bit state (:func:`derive`)."""

    def __init__(self, states: Words) -> None:
        super().__init__(len(states))
        self._states = states

    def _of(self, run: slice) -> "KeyedRandom":
        return KeyedRandom(self._states[run])

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words; ``shape[0]`` must be the number of users."""
        self._check(shape[0])
        width = math.prod(shape[1:])
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

    def _further(self, shape: tuple[int, ...], where: Places) -> Words:
        # Further words depend on stream and counter only, so that blocks of users draw the same.
        width = math.prod(shape[1:])
        user, place = np.divmod(where.astype(np.uint64), np.uint64(width))
        states = self._states[user]
        counters = states + (place + np.uint64(self._position - width + 1)) * _GOLDEN
        return KeyedRandom(derive(_FURTHER, states, counters)).words((len(where), _FURTHER_WORDS))


class SecretRandom(_Streams):
    """Stream of words per user, derived from a secret key by SHAKE-256.

    Permanent answers need no other draws than words. There is one key per user, and all keys have
    the same length. ``purpose`` separates several streams from the same keys.
    """

    def __init__(self, keys: Sequence[bytes], purpose: bytes) -> None:
        super().__init__(len(keys))
        self._keys, self._purpose = keys, purpose

    def _of(self, run: slice) -> "SecretRandom":
        return SecretRandom(self._keys[run], self._purpose)

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words; ``shape[0]`` must be the number of users."""
        self._check(shape[0])
        begin, end = self._position, self._position + math.prod(shape[1:])
        self._position = end
        drawn = b"".join(
            hashlib.shake_256(self._purpose + b"\0" + key).digest(8 * end)[8 * begin :]
            for key in self._keys
        )
        return np.frombuffer(bytearray(drawn), "<u8").astype(np.uint64).reshape(shape)


class NumpyRandom(RandomSource):
    """Random source that wraps a ``numpy.random.Generator``; not for deployment.

    Its normals are NumPy's own and end at 14 standard deviations.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, shape: tuple[int, ...]) -> Words:
        """Draw uniform 64-bit words of the given shape."""
        return self._generator.integers(0, _MASK, shape, np.uint64, endpoint=True)

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Draw standard normal numbers of the given shape."""
        return self._generator.standard_normal(shape)


def as_source(rng: RandomSource | np.random.Generator) -> RandomSource:
    """Return ``rng`` as a random source."""
    return NumpyRandom(rng) if isinstance(rng, np.random.Generator) else rng
