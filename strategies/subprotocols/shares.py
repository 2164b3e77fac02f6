"""Estimate a distribution function at thresholds from one-bit reports; search its quantiles."""

import math
from collections.abc import Callable, Generator, Sequence

import numpy as np

from ldp_flower.questions import SharesBelow
from ldp_flower.randomizers import Estimate, RandomizedResponse, SampledCoordinate
from ldp_flower.validation import Floats

from ..numerics.quantile_posterior import Crossing, believed, inverted, pooled
from ..numerics.value_scale import ValueScale
from ..runtime import Ask, Cohort, TooFewReports
from ..runtime.result import NORMAL
from .cell_search import ONE_VALUE, FoundQuantile

#: Thresholds of the first round, all over the bounds.
FIRST = 24
# Where later thresholds are, in errors of a share that all of a quantile's users are asked about.
# An end 2.7 ideal half-widths away is the best that tests reach: most reports are some 4.5 errors
# (2.3 half-widths) away, with others beyond if these prove nothing, and within for the estimate.
SPREAD = np.array([-8.0, -4.5, -1.5, 1.5, 4.5, 8.0])
_JUMP = 4.0  # times the expected noise that a step of the distribution looks like,
_STEEP = 0.2  # if what is believed is within so much of the scale
_COARSER = 1.0  # how much more likely a scale is than the next finer one, before anybody answers
_UNSURE = 0.3  # in rank, of 68 % of the posterior, from which its median is the estimate
_TELLING = 5  # quantiles, at most, by which it is chosen
_MAX_MISSING = 0.95  # share of users without an entry: with more, the rest are hidden by noise


class Shares:
    """Shares of users at or below thresholds, estimated from one-bit reports of some rounds.

    Users without an entry report "below" with a probability that the question gives. Where half of
    the users are asked with 0 and half with 1, the difference estimates how many are ``missing``.
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

        It crosses the level where the distribution of those with an entry does. Reports asked for
        another level count less, as the share of users without an entry is unsure.
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
        """Return how many answered at each threshold, by the standard errors of bits.

        Where all answered the same, or rounding makes them too many, it is the number to expect.
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
    """Ask each cohort about thresholds around the quantiles that the former ones estimate.

    levels, errors: Of the quantiles, and standard errors of shares if all are asked.
    scales: On one of which the entries lie in one group; the likeliest is used.
    question: Takes thresholds and the level that is asked for at each.
    """
    scale, found, users = scales[0], Shares(part), 0
    # From the lowest to the highest: each takes time on every scale.
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
        if len(scales) > 1:  # one quantile alone may lie where a wrong scale is dense by chance
            likely = [sum(found.about(one, each).evidence for one in few) for each in scales]
            scale = scales[int(np.argmax(likely + _COARSER * np.arange(len(scales))))]
        beliefs = [found.about(level, scale) for level in levels]
    rows = []
    for error, belief in zip(errors, beliefs, strict=True):
        near, middle, far = belief.quantile([0.16, 0.5, 0.84]).tolist()
        sure = (far - near) * belief.slope() < _UNSURE
        at = found.pooled(belief, scale) if sure else middle
        lower, upper = found.interval(belief, at, scale, NORMAL)
        if lower == upper:
            lower, upper = found.interval(belief, at, scale, ONE_VALUE)
        steep = np.ptp(belief.quantile([0.025, 0.975])) < _STEEP
        shared = bool(steep) and (far - near) / 2 * belief.slope() > _JUMP * error
        rows.append(
            FoundQuantile(min(max(float(scale.values(at)), lower), upper), lower, upper, shared)
        )
    return rows


def _around(belief: Crossing, error: float) -> Floats:
    """Return places on both sides of a quantile, of which the error in rank will be so large.

    None is further away than half the way to a bound, beyond which there is nothing to ask for.
    """
    near, middle, far = belief.quantile([0.16, 0.5, 0.84])
    sides = np.sign(SPREAD) * np.hypot(SPREAD * error / belief.slope(), (far - near) / 2)
    return np.asarray(np.clip(middle + sides, middle / 2, (1 + middle) / 2))
