"""The scale of labels of which every user has one or a few, bought from a cohort."""

import math
from collections.abc import Generator

import numpy as np
from scipy.special import gammainc

from ldp_flower.guarantee.questions import TargetScaleBin
from ldp_flower.randomizers import Estimate, SubsetSelection

from ..runtime.exchange import Ask
from ..runtime.population import Cohort

_NUM_BINS = 20  # octaves: the magnitudes of single normal numbers spread over several
_SMALLEST = 2.0**-10  # lower end of the first one; the last one ends at 2**10
_POINTS = 1001
_NEAR = 0.5  # a scale within exp(this) of the most likely one counts as the same


def buy_label_scale(
    cohort: Cohort, epsilon: float, labels_per_user: int
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Ask a cohort for the octave of the root mean square of each one's labels.

    Returns
    -------
    scale : float
        The most likely root mean square over all users, for normal labels of mean 0.
    certainty : float
        Probability that it is right within a factor of exp(1 / 2), given that all scales
        between 2**-10 and 2**10 were as likely before.

    Notes
    -----
    The mean square of m such labels is chi-squared with m degrees of freedom over m, so one
    scale says how many users fall into each octave, and the counts of all of them together
    give it finer than the octaves.
    """
    oracle = SubsetSelection(epsilon, _NUM_BINS)
    answer = yield Ask(cohort, TargetScaleBin(_SMALLEST, 1.0, _NUM_BINS), oracle)
    own, other = float(oracle.own), float(oracle.other)
    chosen = answer.mean * (own - other) + other
    logs = math.log(_SMALLEST) + np.linspace(0, _NUM_BINS * math.log(2), _POINTS)
    inner = _SMALLEST * 2.0 ** np.arange(1, _NUM_BINS)
    squares = (inner / np.exp(logs)[:, None]) ** 2
    below = gammainc(labels_per_user / 2, labels_per_user / 2 * squares)
    chance = other + (own - other) * np.diff(below, prepend=0.0, append=1.0, axis=1)
    told = chosen * np.log(chance) + (1 - chosen) * np.log1p(-chance)
    log_weights = answer.count * told.sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    best = logs[np.argmax(weights)]
    near = np.abs(logs - best) < _NEAR
    mean = float(weights[near] @ logs[near] / weights[near].sum())
    return math.exp(mean), float(weights[near].sum() / weights.sum())
