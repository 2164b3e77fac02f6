"""Estimates of a distribution function at thresholds from one-bit reports; search for quantiles."""

import math
from collections.abc import Callable, Generator, Sequence

import numpy as np

from ldp_flower.questions import SharesBelow
from ldp_flower.randomizers import Estimate, RandomizedResponse, SampledCoordinate
from ldp_flower.validation import Floats

from ..numerics.quantile_posterior import Crossing, crossing_posterior, enclosing_thresholds, pooled
from ..numerics.value_scale import ValueScale
from ..runtime import Ask, Cohort, TooFewReports
from ..runtime.result import HALF_WIDTH_95
from .cell_search import ONE_VALUE, FoundQuantile

#: Number of thresholds of the first round, spread over the bounds.
FIRST = 24
# Distances of later thresholds from a quantile, in standard errors of a share that all of the
# quantile's users report. The best that tests reach is an end of the interval 2.7 ideal half-widths
# away. So most reports are some 4.5 errors (2.3 half-widths) away. Some are further away, in case
# these prove nothing, and some are closer, for the estimate.
SPREAD = np.array([-8.0, -4.5, -1.5, 1.5, 4.5, 8.0])
# A quantile is taken for a value that many users share if the posterior's error in rank exceeds
# _JUMP times the expected noise, while the posterior is within _STEEP of the scale's length.
_JUMP = 4.0
_STEEP = 0.2
_COARSER = 1.0  # log prior odds of a scale against the next finer one
# If the central 68 % of the posterior is wider than this, in rank, the posterior's median is the
# estimate.
_MAX_SPREAD = 0.3
_TELLING = 5  # largest number of quantiles that are used to choose the scale
_MAX_MISSING = 0.95  # largest estimated share of missing values; noise hides the other users beyond


