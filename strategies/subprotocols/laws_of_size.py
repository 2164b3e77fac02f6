"""Distribution of users' sizes from reported octaves, and the loss by clipping at a bound.

The distribution also distinguishes numbers around 0, such as normal ones, from classes, counts or
money.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtri, stdtrit

from ldp_flower.questions.sizes import OCTAVES, SMALLEST_OCTAVE, Octave
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..numerics.sample import weighted_quantiles
from ..runtime import Ask, Cohort
from .octaves import PER_OCTAVE, QUANTILES, ask_octaves, shares_of

# Prior: the sizes are sizes of numbers around 0 with probability .75, and of classes with
# probability .1. Otherwise a part of the users has sizes that are some octaves larger, or a part
# has zeros and the other sizes are alike or not.
_AROUND_ZERO, _CLASSES = 0.75, 0.1
_PARTS, _LARGER = (0.03, 0.1, 0.2, 0.35, 0.5), (1.5, 3.0, 5.0)
_ZEROS = (0.0, 0.3, 0.6, 0.9)
_ALIKE, _UNLIKE = 0.15, 0.8  # standard deviations of logarithms of sizes, alike and not alike
_ONES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)  # shares of class 1 (of both -1 and 1)
_HEAVY = 0.6, _UNLIKE  # a heavy tail: share of zeros, and spread of the other sizes' logarithms
_CLASSES_PROBABILITY = 0.95  # probability above which sizes are taken to be sizes of classes
_MIN_PROBABILITY = 1e-6  # smallest probability of a distribution that is kept


@dataclass(frozen=True)
class LawOfSizes:
    """Posterior over distributions of sizes."""

    sizes: Floats  # (laws, quantiles): quantiles of each likely distribution
    weights: Floats  # (laws,): probability of each distribution
    around_zero: float  # probability that the sizes are sizes of numbers around 0
    classes: float  # probability that all sizes are 0 or 1
    alike: float  # probability that sizes are nearly the same

    @property
    def are_classes(self) -> bool:
        """True if all sizes are 0 or 1 with a probability above 95 %."""
        return self.classes > _CLASSES_PROBABILITY

    @property
    def is_around_zero(self) -> bool:
        """True if the sizes are probably sizes of numbers around 0."""
        return self.around_zero > 0.5

    @property
    def may_have_a_mean(self) -> bool:
        """True if the sizes are probably sizes of numbers around 0, or nearly the same."""
        return self.around_zero + self.alike > 0.5

    @property
    def mean(self) -> float:
        """Posterior mean of the sizes' mean."""
        return float(self.weights @ self.sizes.mean(axis=1))

    @property
    def root_mean_square(self) -> float:
        """Posterior median of the sizes' root mean square."""
        return math.exp(self._log_sizes(0.5)[0])

    @property
    def spread(self) -> float:
        """Relative error of ``root_mean_square``: the posterior standard deviation of its log."""
        low, high = self._log_sizes(0.16, 0.84)
        return float(high - low) / 2

    def _log_sizes(self, *levels: float) -> Floats:
        """Return posterior quantiles of the logarithm of the sizes' root mean square."""
        squares = np.maximum(np.mean(self.sizes**2, axis=1), np.finfo(float).tiny)
        return weighted_quantiles(np.log(squares) / 2, self.weights, levels)

    def beyond(self, bound: float) -> float:
        """Return the share of the sizes' sum that sizes beyond a bound hold.

        If sizes are proportional to a feature, clipping reduces the slope by this share: sizes
        beyond the bound no longer follow the feature.
        """
        means = np.maximum(self.sizes.mean(axis=1), np.finfo(float).tiny)
        shares = np.where(self.sizes > bound, self.sizes, 0.0).mean(axis=1) / means
        return float(self.weights @ shares)

    def excess(self, bound: float, level: float) -> tuple[float, float]:
        """Return the share of the sizes' sum that exceeds a bound: its mean and a lower limit.

        The share is at least the lower limit with probability ``level``.
        """
        means = np.maximum(self.sizes.mean(axis=1), np.finfo(float).tiny)
        shares = np.maximum(self.sizes - bound, 0.0).mean(axis=1) / means
        order = np.argsort(shares)[::-1]
        place = np.searchsorted(np.cumsum(self.weights[order]), level)
        return float(self.weights @ shares), float(shares[order][min(place, len(order) - 1)])

    def lost(self, bound: float) -> float:
        """Return a conservative share by which clipping at a bound may reduce the slope.

        Unless sizes are alike, the tail may be longer than a small number of reports shows. The
        result is then at least the share for a distribution with many zeros and a heavy tail, of
        the same root mean square.
        """
        if self.alike > 0.5:
            return self.beyond(bound)
        shape = np.exp2(_with_zeros(*_HEAVY))
        sizes = shape * (self.root_mean_square / math.sqrt(np.mean(shape**2)))
        heavy = replace(self, sizes=sizes[None], weights=np.ones(1))
        return max(self.beyond(bound), heavy.beyond(bound))


