"""Set vote: each user reports the set of features with its largest local scores."""

import math
from collections.abc import Callable, Generator
from functools import lru_cache

import numpy as np

from ldp_flower.questions import Question
from ldp_flower.randomizers import Estimate, SubsetSelection

from ..numerics.spike_and_slab import Vote, passing, passing_threshold
from ..runtime import Ask, Cohort

# Sizes of sets. For users with 100 rows the best of these sizes has .97 of the information of the
# best size up to 40, at epsilon .5 to 8 and up to 4,096 features. With 20 rows it has .78 for 1,024
# features and .69 for 4,096.
_SET_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
_TYPICAL_COEFFICIENT = 0.175  # coefficient of a regression, in units of the targets' scale
# Scale of the information of all voters that is needed to select a feature. By simulation 1.2 is
# needed for 256 features, and more for more features, since the feature has to exceed the largest
# of all others.
_INFORMATION_SCALE = 0.056
_MARGIN_Z = 2.0  # required distance from the largest of the others, in standard deviations
_EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_TYPICAL_SUPPORT = 8  # typical number of features with nonzero coefficients


def information(oracle: SubsetSelection, score: float) -> float:
    """Return a vote's information on a feature with mean score ``score``.

    It is the squared Hellinger distance between reports on features with mean scores ``score``
    and 0.
    """
    dim = oracle.domain_size
    share = min(_TYPICAL_SUPPORT / dim, 0.5)
    threshold = passing_threshold(oracle.set_size, dim, share, score)
    own, other = float(oracle.own), float(oracle.other)
    with_, without = other + (own - other) * passing(threshold, np.array([score, 0.0]))
    return (math.sqrt(with_) - math.sqrt(without)) ** 2


def typical_score(samples_per_user: int) -> float:
    """Return the mean score that a typical coefficient has in one user's data.

    Scores are in standard deviations of their noise.
    """
    return math.sqrt(samples_per_user) * _TYPICAL_COEFFICIENT


@lru_cache
def best_vote(epsilon: float, dim: int, score: float) -> SubsetSelection:
    """Return the vote, for a set of features, that best finds features of mean score ``score``."""
    oracles = [SubsetSelection(epsilon, dim, k) for k in _SET_SIZES if k <= max(1, dim // 8)]
    return max(oracles, key=lambda oracle: information(oracle, score))


def enough_voters(epsilon: float, dim: int, score: float) -> int:
    """Return the number of voters needed to distinguish a coefficient from zero.

    ``score`` is the mean of the coefficient's local scores.
    """
    others = max(dim / _TYPICAL_SUPPORT, 1.0)
    clear = _INFORMATION_SCALE * (math.sqrt(2 * math.log(others)) + _MARGIN_Z) ** 2
    return math.ceil(clear / information(best_vote(epsilon, dim, score), score))


def needed_for_selection(what: str, epsilon: float, dim: int, score: float, num_users: int) -> str:
    """Return a sentence on the number of users, or the epsilon, that a selection would need.

    ``what`` is the sentence's subject, and ``score`` the mean local score of the features.
    """

    def needed(epsilon: float) -> int:
        return 2 * enough_voters(epsilon, dim, score)

    text = f"{what} would take about {needed(epsilon):,} users at epsilon {epsilon:g}"
    enough = next((e for e in _EPSILONS if e > epsilon and needed(e) <= num_users), None)
    return f"{text}." if enough is None else f"{text}, or epsilon {enough:g}."


def ask_vote(
    cohort: Cohort,
    oracle: SubsetSelection,
    question: Callable[[int], Question],
    samples_per_user: int,
) -> Generator[Ask, Estimate, Vote]:
    """Ask a cohort for its votes, and return the number of votes for each feature.

    ``question`` makes the question from the size of the sets.
    """
    answer = yield Ask(cohort, question(oracle.set_size), oracle)
    counts = np.rint(oracle.support(answer))
    own, other = float(oracle.own), float(oracle.other)
    return Vote(counts, answer.count, own, other, oracle.set_size, samples_per_user)
