"""The set vote: each user names the features with its largest local scores."""

import math
from collections.abc import Callable, Generator
from functools import lru_cache

import numpy as np

from ldp_flower.questions import Question
from ldp_flower.randomizers import Estimate, SubsetSelection

from ..numerics.spike_and_slab import Vote, passing, passing_threshold
from ..runtime import Ask, Cohort

# Of users with 100 rows the best of these has .97 of the information of the best size up to 40, at
# epsilon .5 to 8 and up to 4,096 features; with 20 rows .78 of 1,024 features and .69 of 4,096.
_SET_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
_TYPICAL = 0.175  # coefficient of a regression, in units of the targets' scale
# Information of all voters with which a feature is selected: 1.2 of 256 features, by
# simulation, and more where the largest of more others has to be passed.
_CLEAR = 0.056
_MARGIN = 2.0  # standard deviations beyond the largest of the others
_EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_TYPICAL_SUPPORT = 8  # number of features that stand out


def information(oracle: SubsetSelection, score: float) -> float:
    """Return the squared Hellinger distance of reports of a feature with this mean score and 0."""
    dim = oracle.domain_size
    share = min(_TYPICAL_SUPPORT / dim, 0.5)
    threshold = passing_threshold(oracle.set_size, dim, share, score)
    own, other = float(oracle.own), float(oracle.other)
    with_, without = other + (own - other) * passing(threshold, np.array([score, 0.0]))
    return (math.sqrt(with_) - math.sqrt(without)) ** 2


def typical_score(samples_per_user: int) -> float:
    """Return by how many standard deviations a typical coefficient stands out for one user."""
    return math.sqrt(samples_per_user) * _TYPICAL


@lru_cache
def best_vote(epsilon: float, dim: int, score: float) -> SubsetSelection:
    """Return the set vote that best distinguishes features with these local scores."""
    oracles = [SubsetSelection(epsilon, dim, k) for k in _SET_SIZES if k <= max(1, dim // 8)]
    return max(oracles, key=lambda oracle: information(oracle, score))


def enough_voters(epsilon: float, dim: int, score: float) -> int:
    """Return how many voters distinguish a coefficient with these local scores from zero."""
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


def ask_vote(
    cohort: Cohort,
    oracle: SubsetSelection,
    question: Callable[[int], Question],
    samples_per_user: int,
) -> Generator[Ask, Estimate, Vote]:
    """Let a cohort vote; ``question`` asks for the features of a set of so many."""
    answer = yield Ask(cohort, question(oracle.set_size), oracle)
    counts = np.rint(oracle.support(answer))
    own, other = float(oracle.own), float(oracle.other)
    return Vote(counts, answer.count, own, other, oracle.set_size, samples_per_user)
