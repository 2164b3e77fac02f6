"""Estimates from one number per user: the scale of targets and the typical norm of vectors.

The estimate of a scale assumes that the root mean square of each user's targets is near the common
one, since each user holds many targets.
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
    """Return the less noisy of two randomizers for a number in ``[-radius, radius]``."""
    candidates = (RandomizedResponse(epsilon, radius), Codebook(epsilon, 1, radius))
    return min(candidates, key=lambda mechanism: mechanism.variance)


# Scales of targets from 2**-10 to 2**10, in bins of half an octave: within 19 % of a bin's middle.
_SMALLEST, _OCTAVES, _PER_OCTAVE = 2.0**-10, 20, 2
_NUM_BINS = _PER_OCTAVE * _OCTAVES
USERS_SPREAD = 0.1  # standard deviation of log-scales among users, beyond sampling
_COHORTS = 3  # largest number of cohorts, if all of their users answer
_COHORT_SHARE = 0.13  # largest share of all users in one cohort
_CERTAIN_PROBABILITY = 0.99  # probability from which an estimated scale counts as certain
_SAME_LOG = 0.5  # a scale within a factor exp(_SAME_LOG) of the most likely one counts as the same


@dataclass(frozen=True)
class TargetScale:
    """An estimate of the root mean square of the targets, with its uncertainty."""

    value: float  # the estimate
    # Variance of the estimate's logarithm, given that the true scale is near the most likely one
    variance: float
    certainty: float = 1.0  # probability that the true scale is near the most likely one

    @property
    def spread(self) -> float:
        """Mean square distance of users' log-scales from the logarithm of the estimate.

        Reports that refine the scale have to cover it.
        """
        return self.variance + USERS_SPREAD**2

    def notes(self, argument: str) -> list[str]:
        """Return a note, in a list, if the scale is not certain.

        The note names the ``argument`` that declares the scale.
        """
        if self.certainty >= _CERTAIN_PROBABILITY:
            return []
        low, high = self.value * math.exp(-_SAME_LOG), self.value * math.exp(_SAME_LOG)
        return [
            f"The estimated scale of the data, {self.value:.3g}, may be wrong: the right one is "
            f"between {low:.3g} and {high:.3g} with a probability of only {self.certainty:.0%}, "
            f"and coefficients are as wrong as the scale. Declare {argument}, or ask more users."
        ]

    def updated(self, log_ratio: float, variance: float) -> "TargetScale":
        """Return the posterior after a further estimate.

        ``log_ratio`` is an unbiased estimate, of this ``variance``, of the logarithm of the true
        scale over the present value.
        """
        weight = self.variance / (self.variance + variance)
        return replace(
            self, value=self.value * math.exp(weight * log_ratio), variance=weight * variance
        )


def scale_cohorts(run: Run, epsilon: float, argument: str = "target_scale") -> Iterator[Cohort]:
    """Return the cohorts that may be asked for a scale; each is cut when it is needed.

    One cohort is nearly always enough to distinguish the 40 bins. Usually there are at most three,
    but more are possible if many users do not answer. Raise TooFewReports if a cohort would contain
    too large a share of the users.
    """
    size = math.ceil(6 + 250 * math.exp(epsilon) / math.expm1(epsilon) ** 2)
    size = max(size, run.min_reports)
    if size > _COHORT_SHARE * run.num_users:
        why = f"To learn the scale of the data would take {size:,} of {run.num_users:,} users."
        advice = f"Declare {argument} if it is public."
        raise TooFewReports(TooFew(why, "noise", advice=advice))
    most = max(_COHORTS, int(_COHORTS * _COHORT_SHARE * run.num_users / size))
    return (run.cohorts([size])[0] for _ in range(most))


def estimate_target_scale(
    cohorts: Iterable[Cohort],
    epsilon: float,
    samples_per_user: int,
    question: Callable[[float, float, int], Question] = TargetScaleBin,
) -> Generator[Ask, Estimate, TargetScale]:
    """Ask cohorts for the scale of targets, until it is nearly certain or there are enough reports.

    Enough are the reports of three full cohorts. Users report the bin of their own targets' root
    mean square, by randomised response over all bins. Since the spread of users around the common
    scale is known, the counts of all bins together give a scale finer than the bins. ``question``
    makes the question from the bins; it may ask for another size, the root mean square of
    ``samples_per_user`` numbers. Raise TooFewReports if no user answers at all.
    """
    oracle = KRandomizedResponse(epsilon, _NUM_BINS)
    bins = question(_SMALLEST, _PER_OCTAVE, _NUM_BINS)
    own, other = float(oracle.own), float(oracle.other)
    counts, num_reports = np.zeros(_NUM_BINS), 0
    scale = TargetScale(1.0, math.inf, 0.0)
    for cohort in cohorts:
        # Any number of reports is accepted. The scale's certainty decides if more users are asked.
        answer = yield Ask(cohort, bins, oracle, min_reports=0)
        counts += oracle.support(answer)
        num_reports += answer.count
        logs, named, unnamed = _log_chances(own, other, samples_per_user)
        log_weights = named @ counts + unnamed @ (num_reports - counts)
        weights = np.exp(log_weights - log_weights.max())
        scale = _scale_posterior(logs, weights / weights.sum())
        if scale.certainty > 0.999 or num_reports >= _COHORTS * cohort.size:
            return scale
    if not num_reports:
        raise TooFewReports(
            TooFew("None of the users asked for the scale of the data has answered.", "answers")
        )
    return scale


@lru_cache(maxsize=8)
def _log_chances(own: float, other: float, samples_per_user: int) -> tuple[Floats, Floats, Floats]:
    """Return logarithms of candidate scales, and log probabilities of reports for each.

    The last two arrays, of shape (scales, bins), are for a report that names a bin and for one that
    does not.
    """
    low = math.log(_SMALLEST)
    edges = low + np.arange(_NUM_BINS + 1) / _PER_OCTAVE * math.log(2)
    logs = np.linspace(edges[0], edges[-1], 50 * _NUM_BINS + 1)
    spread = math.sqrt(1 / (2 * samples_per_user) + USERS_SPREAD**2)
    inner = ndtr((edges[1:-1] - logs[:, None]) / spread)
    chance = other + (own - other) * np.diff(inner, prepend=0.0, append=1.0, axis=1)
    return logs, np.log(chance), np.log1p(-chance)


def _scale_posterior(logs: Floats, weights: Floats) -> TargetScale:
    """Return the estimate of a scale: the posterior near its most likely value.

    ``weights`` are the posterior probabilities of the log-scales ``logs``.
    """
    near = np.abs(logs - logs[np.argmax(weights)]) < _SAME_LOG
    total = float(weights[near].sum())
    mean = float(weights[near] @ logs[near]) / total
    variance = float(weights[near] @ (logs[near] - mean) ** 2) / total
    return TargetScale(math.exp(mean), variance, total / float(weights.sum()))


_LOG_RANGE = math.log(16)  # a norm lies within this factor of its prior
_USERS_VARIANCE = 0.5  # variance of the logarithms of users' norms
_ERROR = 0.4  # wanted standard error of the logarithm of a norm
_MOST_SHARE = 0.12  # largest share of all users that is asked for a norm


def norm_askers(run: Run, epsilon: float) -> int:
    """Return the number of users of a run to ask for the norm of their vectors."""
    most = int(_MOST_SHARE * run.num_users)
    return max(min(most, enough_for_norm(epsilon)), run.min_reports)


def enough_for_norm(epsilon: float) -> int:
    """Return how many users' reports give the typical norm to about 40 %, which is enough."""
    variance = _LOG_RANGE**2 * number_randomizer(epsilon, 1.0).variance + _USERS_VARIANCE
    return math.ceil(variance / _ERROR**2)


def estimate_norm(
    cohort: Cohort, epsilon: float, question: Callable[[float, float], Question], prior: float
) -> Generator[Ask, Estimate, float]:
    """Ask a cohort for the typical norm of its users' vectors: the geometric mean of the norms.

    ``question`` makes the question for log(norm / prior) / log_range, given prior and log_range. If
    no user answers, the prior is returned.
    """
    randomizer = number_randomizer(epsilon, 1.0)
    answer = yield Ask(cohort, question(prior, _LOG_RANGE), randomizer, min_reports=0)
    log = _LOG_RANGE * float(np.clip(answer.mean[0], -1, 1))
    return prior * math.exp(log)