class ThresholdShares:
    """Shares of users at or below thresholds, estimated from the one-bit reports of all rounds.

    Users with a missing value report "below" with a probability that the question gives. If half of
    the users get the probability 0 and half 1, the difference estimates the share of ``missing``
    values.
    """

    def __init__(self, part: RandomizedResponse) -> None:
        self._part = part
        self._rounds: list[tuple[Floats, Floats, Floats, Floats]] = []
        self.missing, self.missing_error = 0.0, 0.0

    def ask(
        self, cohort: Cohort, question: SharesBelow, at: Floats
    ) -> Generator[Ask, Estimate, int]:
        """Ask a cohort about the thresholds ``at``; return the number of users who answered."""
        answer = yield Ask(cohort, question, SampledCoordinate(self._part, len(at)))
        shares, counts = (answer.mean + 1) / 2, self._counts(answer)
        asked = np.asarray(question.levels, np.float64)
        self._rounds.append((at, asked, shares, counts))
        if len(self._rounds) == 1:
            self._estimate_missing(asked, shares, counts)
        return answer.count

    @property
    def _noise(self) -> float:
        """Variance that a report's randomisation adds to a share."""
        return (self._part.variance - 1) / 4

    def _estimate_missing(self, asked: Floats, shares: Floats, counts: Floats) -> None:
        """Estimate the share of missing values from users' shares below thresholds.

        Users with a missing value say "below" with a probability, ``asked``, that is 0 or 1.
        """
        ones, zeros = (np.flatnonzero((asked == each) & (counts > 0)) for each in (1.0, 0.0))
        if not len(ones) or not len(zeros):
            return
        # Thresholds have equal weights instead of their counts: if the few reports at a threshold
        # are all the same, their number is not known.
        found = float(shares[ones].mean() - shares[zeros].mean())
        self.missing = min(max(found, 0.0), _MAX_MISSING)
        spread = sum(float(np.sum(1 / counts[each])) / len(each) ** 2 for each in (ones, zeros))
        self.missing_error = math.sqrt((self._noise + 0.25) * spread)

    def _reports(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return four arrays: thresholds in increasing order, and what is known of each.

        These are the probability asked, the share and the number of reports.
        """
        at, asked, shares, counts = map(np.concatenate, zip(*self._rounds, strict=True))
        order = np.argsort(at, kind="stable")
        order = order[counts[order] > 0]
        return at[order], asked[order], shares[order], counts[order]

    def _about(self, level: float, scale: ValueScale) -> tuple[Floats, Floats, Floats]:
        """Return thresholds on a scale, adjusted shares, and weights.

        A share is adjusted to the value that it would have if ``level`` had been asked everywhere:
        it crosses the level where the distribution of the values that are not missing does. Reports
        asked with another level have smaller weights, since the share of missing values is
        uncertain.
        """
        at, asked, shares, counts = self._reports()
        unsure = asked - level
        excess = (unsure * self.missing_error) ** 2 / (self._noise + 0.25)
        _, group = np.unique(asked, return_inverse=True)
        together = np.bincount(group, counts)[group]  # reports of a group share this error
        return scale.places(at), shares - self.missing * unsure, counts / (1 + together * excess)

    def about(self, level: float, scale: ValueScale) -> Crossing:
        """Return the posterior of the quantile at ``level``, as a position on ``scale``."""
        return crossing_posterior(*self._about(level, scale), self._noise, level)

    def pooled(self, belief: Crossing, scale: ValueScale) -> float:
        """Return the estimate of a quantile by nearby reports, as a position on ``scale``."""
        return pooled(belief, *self._about(belief.level, scale))

    def interval(
        self, belief: Crossing, at: float, scale: ValueScale, z: float
    ) -> tuple[float, float]:
        """Return the two ends of a confidence interval of a quantile.

        It holds for any distribution of the values.
        """
        thresholds, asked, shares, counts = self._reports()
        level = belief.level
        unsure = asked - level
        at_level = level + self.missing * unsure  # share of reports at the quantile
        variance = (self._noise + np.maximum(at_level * (1 - at_level), 0.0)) / counts
        lower, upper = enclosing_thresholds(
            shares - at_level,
            variance,
            self.missing_error * unsure,
            belief.curve(scale.places(thresholds), at) - level,
            z,
        )
        ends = np.concatenate([[scale.low], thresholds, [scale.high]])
        return float(ends[lower + 1]), float(ends[upper + 1])

    def _counts(self, answer: Estimate) -> Floats:
        """Return the number of users who answered at each threshold, from the standard errors.

        If all answers at a threshold are the same, or rounding makes the number too large, return
        the expected number there.
        """
        errors, spread = answer.std_error, self._part.variance - answer.mean**2
        some = (errors > 0) & (errors < np.inf)
        found = np.rint(1 + spread / np.where(some, errors, np.inf) ** 2)
        counts = np.where(some & (found <= answer.count), found, answer.count / len(errors))
        return np.where(np.isinf(errors), np.where(answer.mean != 0, 1.0, 0.0), counts)


def search_by_thresholds(
    cohorts: Sequence[Cohort],
    levels: Sequence[float],
    errors: Sequence[float],
    scales: Sequence[ValueScale],
    part: RandomizedResponse,
    question: Callable[[Floats, Floats], SharesBelow],
) -> Generator[Ask, Estimate, list[FoundQuantile]]:
    """Ask each cohort about thresholds around the quantiles that earlier cohorts estimate.

    Return the quantiles at the ``levels``, with their intervals.

    levels, errors: Levels of the quantiles, and standard errors of shares if all users are asked.
    scales: Candidate scales, of which the likeliest is used: on it the values form one group.
    question: Function that makes a question from thresholds and the level asked at each of them.
    """
    scale, found, users = scales[0], ThresholdShares(part), 0
    # Only a few quantiles, from the lowest to the highest, since each takes time on every scale.
    some = np.unique(np.linspace(0, len(levels) - 1, _TELLING).astype(int))
    few = [sorted(levels)[place] for place in some]
    beliefs: list[Crossing] = []
    for cohort in cohorts:
        if beliefs:
            places = np.concatenate(list(map(_around, beliefs, errors)))
            asked = np.repeat(levels, len(SPREAD))
        else:
            places = np.repeat(np.linspace(0, 1, FIRST + 2)[1:-1], 2)
            asked = np.arange(2 * FIRST) % 2.0
        thresholds = scale.values(places)
        try:
            users += yield from found.ask(cohort, question(thresholds, asked), thresholds)
        except TooFewReports:
            if not beliefs:
                raise
            break
        if len(scales) > 1:  # several quantiles: one alone may suit a wrong scale by chance
            likely = [sum(found.about(one, each).evidence for one in few) for each in scales]
            scale = scales[int(np.argmax(likely + _COARSER * np.arange(len(scales))))]
        beliefs = [found.about(level, scale) for level in levels]
    rows = []
    for error, belief in zip(errors, beliefs, strict=True):
        near, middle, far = belief.quantile([0.16, 0.5, 0.84]).tolist()
        sure = (far - near) * belief.slope() < _MAX_SPREAD
        at = found.pooled(belief, scale) if sure else middle
        lower, upper = found.interval(belief, at, scale, HALF_WIDTH_95)
        if lower == upper:
            lower, upper = found.interval(belief, at, scale, ONE_VALUE)
        steep = np.ptp(belief.quantile([0.025, 0.975])) < _STEEP
        shared = bool(steep) and (far - near) / 2 * belief.slope() > _JUMP * error
        rows.append(
            FoundQuantile(min(max(float(scale.values(at)), lower), upper), lower, upper, shared)
        )
    return rows


def _around(belief: Crossing, error: float) -> Floats:
    """Return positions of thresholds on both sides of a quantile.

    ``error`` is the expected error of the quantile in rank. No position is further away than half
    the distance to a bound, since there are no values beyond bounds.
    """
    near, middle, far = belief.quantile([0.16, 0.5, 0.84])
    sides = np.sign(SPREAD) * np.hypot(SPREAD * error / belief.slope(), (far - near) / 2)
    return np.asarray(np.clip(middle + sides, middle / 2, (1 + middle) / 2))
