"""The set vote: each user names the features with its largest local scores."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr

from ldp_flower.randomizers import SubsetSelection

Floats = NDArray[np.float64]

_SET_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
_TYPICAL = 0.175  # coefficient of a regression, in units of the targets' scale
# A local score stands out by so many times the square root of a user's rows times the
# coefficient: rows are guessed, features correlated, selectors not alike. So a vote says
# which coefficients are not zero, and little about their sizes.
_MULTIPLIERS = (0.7, 0.85, 1.0, 1.2, 1.4)
# Information of all voters with which a feature is selected: 1.2 of 256 features, by
# simulation, and more where the largest of more others has to be passed.
_CLEAR = 0.056
_MARGIN = 2.0  # standard deviations beyond the largest of the others
_EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_TYPICAL_SUPPORT = 8  # number of features that stand out


def _passing(threshold: float, score: Floats | float) -> Floats:
    """Return the probability that a score plus standard normal noise is beyond +-threshold."""
    return np.asarray(ndtr(score - threshold) + ndtr(-score - threshold))


def _threshold(set_size: int, dim: int, share: float, score: float) -> float:
    """Return the threshold that ``set_size`` scores pass, if a share of them stands out."""

    def surplus(threshold: float) -> float:
        passing = (1 - share) * _passing(threshold, 0.0) + share * _passing(threshold, score)
        return float(dim * passing) - set_size

    return float(brentq(surplus, 0.0, score + 40))


def information(oracle: SubsetSelection, score: float) -> float:
    """Return the squared Hellinger distance of one report, per feature, with and without.

    That is how well a report tells a feature whose local scores have this mean from one
    with mean zero.
    """
    dim = oracle.domain_size
    share = min(_TYPICAL_SUPPORT / dim, 0.5)
    threshold = _threshold(oracle.set_size, dim, share, score)
    own, other = float(oracle.own), float(oracle.other)
    with_, without = other + (own - other) * _passing(threshold, np.array([score, 0.0]))
    return (math.sqrt(with_) - math.sqrt(without)) ** 2


def typical_score(samples_per_user: int) -> float:
    """Return by how many standard deviations a typical coefficient stands out for one user."""
    return math.sqrt(samples_per_user) * _TYPICAL


def best_vote(epsilon: float, dim: int, score: float) -> SubsetSelection:
    """Return the set vote that tells features with these local scores from the others best."""
    oracles = [SubsetSelection(epsilon, dim, k) for k in _SET_SIZES if k <= max(1, dim // 8)]
    return max(oracles, key=lambda oracle: information(oracle, score))


def enough_voters(epsilon: float, dim: int, score: float) -> int:
    """Return how many voters tell a coefficient with these local scores from zero."""
    others = max(dim / _TYPICAL_SUPPORT, 1.0)
    clear = _CLEAR * (math.sqrt(2 * math.log(others)) + _MARGIN) ** 2
    return math.ceil(clear / information(best_vote(epsilon, dim, score), score))


def needed_for_selection(what: str, epsilon: float, dim: int, score: float, num_users: int) -> str:
    """Say how many users, or which epsilon, would show something with these local scores."""

    def needed(epsilon: float) -> int:
        return 2 * enough_voters(epsilon, dim, score)

    text = f"{what} would take about {needed(epsilon):,} users at epsilon {epsilon:g}"
    larger = (e for e in _EPSILONS if e > epsilon and needed(e) <= num_users)
    enough = next(larger, None)
    return f"{text}." if enough is None else f"{text}, or epsilon {enough:g}."


@dataclass(frozen=True)
class Vote:
    """Counts of a set vote for the features with the largest local scores.

    Attributes
    ----------
    counts : ndarray, shape (dim,)
        How many reports support each feature.
    num_reports : int
        Number of reports.
    own, other : float
        Probabilities that a report supports a feature in and outside its user's set.
    set_size : int
        Number of features of a user's set, below ``dim``.
    samples_per_user : float
        Typical number of a user's rows: a local score is the square root of it times
        the coefficient, plus noise of variance 1.
    """

    counts: Floats
    num_reports: int
    own: float
    other: float
    set_size: int
    samples_per_user: float

    def log_likelihood(self, counts: Floats, values: Floats, pi: float, size: float) -> Floats:
        """Return the log-likelihood of counts at coefficient values, (counts, values).

        ``pi`` and ``size`` of all coefficients set the threshold that a score has to pass
        to be in a user's set.
        """
        root = math.sqrt(self.samples_per_user)
        threshold = _threshold(self.set_size, len(self.counts), pi, root * size)
        missed = self.num_reports - counts[:, None]

        def log_binomial(multiplier: float) -> Floats:
            passing = _passing(threshold, multiplier * root * values)
            chance = self.other + (self.own - self.other) * passing
            return np.asarray(counts[:, None] * np.log(chance) + missed * np.log1p(-chance))

        each = np.stack([log_binomial(multiplier) for multiplier in _MULTIPLIERS])
        return np.asarray(logsumexp(each, axis=0) - math.log(len(_MULTIPLIERS)))
