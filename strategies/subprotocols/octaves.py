"""Estimate of the common size of users' values, from the octave that each user reports."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtri, ndtri

from ldp_flower.questions.sizes import OCTAVES, SMALLEST_OCTAVE, Octave
from ldp_flower.randomizers import Estimate, SubsetSelection
from ldp_flower.validation import Floats

from ..numerics.sample import weighted_quantiles
from ..runtime import Ask, Cohort

ELSEWHERE = 0.03  # share of users whose size may be anything
# A part of the users may have sizes that are larger by some octaves, for example if most targets
# are 0: candidate numbers of octaves, candidate shares of these users, and the prior probability of
# all such cases together.
_LARGER, _PARTS, _EXPECTED = (2, 4, 6), (0.1, 0.3, 0.5), 0.2
QUANTILES = 200  # number of quantiles that describe a distribution of sizes
PER_OCTAVE = 20  # number of candidate sizes per octave


@dataclass(frozen=True)
class Size:
    """A root mean square size: its natural logarithm, and the standard error of the logarithm."""

    log: float
    error: float

    @property
    def value(self) -> float:
        """The root mean square size."""
        return math.exp(self.log)


def size_askers(epsilon: float) -> int:
    """Return how many users have to report to estimate the root mean square size to about 15 %."""
    g = math.exp(epsilon)
    return math.ceil(60 + 600 * g / (g - 1) ** 2)


def ask_size(
    cohort: Cohort, question: Octave, epsilon: float, degrees: float = math.inf
) -> Generator[Ask, Estimate, Size]:
    """Ask each user of a cohort for the octave of its size; return the root mean square of sizes.

    The octave is the binary order of magnitude. The result is a logarithm with a standard error.
    ``degrees`` sets the assumed distribution: a squared size, over the mean square, is distributed
    as a chi-squared variable over its ``degrees`` degrees of freedom. Use 1 if a size is the
    absolute value of one normal number. Use infinity if sizes are nearly equal: their logarithms
    then have a standard deviation of 0.1.
    """
    places, prior, shares = _laws(degrees)
    weights = yield from ask_octaves(cohort, question, epsilon, prior, shares)
    low, middle, high = weighted_quantiles(places, weights, (0.16, 0.5, 0.84))
    return Size((middle + SMALLEST_OCTAVE) * math.log(2), (high - low) / 2 * math.log(2))


def ask_octaves(
    cohort: Cohort, question: Octave, epsilon: float, prior: Floats, shares: Floats
) -> Generator[Ask, Estimate, Floats]:
    """Ask a cohort for octaves of sizes; return the posterior weights of candidate distributions.

    ``prior``, shape (laws,), has their prior weights, and ``shares``, shape (laws, octaves), the
    share of users in each octave.
    """
    oracle = SubsetSelection(epsilon, OCTAVES)
    answer = yield Ask(cohort, question, oracle)
    own, other = float(oracle.own), float(oracle.other)
    chosen = answer.mean * (own - other) + other
    chance = other + (own - other) * shares
    logs = np.log(chance) @ chosen + np.log1p(-chance) @ (1 - chosen)
    weights = prior * np.exp(answer.count * (logs - logs.max()))
    return np.asarray(weights / weights.sum())


def ask_larger(
    cohort: Cohort, question: Octave, epsilon: float
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Ask a cohort for octaves of sizes; return the share of users with sizes of about 2, 4 or 8.

    The second number is its standard error. If all sizes are 0 or 1, the share is 0. Users of size
    0 report a random octave, hence the mean share of the octaves beside 1 to 8 is subtracted.
    """
    answer = yield Ask(cohort, question, SubsetSelection(epsilon, OCTAVES))
    weights = np.full(OCTAVES, -3 / (OCTAVES - 4))
    weights[-SMALLEST_OCTAVE : 4 - SMALLEST_OCTAVE] = 0.0, 1.0, 1.0, 1.0
    return float(weights @ answer.mean), float(np.linalg.norm(weights * answer.std_error))


@lru_cache
def _laws(degrees: float) -> tuple[Floats, Floats, Floats]:
    """Return the candidate distributions of sizes.

    The three arrays have each distribution's root mean square (a binary logarithm), its prior
    weight, and the share of users in each octave.
    """
    places, shares = _shares(degrees)
    sizes, likely, found = [places], [np.full(len(places), 1 - _EXPECTED)], [shares]
    for octaves in _LARGER:
        both = len(places) - octaves * PER_OCTAVE
        for part in _PARTS:
            sizes.append(places[:both] + math.log2(1 - part + part * 4**octaves) / 2)
            found.append((1 - part) * shares[:both] + part * shares[-both:])
            likely.append(np.full(both, _EXPECTED / (len(_LARGER) * len(_PARTS))))
    return np.concatenate(sizes), np.concatenate(likely), np.concatenate(found)


@lru_cache
def _shares(degrees: float) -> tuple[Floats, Floats]:
    """Return candidates for sizes' binary logarithm, and the octaves' shares for each candidate.

    ``degrees`` sets the sizes' assumed distribution around it.
    """
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    if math.isinf(degrees):
        sizes = 0.1 * ndtri(levels) / math.log(2)
    else:
        sizes = 0.5 * np.log2(chdtri(degrees, 1 - levels) / degrees)
    places = np.linspace(0, OCTAVES - 1, PER_OCTAVE * (OCTAVES - 1) + 1)
    return places, shares_of(sizes, places)


def shares_of(sizes: Floats, places: Floats) -> Floats:
    """Return the share of users in each octave for candidate scales, shape (places, octaves).

    ``places`` has the binary logarithms of the scales, in octaves. ``sizes`` has quantiles of the
    sizes' binary logarithms, minus a place. Minus infinity stands for size 0, for which users
    report a random octave.
    """
    held = np.isfinite(sizes)
    found = np.clip(places[:, None] + sizes[held], 0, OCTAVES - 1)
    shares = np.empty((len(places), OCTAVES))
    for octave in range(OCTAVES):
        shares[:, octave] = np.maximum(1 - np.abs(found - octave), 0).sum(axis=1) / len(sizes)
    shares += (1 - held.mean()) / OCTAVES
    return (1 - ELSEWHERE) * shares + ELSEWHERE / OCTAVES
