"""Exact sampling for mechanisms with finitely many outputs, of which some are likely.

The user's value divides the outputs of such a mechanism into ``num_likely`` likely outputs
and ``num_unlikely`` other outputs. The two numbers do not depend on the value. The mechanism
chooses one of the two sets with a threshold on a random 64-bit word, and then an output of that
set with a second word. Nothing is computed in floating point, so the probabilities below are
the realised ones. The audit computes the exact law (distribution) of a mechanism's reports
from its thresholds. The simplest such mechanism, :class:`RandomizedResponse`, is in this module.

Guarantee
---------
1. An output has probability at most ``t / 2**64 * ceil(2**64 / A) / 2**64`` if
   it is likely for the value and at least ``(1 - t / 2**64) * floor(2**64 / B) /
   2**64`` if not (A likely and B unlikely outputs; a word modulo A hits an output
   ``floor`` or ``ceil`` of 2**64 / A times).
2. ``t`` is the largest integer for which the ratio of these two is at most
   ``exp(epsilon)``, in rational arithmetic with exp rounded down.
3. So for any two values the probabilities of any output differ by a factor of at
   most ``exp(epsilon)``: the mechanism is epsilon-LDP, rounding included.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..randomness import RandomSource, Words
from ..validation import Floats
from .base import OfNumber, Randomizer, Reports

_WORDS = 1 << 64
_DIGITS = 60
_MAX_TERMS = 1 << 17  # a few seconds and a hundred megabytes

#: Probability of each possible report; keys are the bytes of the report.
Law = Mapping[bytes, Fraction]
#: Ranks of one output per user: True if it is likely, and its number from 0 in its set (the likely
#: or the unlikely outputs).
Ranks = tuple[NDArray[np.bool_], Words]


@lru_cache(maxsize=64)
def _exp_rounded_down(epsilon: float) -> Fraction:
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction(Decimal(epsilon).exp() * (1 - Decimal(10) ** (5 - _DIGITS)))


def log(ratio: Fraction) -> Decimal:
    """Return the logarithm of a ratio of probabilities, a privacy loss, to 60 digits."""
    with localcontext() as context:
        context.prec = _DIGITS
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def residue_shares(divisor: int) -> Iterator[Fraction]:
    """Yield the exact probability of each residue of a random 64-bit word modulo ``divisor``."""
    least, more = divmod(_WORDS, divisor)  # a residue below ``more`` has one word more
    return (Fraction(least + (residue < more), _WORDS) for residue in range(divisor))


@dataclass(frozen=True)
class TwoLevel:
    """Exact choice between likely and unlikely outputs.

    ``epsilon`` is the largest log-ratio of the probabilities of a likely and an unlikely output.
    For every input, there are ``num_likely`` likely outputs and ``num_unlikely`` others.
    """

    epsilon: float
    num_likely: int
    num_unlikely: int

    @property
    def num_outputs(self) -> int:
        """Number of possible outputs, whatever the value."""
        return self.num_likely + self.num_unlikely

    @cached_property
    def threshold(self) -> int:
        """Number of 64-bit words, out of 2**64, for which a likely output is drawn."""
        likely = -(-_WORDS // self.num_likely)
        unlikely = _exp_rounded_down(self.epsilon) * (_WORDS // self.num_unlikely)
        return int(_WORDS * unlikely / (likely + unlikely))

    @property
    def probability(self) -> float:
        """Exact probability, as the words are drawn, that the output is a likely one."""
        return self.threshold / _WORDS

    @property
    def ratio(self) -> Fraction:
        """Exact ratio, as the words are drawn, of an output's largest and smallest probability."""
        largest = self.threshold * -(-_WORDS // self.num_likely)
        return Fraction(largest, (_WORDS - self.threshold) * (_WORDS // self.num_unlikely))

    @property
    def log_ratio(self) -> Decimal:
        """Logarithm of :attr:`ratio`: the exact privacy loss, at most ``epsilon``."""
        return log(self.ratio)

    def probabilities(self) -> list[Fraction]:
        """Return the exact probabilities of all outputs, in the order of their ranks.

        The likely outputs come first.
        """
        likely = Fraction(self.threshold, _WORDS)
        sets = ((likely, self.num_likely), (1 - likely, self.num_unlikely))
        return [chance * share for chance, size in sets for share in residue_shares(size)]

    def draw(self, rng: RandomSource, num_users: int) -> Ranks:
        """Draw an output for each user, and return the outputs' ranks."""
        words = rng.words((num_users, 2))
        likely = words[:, 0] < np.uint64(self.threshold)
        size = np.where(likely, np.uint64(self.num_likely), np.uint64(self.num_unlikely))
        return likely, words[:, 1] % size


class TooManyOutputs(ValueError):
    """Error for an enumeration that would take too long."""


def check_terms(terms: int) -> None:
    """Raise TooManyOutputs if the law of a report has too many terms to add up in seconds."""
    if terms > _MAX_TERMS:
        raise TooManyOutputs(f"Expected at most {_MAX_TERMS} outputs times roundings of a value.")


@runtime_checkable
class Enumerable(Protocol):
    """Protocol of mechanisms whose privacy loss can be computed in rational arithmetic."""

    def worst_ratio(self) -> Fraction:
        """Return the largest ratio of a report's probabilities given any two values."""

    def law(self, value: Floats, coin: Words) -> Law:
        """Return the probability of every report for one finite value and one public coin.

        Raises TooManyOutputs if the enumeration would be too long.
        """


def enumerable(mechanism: Randomizer) -> Enumerable:
    """Return the mechanism, typed as one whose law can be enumerated; raise TypeError if not."""
    if not isinstance(mechanism, Enumerable):
        raise TypeError(f"Expected mechanisms whose law can be enumerated, got {mechanism}.")
    return mechanism


def report_type(num_outputs: int) -> np.dtype[np.generic]:
    """Return the smallest unsigned integer type for report numbers below ``num_outputs``."""
    return np.min_scalar_type(num_outputs - 1)


class OneChoice(Randomizer):
    """Base class of mechanisms that rank all reports and draw the rank of the report to send.

    Likely reports come first in the ranking. One :class:`TwoLevel` choice draws the rank.
    """

    exact: ClassVar[bool] = True

    @property
    @abstractmethod
    def _choice(self) -> TwoLevel:
        """The choice that draws a rank: the rank of a likely report, or of an unlikely one."""

    @abstractmethod
    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Return pairs: the chance of a rounding of one value, and all reports by rank.

        The :meth:`law` of the value's report follows from them.
        """

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """Smallest unsigned integer type that holds the number of any report."""
        return report_type(self._choice.num_outputs)

    def contains(self, reports: Reports) -> bool:
        """Return True if every report is the number of a possible output."""
        return bool((reports.astype(np.int64) < self._choice.num_outputs).all())

    def worst_ratio(self) -> Fraction:
        """Return the exact ratio of the probabilities of a likely report and an unlikely one.

        It is at most exp(epsilon).
        """
        return self._choice.ratio

    def law(self, value: Floats, coin: Words) -> Law:
        """Return every possible report for one value and coin, with its probability."""
        law: dict[bytes, Fraction] = defaultdict(Fraction)
        check_terms(self._choice.num_outputs)
        probabilities = self._choice.probabilities()
        for terms, (chance, reports) in enumerate(self.rankings(value, coin), 1):
            check_terms(terms * len(probabilities))
            for report, probability in zip(reports, probabilities, strict=True):
                law[report.tobytes()] += chance * probability
        return law


class RoundedChoice(OneChoice):
    """Base class of mechanisms that round a value first, for example to a sign or a valid item.

    The rounded value and the user's coin determine the ranking of the reports.
    """

    @abstractmethod
    def _rounded(self, values: Floats, rng: RandomSource, coins: Words) -> NDArray[Any]:
        """Return the users' rounded values, one number per user."""

    @abstractmethod
    def _roundings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, int]]:
        """Return pairs: the chance of a rounding of one value, and the rounded value."""

    @abstractmethod
    def _ranked(self, rounded: NDArray[Any], ranks: Ranks, coins: Words) -> Reports:
        """Return the report of each user's rank, in the ranking of its rounded value."""

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        rounded = self._rounded(values, rng, coins)
        return self._ranked(rounded, self._choice.draw(rng, len(values)), coins)

    def rankings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, Reports]]:
        """Yield pairs: the chance of a rounding of one value, and all reports by rank."""
        sizes = (self._choice.num_likely, self._choice.num_unlikely)
        likely = np.repeat([True, False], sizes)
        index = np.concatenate([np.arange(size, dtype=np.uint64) for size in sizes])
        coins = np.repeat(coin, len(index))
        for chance, rounded in self._roundings(value, coin):
            yield chance, self._ranked(np.full(len(index), rounded), (likely, index), coins)