def ask_law(
    cohort: Cohort, question: Octave, epsilon: float
) -> Generator[Ask, Estimate, LawOfSizes]:
    """Ask users for the octave of their size; return the posterior of the sizes' distribution.

    An octave is a binary order of magnitude.
    """
    laws = _laws()
    weights = yield from ask_octaves(cohort, question, epsilon, laws.prior, laws.shares)
    likely = np.flatnonzero(weights > _MIN_PROBABILITY)
    return LawOfSizes(
        2.0 ** (laws.places[likely, None] + laws.shapes[laws.shape[likely]] + SMALLEST_OCTAVE),
        weights[likely] / weights[likely].sum(),
        *(float(weights[laws.kind == kind].sum()) for kind in range(3)),
    )


@dataclass(frozen=True)
class _Laws:
    """Candidate distributions of sizes: each one is a shape, on one of several scales."""

    shapes: (
        Floats  # (shapes, quantiles): binary logarithms of sizes, minus a distribution's position
    )
    shape: Floats  # (laws,): index of each distribution's shape
    places: Floats  # (laws,): binary logarithm of each distribution's scale, in octaves
    shares: Floats  # (laws, octaves): share of users in each octave
    prior: Floats  # (laws,): prior probability
    kind: Floats  # (laws,): 0 around zero, 1 classes, 2 alike, 3 others


@lru_cache
def _laws() -> _Laws:
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    upper, normal = 1 - (1 - levels) / 2, ndtri(levels) / math.log(2)
    around_zero = [np.log2(ndtri(upper)), np.log2(-np.log1p(-levels)), np.log2(stdtrit(3, upper))]
    others = [_with_zeros(zeros, spread) for zeros in _ZEROS for spread in (_ALIKE, _UNLIKE)]
    for part in _PARTS:
        for octaves in _LARGER:
            least = round((1 - part) * QUANTILES)
            some = _UNLIKE * np.interp(levels[:least] / (1 - part), levels, normal)
            alike = _ALIKE * np.interp((levels[least:] - 1 + part) / part, levels, normal)
            others.append(np.concatenate([some, octaves + alike]))
    classes = [np.where(levels < 1 - ones, -np.inf, 0.0) for ones in _ONES]
    places = np.linspace(0, OCTAVES - 1, PER_OCTAVE * (OCTAVES - 1) + 1)
    shapes = [*around_zero, *others, *classes]
    kinds = [0] + [3] * (len(around_zero) - 1) + [2] + [3] * (len(others) - 1) + [1] * len(classes)
    rest = (1 - _AROUND_ZERO - _CLASSES) / 2
    priors = {0: _AROUND_ZERO, 1: _CLASSES, 2: rest, 3: rest}
    where = [np.array([-SMALLEST_OCTAVE]) if kind == 1 else places for kind in kinds]
    each = [len(places) for places in where]
    return _Laws(
        np.array(shapes),
        np.repeat(np.arange(len(shapes)), each),
        np.concatenate(where),
        np.concatenate([shares_of(s, p) for s, p in zip(shapes, where, strict=True)]),
        np.repeat([priors[k] / kinds.count(k) / n for k, n in zip(kinds, each, strict=True)], each),
        np.repeat(kinds, each),
    )


def _with_zeros(share: float, spread: float) -> Floats:
    """Return quantiles of sizes' binary logarithms; a share of the sizes is 0.

    The natural logarithms of the other sizes are normal with standard deviation ``spread``.
    """
    zeros = round(share * QUANTILES)
    levels = (np.arange(QUANTILES - zeros) + 0.5) / (QUANTILES - zeros)
    return np.concatenate([np.full(zeros, -np.inf), spread * ndtri(levels) / math.log(2)])
