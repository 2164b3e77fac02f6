"""Estimate a distribution function at thresholds from one-bit reports, and its quantiles."""

import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import SharesBelow
from ldp_flower.randomizers import Estimate, RandomizedResponse, SampledCoordinate

from ..numerics.crossing import Crossing, believed, inverted, pooled
from ..numerics.value_scale import ValueScale
from ..runtime.exchange import Ask
from ..runtime.population import Cohort

Floats = NDArray[np.float64]

_MAX_MISSING = 0.95  # share of users without an entry: with more, the rest are hidden by noise


class Shares:
    """Shares of users at or below thresholds, estimated from one-bit reports of some rounds.

    Users without an entry report "below" with a probability that the question gives. Where half of
    the users are asked with 0 and half with 1, the difference estimates how many these are.

    Parameters
    ----------
    part : RandomizedResponse
        Randomizer of one bit.

    Attributes
    ----------
    missing, missing_error : float
        Estimated share of users without an entry, and its standard error.
    """

    def __init__(self, part: RandomizedResponse) -> None:
        self._part = part
        self._rounds: list[tuple[Floats, Floats, Floats, Floats]] = []
        self.missing, self.missing_error = 0.0, 0.0

    def ask(
        self, cohort: Cohort, question: SharesBelow, at: Floats
    ) -> Generator[Ask, Estimate, int]:
        """Ask about these thresholds; return how many users answered."""
        answer = yield Ask(cohort, question, SampledCoordinate(self._part, len(at)))
        shares, counts = (answer.mean + 1) / 2, self._counts(answer)
        asked = np.asarray(question.levels, np.float64)
        self._rounds.append((at, asked, shares, counts))
        if len(self._rounds) == 1:
            self._estimate_missing(asked, shares, counts)
        return answer.count

    @property
    def _noise(self) -> float:
        """Variance that the randomizer adds to a share."""
        return (self._part.variance - 1) / 4

    def _estimate_missing(self, asked: Floats, shares: Floats, counts: Floats) -> None:
        """Estimate the share of users without an entry, by who reports 1 and who reports 0."""
        ones, zeros = (np.flatnonzero((asked == each) & (counts > 0)) for each in (1.0, 0.0))
        if not len(ones) or not len(zeros):
            return
        # Thresholds count alike: where few reports are alike it is not known how few they are.
        found = float(shares[ones].mean() - shares[zeros].mean())
        self.missing = min(max(found, 0.0), _MAX_MISSING)
        spread = sum(float(np.sum(1 / counts[each])) / len(each) ** 2 for each in (ones, zeros))
        self.missing_error = math.sqrt((self._noise + 0.25) * spread)

    def _reports(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return thresholds, increasing, and for each what was asked, shares and their counts."""
        at, asked, shares, counts = map(np.concatenate, zip(*self._rounds, strict=True))
        order = np.argsort(at, kind="stable")
        order = order[counts[order] > 0]
        return at[order], asked[order], shares[order], counts[order]

    def _about(self, level: float, scale: ValueScale) -> tuple[Floats, Floats, Floats]:
        """Return places, what is reported there as if all had been asked for a level, and weights.

        That crosses the level where the distribution of those with an entry does. Reports that
        were asked for another level count less, as the share of users without an entry is unsure.
        """
        at, asked, shares, counts = self._reports()
        unsure = asked - level
        excess = (unsure * self.missing_error) ** 2 / (self._noise + 0.25)
        _, group = np.unique(asked, return_inverse=True)
        together = np.bincount(group, counts)[group]  # they share the error
        return scale.places(at), shares - self.missing * unsure, counts / (1 + together * excess)

    def about(self, level: float, scale: ValueScale) -> Crossing:
        """Return the posterior of a quantile, on a scale."""
        return believed(*self._about(level, scale), self._noise, level)

    def pooled(self, belief: Crossing, scale: ValueScale) -> float:
        """Return the estimate of a quantile, on a scale."""
        return pooled(belief, *self._about(belief.level, scale))

    def interval(
        self, belief: Crossing, at: float, scale: ValueScale, z: float
    ) -> tuple[float, float]:
        """Return the values between which a quantile lies, whatever the distribution."""
        thresholds, asked, shares, counts = self._reports()
        level = belief.level
        unsure = asked - level
        at_level = level + self.missing * unsure  # of reports, where the distribution is at it
        variance = (self._noise + np.maximum(at_level * (1 - at_level), 0.0)) / counts
        lower, upper = inverted(
            shares - at_level,
            variance,
            self.missing_error * unsure,
            belief.curve(scale.places(thresholds), at) - level,
            z,
        )
        ends = np.concatenate([[scale.low], thresholds, [scale.high]])
        return float(ends[lower + 1]), float(ends[upper + 1])

    def _counts(self, answer: Estimate) -> Floats:
        """Return how many answered at each threshold, which the standard errors of bits tell.

        If all answers there were the same they tell nothing, or more than there are by rounding;
        then it is the number to expect.
        """
        errors, spread = answer.std_error, self._part.variance - answer.mean**2
        some = (errors > 0) & (errors < np.inf)
        found = np.rint(1 + spread / np.where(some, errors, np.inf) ** 2)
        counts = np.where(some & (found <= answer.count), found, answer.count / len(errors))
        return np.where(np.isinf(errors), np.where(answer.mean != 0, 1.0, 0.0), counts)