def sign_chances(values: Floats, radius: float) -> Floats:
    """Return the probabilities of rounding values to the sign +1 instead of -1.

    The values are clipped to [-radius, radius]. The expected sign is the value over the radius.
    """
    return np.asarray((1 + np.clip(values / radius, -1, 1)) / 2)


@dataclass(frozen=True)
class RandomizedResponse(RoundedChoice, OfNumber):
    """Randomiser for one number, at one bit (sent as a byte).

    Parameters are those of :class:`.OfNumber`.

    Notes
    -----
    Source: Duchi, Jordan & Wainwright (2018), one dimension. Variance of a
    debiased report: ``radius**2 * (B**2 - t**2)`` for the value ``t * radius``,
    ``B = (e^eps + 1) / (e^eps - 1)``.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The value is rounded to a random sign whose mean is the value (over the radius).
       The sign is kept with the probability of :class:`TwoLevel` (one likely output,
       one unlikely), so the probabilities of either bit differ by a factor of at most
       exp(epsilon) for the two signs, and hence for any mixtures of them.
    3. Values are clipped first and values that are not finite become 0, so the
       guarantee holds for every input.
    """

    @cached_property
    def _choice(self) -> TwoLevel:
        return TwoLevel(self.epsilon, 1, 1)

    @property
    def variance(self) -> float:
        """Variance of a debiased report: ``bound**2``, exact at the centre of the interval."""
        return self.bound**2

    @property
    def bound(self) -> float:
        """Absolute value of a debiased report: ``radius / (2 p - 1)``.

        The sign is kept with the realised probability p.
        """
        return self.radius / (2 * self._choice.probability - 1)

    def _rounded(self, values: Floats, rng: RandomSource, coins: Words) -> NDArray[np.bool_]:
        positive = rng.uniforms((len(values), 1)) < sign_chances(values, self.radius)
        return np.asarray(positive[:, 0])

    def _roundings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, bool]]:
        positive = Fraction(float(sign_chances(value, self.radius)[0]))
        return [(positive, True), (1 - positive, False)]

    def _ranked(self, rounded: NDArray[Any], ranks: Ranks, coins: Words) -> Reports:
        return np.asarray((rounded == ranks[0]).astype(np.uint8))

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return (reports.astype(np.float64) * 2 - 1)[:, None] * self.bound
