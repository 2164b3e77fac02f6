"""Enumeration: the exact privacy loss of mechanisms with few outputs, from their thresholds."""

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..randomizers import TwoLevel
from ..randomness import Words, derive

Floats = NDArray[np.float64]

_WORDS = 1 << 64
_MAX_TERMS = 1 << 20  # of an enumeration


@runtime_checkable
class Enumerable(Protocol):
    """A mechanism whose outputs can be enumerated: one TwoLevel choice and a ranking."""

    def rankings(
        self, value: Floats, coin: Words
    ) -> tuple[TwoLevel, Iterable[tuple[Fraction, NDArray[Any]]]]:
        """Return the choice and, for each rounding of one value, its chance and ranking."""


def exact_epsilon(mechanism: Enumerable, inputs: Floats, coins: Words | None = None) -> float:
    """Return the largest log-ratio of any output's probabilities for any two inputs.

    Parameters
    ----------
    mechanism : Enumerable
        A mechanism with :meth:`Enumerable.rankings`.
    inputs : ndarray of float64, shape (inputs, width)
        The values to compare, finite.
    coins : ndarray of uint64, optional
        Public coins to try, by default one.

    Notes
    -----
    Probabilities are integers over 2**128, from the thresholds on random words that
    are used, so the result is exact up to its rounding to a float.

    Raises
    ------
    ValueError
        If the enumeration would be too long.
    """
    largest = Fraction(1)
    for coin in derive(0) if coins is None else coins:
        laws = [_law(mechanism, value, np.array([coin])) for value in inputs]
        for chances in zip(*laws, strict=True):
            if min(chances) > 0:
                largest = max(largest, Fraction(max(chances)) / Fraction(min(chances)))
            elif max(chances) > 0:
                return math.inf
    with localcontext() as context:
        context.prec = 60
        return float((Decimal(largest.numerator) / Decimal(largest.denominator)).ln())


def _law(mechanism: Enumerable, value: Floats, coin: Words) -> list[int | Fraction]:
    """Return 2**128 times the probability of every output, 0 to their number."""
    choice, rankings = mechanism.rankings(value, coin)
    by_rank: list[int] = []
    for words, size in (
        (choice.threshold, choice.num_likely),
        (_WORDS - choice.threshold, choice.num_unlikely),
    ):
        least, more = divmod(_WORDS, size)  # a word modulo size is below ``more`` once more
        by_rank += [words * (least + (index < more)) for index in range(size)]
    law: list[int | Fraction] = [0] * len(by_rank)
    terms = 0
    for chance, reports in rankings:
        terms += len(by_rank)
        if terms > _MAX_TERMS:
            raise ValueError(f"Expected at most {_MAX_TERMS} outputs times roundings of a value.")
        for report, weight in zip(reports.tolist(), by_rank, strict=True):
            law[report] += weight if chance == 1 else chance * weight
    return law
