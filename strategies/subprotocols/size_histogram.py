"""Distribution of users' sizes from reported octaves, and the bias of clipping.

The posterior is over thousands of simulated distributions, weighted by their agreement with the
reports. No distribution has to be exactly right: the weights allow for an error of each octave's
share.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import default_rng

from ldp_flower.questions.sizes import OCTAVES, SMALLEST_OCTAVE, Octave
from ldp_flower.randomizers import Estimate, SubsetSelection
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort

_LAWS, _DRAWN = 16000, 100  # number of distributions, and number of sizes drawn from each
_VARY = 1.0  # standard deviation of the logarithm of a root mean square around the usual one
# Standard deviation of an octave's true share around its share in the most similar distribution.
_INEXACT = 0.02
_LIKELY = 1e-4  # smallest weight of a distribution that is kept, over the largest weight
_RATIOS = math.log(0.01), 0.0  # range of the logarithm of the ratio of smaller to larger sizes
_BOUNDS = np.geomspace(0.25, 16.0, 49)  # bounds for clipping, in units of a root mean square


@dataclass(frozen=True)
class SizeHistogram:
    """Posterior over distributions of users' sizes."""

    sizes: Floats  # (laws, drawn): draws from each distribution
    weights: Floats  # (laws,): posterior probability of each distribution

    @property
    def root_mean_square(self) -> float:
        """Estimate of the sizes' root mean square: its geometric mean over the posterior."""
        return math.exp(self.weights @ np.log(np.mean(self.sizes**2, axis=1)) / 2)

    @property
    def bounds(self) -> Floats:
        """Candidates, in increasing order, for the bound at which to clip sizes."""
        return np.asarray(self.root_mean_square * _BOUNDS)

    def clip(self, noise: float, power: int = 1, most: float = math.inf) -> "Clip":
        """Return the bound for clipping sizes with the least mean square error.

        The mean of sizes to the ``power`` is estimated. Its error has three parts: noise, bias of
        clipping, and the uncertainty of that bias. ``noise`` is the noise variance of a mean of
        numbers within [-1, 1]. Sizes are at most ``most``.
        """
        bounds = np.append(self.bounds[self.bounds < most], most)
        cut, spread = self.cut(bounds, power, most)
        best = np.argmin(noise * bounds ** (2 * power) + cut**2 + spread**2)
        return Clip(float(bounds[best]), float(cut[best]), float(spread[best]))

    def shortening(self, noise: float, loss: float) -> float:
        """Return the best length to which to shorten vectors, for estimating their mean direction.

        It minimises the sum of two squares: the noise over the remaining mean size, and, times
        ``loss``, the share of the mean size that shortening removes. ``noise`` is the noise
        variance of a mean of vectors of length at most 1.
        """
        means = self.sizes.mean(axis=1)
        costs = []
        for bound in self.bounds:
            cut = np.maximum(self.sizes - bound, 0.0).mean(axis=1) / means
            left = np.maximum(1 - cut, 1e-3)
            costs.append(self.weights @ (noise * (bound / means / left) ** 2 + loss * cut**2))
        return float(self.bounds[np.argmin(costs)])

    def cut(self, bounds: Floats, power: int = 1, most: float = math.inf) -> tuple[Floats, Floats]:
        """Return the bias of a power's mean if sizes are clipped at each bound.

        The two arrays have the posterior mean and standard deviation of the amount by which
        clipping lowers the mean.
        """
        powers = np.minimum(self.sizes, most) ** power
        found = np.array([np.maximum(powers - b**power, 0.0).mean(axis=1) for b in bounds])
        mean = found @ self.weights
        spread = np.sqrt((found - mean[:, None]) ** 2 @ self.weights)
        return np.asarray(mean), np.asarray(spread)


@dataclass(frozen=True)
class Clip:
    """A bound for clipping sizes, and the bias of the mean that it causes."""

    bound: float
    cut: float  # amount by which clipping lowers the mean
    spread: float  # standard deviation of that amount


def ask_histogram(
    cohort: Cohort, question: Octave, epsilon: float, usual: float, present: float = 1.0
) -> Generator[Ask, Estimate, SizeHistogram]:
    """Ask a cohort for the octaves of its sizes; return the posterior over distributions.

    ``usual`` is the expected root mean square of the sizes. ``present`` is the approximate share of
    the users who have a size.
    """
    oracle = SubsetSelection(epsilon, OCTAVES)
    answer = yield Ask(cohort, question, oracle)
    place = math.floor(math.log2(usual))
    sizes, shares = _laws()
    shares = np.roll(shares, place, axis=1)
    # Candidates for the share of the users who have a size.
    parts = [1.0] if present == 1 else np.minimum(present * np.linspace(0.7, 1.3, 7), 1.0)
    far = np.array([_misfit(answer, oracle, part * shares) for part in parts])
    weights = np.exp((far.min() - far) / 2).sum(axis=0)
    likely = np.flatnonzero(weights > _LIKELY * weights.max())
    return SizeHistogram(sizes[likely] * 2.0**place, weights[likely] / weights[likely].sum())


def _misfit(answer: Estimate, oracle: SubsetSelection, expected: Floats) -> Floats:
    """Return minus twice the log-likelihood of an answer under each distribution, shape (laws,).

    ``expected`` has the distributions' shares of users by octave.
    """
    variance = (oracle.variance + expected) / max(answer.count, 1) + _INEXACT**2
    misfit = np.sum((answer.mean - expected) ** 2 / variance + np.log(variance), axis=1)
    return np.asarray(misfit)


@lru_cache
def _laws() -> tuple[Floats, Floats]:
    """Return sizes drawn from each distribution, and the shares of its octaves.

    Root mean squares are about 1.4. Distributions are normal, heavy-tailed, lognormal, or mixtures
    of two sizes, which stand for classes and for numbers that are mostly near 0.
    """
    rng = default_rng(0)

    def some(low: float, high: float) -> Floats:
        return rng.uniform(low, high, (_LAWS, 1))

    normal = rng.normal(size=(_LAWS, _DRAWN))
    spread = normal * some(0.02, 1.0)
    larger = rng.random((_LAWS, _DRAWN)) < some(0.01, 0.6)
    heavy = np.log(np.abs(rng.standard_t(2.5, (_LAWS, _DRAWN))))
    unlike = np.where(larger, 0.0, some(*_RATIOS)) + spread
    kinds = [np.log(np.abs(normal)), heavy, 1.5 * spread, unlike, unlike, unlike]
    logs = np.choose(np.arange(_LAWS)[:, None] % len(kinds), kinds)
    logs -= np.log(np.mean(np.exp(2 * logs), axis=1, keepdims=True)) / 2
    logs += math.log(2) / 2 + rng.normal(0, _VARY, (_LAWS, 1))
    sizes = np.exp(logs)
    places = np.floor(np.log2(sizes) - SMALLEST_OCTAVE + rng.random(sizes.shape)).astype(int)
    places = np.clip(places, 0, OCTAVES - 1)
    shares = np.array([np.bincount(law, minlength=OCTAVES) for law in places]) / _DRAWN
    return sizes, shares
