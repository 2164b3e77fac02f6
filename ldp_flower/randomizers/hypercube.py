"""Mechanism that reports a few coordinates of a vector in a box as bits."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..randomness import KeyedRandom, RandomSource, Words
from ..validation import Floats
from .base import OfVector, Reports
from .estimates import Estimate, Summary
from .two_level import Ranks, RoundedChoice, TwoLevel, sign_chances

_MAX_SUBSET = 16


@lru_cache(maxsize=256)
def _cap(epsilon: float, subset: int, agreements: int) -> tuple[TwoLevel, float]:
    """Return the choice between a cap and its complement, and the scale ``m`` that debiases it.

    The cap is the set of patterns of ``subset`` bits with at least ``agreements`` ones.
    ``m`` is E[2 K / k - 1] for K agreements of the k bits. Summed over the cap, 2 K / k - 1 is a
    binomial coefficient, since C(k, i) (2 i - k) is a difference of k C(k - 1, i - 1) and
    k C(k - 1, i). A pattern and its complement cancel, so the complement of the cap contributes
    minus the cap's sum.
    """
    cap = sum(math.comb(subset, k) for k in range(agreements, subset + 1))
    choice = TwoLevel(epsilon, cap, 2**subset - cap)
    excess = math.comb(subset - 1, agreements - 1)
    p = choice.probability
    return choice, excess * (p / cap - (1 - p) / (2**subset - cap))


@lru_cache(maxsize=256)
def best_subset(epsilon: float, max_subset: int) -> tuple[int, int]:
    """Return the number k of coordinates and the cap's threshold with the least variance.

    The variance is 1 / (k m**2), with the scale m of :func:`_cap`.
    """
    options = [
        (1 / (k * _cap(epsilon, k, agreements)[1] ** 2), k, agreements)
        for k in range(1, max_subset + 1)
        for agreements in range(k // 2 + 1, k + 1)
    ]
    return min(options)[1:]


@dataclass(frozen=True)
class SubsetHypercube(RoundedChoice, OfVector):
    """Randomiser for vectors in the box ``[-radius, radius] ** dim``, at one or two bytes a report.

    A user's public coin assigns ``subset`` coordinates to it. The user rounds them to random
    signs and sends a sign pattern. A pattern that agrees with the signs in many places is
    exp(epsilon) times as likely as another one. Of all known mechanisms for a box, this one has
    the least variance up to epsilon 4, and ties with others beyond.
    Parameters are those of :class:`.OfVector`.

    Notes
    -----
    Source: the hypercube sampler of Duchi, Jordan & Wainwright (2018) with an
    optimised, open threshold, applied to a public random subset. (With the closed threshold
    of the paper, the ratio is 1 + e^eps for even dimensions.)

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon``.
    2. The pattern is drawn by :class:`TwoLevel`: at least ``agreements`` signs agree
       (the likely set) or fewer do. The sizes of the two sets depend on public
       parameters only, so any output's probabilities differ by a factor of at most
       exp(epsilon) for any two sign vectors.
    3. The sign vector is a randomised function of the assigned coordinates, and mixing
       keeps the bound. The coordinates are clipped first, and if one of them is not
       finite, they all become 0. The guarantee therefore holds for every input.
    4. The assigned coordinates are public and do not depend on data.
    """

    @cached_property
    def _design(self) -> tuple[int, TwoLevel, float]:
        subset, agreements = best_subset(self.epsilon, min(_MAX_SUBSET, self.dim))
        return subset, *_cap(self.epsilon, subset, agreements)

    @property
    def _choice(self) -> TwoLevel:
        return self._design[1]

    @property
    def subset(self) -> int:
        """Number of coordinates that each user reports on, each by one sign."""
        return self._design[0]

    @property
    def scale(self) -> float:
        """Expected product ``m`` of a reported sign and the user's sign.

        It is 0 for reports without information, and 1 for reports without noise.
        A debiased report therefore multiplies signs by ``radius / m``.
        """
        return self._design[2]

    @cached_property
    def _patterns(self) -> NDArray[np.uint32]:
        """All patterns of bits, in which 1 means that a reported sign agrees with the user's.

        The likely patterns, those with the most agreement, come first.
        """
        patterns = np.arange(2**self.subset, dtype=np.uint32)
        ones = np.bitwise_count(patterns)
        return patterns[np.argsort(-ones.astype(np.int64), kind="stable")]

    @property
    def variance(self) -> float:
        """Variance ``radius**2 * dim / (subset * scale**2)``, exact at the centre of the box."""
        return self.bound**2 * self.dim / self.subset

    @property
    def bound(self) -> float:
        """Largest absolute value of a coordinate of a debiased report: ``radius / scale``."""
        return self.radius / self.scale

    def assigned(self, coins: Words) -> NDArray[np.int64]:
        """Return each user's assigned coordinates: a cyclic run from a public random start."""
        start = KeyedRandom(coins).words((len(coins), 1)) % np.uint64(self.dim)
        run = np.arange(self.subset, dtype=np.uint64)
        return ((start + run) % np.uint64(self.dim)).astype(np.int64)

    def _centre(self, values: Floats) -> None:
        """Leave values unchanged: only the assigned coordinates matter (:meth:`_chances`)."""

    def _chances(self, values: Floats, coins: Words) -> Floats:
        """Return, for each user's assigned coordinates, the probability of the sign +1."""
        chosen = np.take_along_axis(values, self.assigned(coins), axis=1)
        super()._centre(chosen)
        return sign_chances(chosen, self.radius)

    def _rounded(self, values: Floats, rng: RandomSource, coins: Words) -> NDArray[Any]:
        """Return each user's rounded signs as the bits of one number; 1 stands for the sign +1."""
        positive = rng.uniforms((len(values), self.subset)) < self._chances(values, coins)
        return np.asarray(positive @ (1 << np.arange(self.subset)))

    def _roundings(self, value: Floats, coin: Words) -> Iterable[tuple[Fraction, int]]:
        roundings = [(Fraction(1), 0)]
        for bit, chance in enumerate(self._chances(value[None], coin)[0].tolist()):
            ways = ((Fraction(chance), 1 << bit), (1 - Fraction(chance), 0))
            roundings = [(p * q, s | b) for p, s in roundings for q, b in ways if q]
        return roundings

    def _ranked(self, rounded: NDArray[Any], ranks: Ranks, coins: Words) -> Reports:
        """Return reports: the signs, kept where the drawn pattern has a 1 and flipped elsewhere."""
        likely, index = ranks
        agreement = self._patterns[np.where(likely, 0, self._choice.num_likely) + index.astype(int)]
        everything = 2**self.subset - 1
        return np.asarray((rounded ^ agreement ^ everything).astype(self.report_dtype))

    def _signs(self, reports: Reports) -> Floats:
        bits = reports.astype(np.uint32)[:, None] >> np.arange(self.subset, dtype=np.uint32)
        return (bits & np.uint32(1)).astype(np.float64) * 2 - 1

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        values = np.zeros((len(reports), self.dim))
        signs = self._signs(reports) * (self.bound * self.dim / self.subset)
        np.put_along_axis(values, self.assigned(coins), signs, axis=1)
        return values

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        # Sums add up signs that are not scaled by dim / subset. Squares count a coordinate's users.
        where = self.assigned(coins).ravel()
        signs = np.bincount(where, self._signs(reports).ravel(), self.dim)
        users = np.bincount(where, minlength=self.dim).astype(np.float64)
        total, squares = signs * self.bound, users * self.bound**2
        return Summary(len(reports), np.asarray(total, float), np.asarray(squares, float))

    def estimate(self, summary: Summary) -> Estimate:
        """Return the mean of each coordinate, over the users to whom it is assigned."""
        users = summary.sum_of_squares / self.bound**2
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(users > 0, summary.sum / users, 0.0)
            # Use the known noise, since a few signs may agree by chance and show no spread.
            std_error = np.where(users > 0, self.bound / np.sqrt(users), np.inf)
        return Estimate(mean, std_error, summary.count)

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return True if ``count`` reports can give the counts of signs in the summary."""
        if not super().accepts(summary, coins):
            return False
        users, signs = summary.sum_of_squares / self.bound**2, summary.sum / self.bound
        assigned = np.bincount(self.assigned(coins).ravel(), minlength=self.dim)
        missing = assigned - users
        return bool(
            np.allclose(users, np.rint(users), rtol=1e-9, atol=1e-6)
            and (np.abs(signs) <= users * (1 + 1e-9) + 1e-6).all()
            and (missing >= -1e-6).all()
            and abs(missing.sum() - (len(coins) - summary.count) * self.subset) < 1e-3
        )
