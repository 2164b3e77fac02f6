"""One number of each user: squared errors, the scale of targets, the typical norm of vectors.

For a scale users hold many targets each, whose root mean square is nearly the common one.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from ldp_flower.questions import Question, TargetScaleBin
from ldp_flower.randomizers import (
    Codebook,
    Estimate,
    KRandomizedResponse,
    RandomizedResponse,
    Randomizer,
)
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run, TooFewReports


def number_randomizer(epsilon: float, radius: float) -> Randomizer:
    """Return the mechanism for a number in ``[-radius, radius]``, whichever is less noisy."""
    candidates = (RandomizedResponse(epsilon, radius), Codebook(epsilon, 1, radius))
    return min(candidates, key=lambda mechanism: mechanism.variance)


# Targets' scales from 2**-10 to 2**10, by bins of half an octave: a bin's middle is off by 19 %.
_SMALLEST, _OCTAVES, _PER_OCTAVE = 2.0**-10, 20, 2
_NUM_BINS = _PER_OCTAVE * _OCTAVES
USERS_SPREAD = 0.1  # standard deviation of log-scales among users, beyond sampling
_COHORTS = 3  # whose reports have to do
_SHARE = 0.13  # of all users that one of them may be
_CERTAIN = 0.99  # probability from which an estimated scale is believed
_NEAR = 0.5  # a scale within exp(this) of the most likely one counts as the same


@dataclass(frozen=True)
class TargetScale:
    """An estimate of the root mean square of the targets, with its uncertainty."""

    value: float  # the estimate
    # Variance of the estimate's logarithm, given that the true scale is near the most likely one
    variance: float
    certainty: float = 1.0  # probability that the true scale is near the most likely one

    @property
    def spread(self) -> float:
        """Mean square difference between a user's log-scale and the estimate's logarithm."""
        return self.variance + USERS_SPREAD**2

    @property
    def is_certain(self) -> bool:
        """Whether the value is at least near the right one, to all intents."""
        return self.certainty >= _CERTAIN

    def doubts(self, argument: str) -> list[str]:
        """Say, if the scale is not certain, by which argument it may be declared."""
        if self.is_certain:
            return []
        low, high = self.value * math.exp(-_NEAR), self.value * math.exp(_NEAR)
        return [
            f"The estimated scale of the data, {self.value:.3g}, may be wrong: the right one is "
            f"between {low:.3g} and {high:.3g} with a probability of only {self.certainty:.0%}, "
            f"and coefficients are as wrong as it is. Declare {argument}, or ask more users."
        ]

    def updated(self, log_ratio: float, variance: float) -> "TargetScale":
        """Return the belief after an unbiased estimate of the logarithm of scale over value."""
        weight = self.variance / (self.variance + variance)
        return replace(
            self, value=self.value * math.exp(weight * log_ratio), variance=weight * variance
        )


def scale_cohorts(run: Run, epsilon: float, argument: str = "target_scale") -> Iterator[Cohort]:
    """Return the cohorts that may be asked for a scale, each cut when it is needed.

    One is large enough to distinguish the 40 bins, nearly always. Where many users do not answer
    there are more than the usual three. Raise TooFewReports if that would be too many of the users.
    """
    size = math.ceil(6 + 250 * math.exp(epsilon) / math.expm1(epsilon) ** 2)
    size = max(size, run.min_reports)
    if size > _SHARE * run.num_users:
        why = f"To learn the scale of the data would take {size:,} of {run.num_users:,} users."
        advice = f"Declare {argument} if it is public."
        raise TooFewReports(TooFew(why, "noise", advice=advice))
    most = max(_COHORTS, int(_COHORTS * _SHARE * run.num_users / size))
    return (run.cohorts([size])[0] for _ in range(most))


def estimate_target_scale(
    cohorts: Iterable[Cohort],
    epsilon: float,
    samples_per_user: int,
    question: Callable[[float, float, int], Question] = TargetScaleBin,
) -> Generator[Ask, Estimate, TargetScale]:
    """Ask one cohort after the other until the scale is all but certain, or three answered.

    Users report the bin of their own targets' root mean square, by randomised response over all
    bins. With a known spread of users around the common scale, the counts of all bins together give
    a scale finer than the bins. ``question`` asks for another size, the root mean square of
    ``samples_per_user`` numbers, given bins. Raise TooFewReports if nobody answers at all.
    """
    oracle = KRandomizedResponse(epsilon, _NUM_BINS)
    bins = question(_SMALLEST, _PER_OCTAVE, _NUM_BINS)
    own, other = float(oracle.own), float(oracle.other)
    counts, num_reports = np.zeros(_NUM_BINS), 0
    scale = TargetScale(1.0, math.inf, 0.0)
    for cohort in cohorts:
        # However few answer: how certain the scale is says whether to ask more.
        answer = yield Ask(cohort, bins, oracle, min_reports=0)
        counts += oracle.support(answer)
        num_reports += answer.count
        logs, named, unnamed = _log_chances(own, other, samples_per_user)
        log_weights = named @ counts + unnamed @ (num_reports - counts)
        weights = np.exp(log_weights - log_weights.max())
        scale = _believed(logs, weights / weights.sum())
        if scale.certainty > 0.999 or num_reports >= _COHORTS * cohort.size:
            return scale
    if not num_reports:
        raise TooFewReports(
            TooFew("Nobody of those asked for the scale of the data has answered.", "answers")
        )
    return scale


@lru_cache(maxsize=8)
def _log_chances(own: float, other: float, samples_per_user: int) -> tuple[Floats, Floats, Floats]:
    """Return logarithms of scales, and those of the chances that bins are named, and are not."""
    low = math.log(_SMALLEST)
    edges = low + np.arange(_NUM_BINS + 1) / _PER_OCTAVE * math.log(2)
    logs = np.linspace(edges[0], edges[-1], 50 * _NUM_BINS + 1)
    spread = math.sqrt(1 / (2 * samples_per_user) + USERS_SPREAD**2)
    inner = ndtr((edges[1:-1] - logs[:, None]) / spread)
    chance = other + (own - other) * np.diff(inner, prepend=0.0, append=1.0, axis=1)
    return logs, np.log(chance), np.log1p(-chance)


def _believed(logs: Floats, weights: Floats) -> TargetScale:
    """Return the belief near the likeliest of scales with these logarithms and weights."""
    near = np.abs(logs - logs[np.argmax(weights)]) < _NEAR
    total = float(weights[near].sum())
    mean = float(weights[near] @ logs[near]) / total
    variance = float(weights[near] @ (logs[near] - mean) ** 2) / total
    return TargetScale(math.exp(mean), variance, total / float(weights.sum()))


_LOG_RANGE = math.log(16)  # a norm lies within this factor of its prior
_USERS_VARIANCE = 0.5  # of the logarithms of users' norms
_ERROR = 0.4  # wanted standard deviation of the logarithm
_MOST_SHARE = 0.12  # of all users


def norm_askers(run: Run, epsilon: float) -> int:
    """Return how many of a strategy's users to ask for a norm."""
    most = int(_MOST_SHARE * run.num_users)
    return max(min(most, enough_for_norm(epsilon)), run.min_reports)


def enough_for_norm(epsilon: float) -> int:
    """Return how many users estimate a norm well enough."""
    variance = _LOG_RANGE**2 * number_randomizer(epsilon, 1.0).variance + _USERS_VARIANCE
    return math.ceil(variance / _ERROR**2)


def estimate_norm(
    cohort: Cohort, epsilon: float, question: Callable[[float, float], Question], prior: float
) -> Generator[Ask, Estimate, float]:
    """Ask a cohort for the typical norm, the geometric mean, of its users' vectors.

    ``question`` asks for log(norm / prior) / log_range. If nobody answers the prior is returned.
    """
    randomizer = number_randomizer(epsilon, 1.0)
    answer = yield Ask(cohort, question(prior, _LOG_RANGE), randomizer, min_reports=0)
    log = _LOG_RANGE * float(np.clip(answer.mean[0], -1, 1))
    return prior * math.exp(log)
