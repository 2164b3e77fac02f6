"""Sparse Bayesian model of reports: which coefficients are not zero, and their sizes.

Coefficients are in units in which none exceeds 1 (units of the targets' scale, with features of
unit scale). A coefficient is zero with probability ``1 - pi``. Otherwise it has either sign and a
size that spreads around a typical size ``b``. No value of ``pi``, ``b`` or the spread is chosen:
the posterior is averaged over a grid of them. In the prior, the case ``pi = 0`` (all coefficients
are zero) has a separate probability. Everything here is post-processing of reports.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from ldp_flower.validation import Floats

Integers = NDArray[np.intp]

# The smallest b is at most _SMALLEST, and at most _LEAST_SCORE standard deviations of one user's
# estimate.
_SMALLEST, _LEAST_SCORE = 0.02, 0.2
_LARGEST = 0.6  # largest b
# Standard deviations of a coefficient around its typical size, over that size: sizes are alike, in
# between, or arbitrary. Grid sizes differ by a ninth; with gaps of a quarter, estimates of alike
# sizes were biased towards the grid.
_SPREADS, _NUM_SIZES = (0.1, 0.4, 1.0), 32
_OUTLYING = 0.01  # probability that a nonzero coefficient has an arbitrary size instead
_NUM_SHARES = 8  # number of values of pi: 1, 2, 4, ... coefficients of dim
_NOTHING = 0.5  # prior probability that all coefficients are zero
_TINY = 1e-12
_CHANCE = 0.01  # significance level at which estimates of one coefficient contradict each other
# A coarse search evaluates every 16th value; these are at least four standard deviations apart. If
# the log-likelihood of a value is _HOPELESS below the largest, the values around it are left out.
_STRIDE, _HOPELESS = 16, 300.0
_COARSEST, _FINEST = 0.005, 0.00025  # largest and smallest step of the grid of values
# Possible ratios of a local score's mean to the coefficient times the square root of a user's rows:
# the number of rows is a guess, features may be correlated, and selectors differ. So a vote says
# which coefficients are not zero, and little about their sizes.
_MULTIPLIERS = (0.7, 0.85, 1.0, 1.2, 1.4)


def passing(threshold: float, score: Floats | float) -> Floats:
    """Return the probability that a feature is in a user's set, given the mean of its score.

    A local score is ``score`` plus standard normal noise. The user's set has the features whose
    scores are beyond +-``threshold``.
    """
    return np.asarray(ndtr(score - threshold) + ndtr(-score - threshold))


@lru_cache(maxsize=1024)
def passing_threshold(set_size: int, dim: int, share: float, score: float) -> float:
    """Return the threshold of local scores that leaves ``set_size`` of ``dim`` features in a set.

    A ``share`` of the scores has mean ``score``, the others mean 0.
    """

    def surplus(threshold: float) -> float:
        both = (1 - share) * passing(threshold, 0.0) + share * passing(threshold, score)
        return float(dim * both) - set_size

    return float(brentq(surplus, 0.0, score + 40))


@dataclass(frozen=True)
class Vote:
    """Counts of a set vote for the features with the largest local scores."""

    counts: Floats  # (dim,): number of reports that support each feature
    num_reports: int
    # Probabilities that a report supports a feature in its user's set, and a feature outside it
    own: float
    other: float
    set_size: int  # number of features of a user's set, below dim
    # Typical number of a user's rows: a local score is its square root times the coefficient, plus
    # noise of variance 1
    samples_per_user: float

    def surplus_z(self) -> Floats:
        """Return each feature's count in the vote minus that by chance, in standard deviations."""
        share = self.set_size / len(self.counts)
        expected = self.other + (self.own - self.other) * share
        variance = share * self.own * (1 - self.own) + (1 - share) * self.other * (1 - self.other)
        surplus = self.counts - self.num_reports * expected
        return np.asarray(surplus / math.sqrt(self.num_reports * variance))

    def log_likelihood(self, counts: Floats, values: Floats, pi: float, size: float) -> Floats:
        """Return the log-likelihood of counts given coefficient values, shape (counts, values).

        ``pi`` and ``size``, which are common to all coefficients, determine the threshold above
        which a score is in a user's set.
        """
        root = math.sqrt(self.samples_per_user)
        threshold = passing_threshold(self.set_size, len(self.counts), pi, root * size)

        # Probabilities are even functions of the values, which are symmetric around zero.
        half = values[len(values) // 2 :]
        beyond = passing(threshold, np.multiply.outer(_MULTIPLIERS, root * half))[:, None]
        chance = self.other + (self.own - self.other) * beyond
        missed = self.num_reports - counts[:, None]
        each = counts[:, None] * np.log(chance) + missed * np.log1p(-chance)
        most = each.max(axis=0)  # all are finite; scipy's logsumexp checks that, five times slower
        kept = most + np.log(np.mean(np.exp(each - most), axis=0))
        return np.concatenate([kept[:, :0:-1], kept], axis=1)


@dataclass
class Evidence:
    """Evidence of the reports about each coefficient: a vote and unbiased estimates."""

    dim: int
    # Typical number of a user's observations; its square root times a coefficient is the
    # coefficient in standard deviations of one user's estimate
    rows: int
    vote: Vote | None = None
    # (dim,): sums of 1 / variance and of estimate / variance over unbiased estimates
    precision: Floats = field(init=False)
    weighted: Floats = field(init=False)
    # Factor on the expected size of the next shift, raised where the last one was larger
    boost: float = 1.0

    def __post_init__(self) -> None:
        sums = np.zeros((4, self.dim))  # the last two: of estimate**2 / variance, and of estimates
        self.precision, self.weighted, self._squares, self._times = sums

    def add(self, coordinates: NDArray[np.int64], estimate: Floats, variance: Floats) -> None:
        """Add a cohort's normal, unbiased estimates of the coefficients with these indices."""
        self.precision[coordinates] += 1 / variance
        self.weighted[coordinates] += estimate / variance
        self._squares[coordinates] += estimate**2 / variance
        self._times[coordinates] += 1

    def scatter(self) -> Floats:
        """Return the ratio of the spread of each coefficient's estimates to the expected spread.

        It is the ratio of Birge (1932), or 1 if its square is within the 99 % quantile of chance.
        """
        apart = self._squares - self.weighted**2 / np.maximum(self.precision, _TINY)
        freedom = np.maximum(self._times - 1, 1)
        contradicted = (self._times > 1) & (apart > chdtri(freedom, _CHANCE))
        return np.where(contradicted, np.sqrt(np.maximum(apart / freedom, 1.0)), 1.0)


@dataclass(frozen=True)
class Posterior:
    """The posterior of each coefficient."""

    inclusion: Floats  # (dim,): posterior probability that the coefficient is not zero
    # (dim,): posterior mean and variance, with the probability mass at zero included
    mean: Floats
    variance: Floats
    # (dim,): root mean square distance of the coefficient from the mean under its likelihood, that
    # is, with a flat prior
    deviation: Floats


def posterior(evidence: Evidence) -> Posterior:
    """Return the posterior of all coefficients, averaged over sparsity and size.

    Given sparsity and size, coefficients are assumed to be independent. They are linked only by a
    vote's threshold, which depends on the typical sparsity and size. Coordinates with equal
    evidence are computed once.
    """
    counts = np.zeros(evidence.dim) if evidence.vote is None else evidence.vote.counts
    table = np.stack([counts, evidence.precision, evidence.weighted], axis=1)
    rows, which, times = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    counts, precision, weighted = rows.T
    counted, whose = np.unique(counts, return_inverse=True)
    values = _grid(float(precision.max()))

    def logs_at(places: Integers, pi: float, size: float) -> Floats:
        """Return the log-likelihood of the values at ``places`` of the grid, (rows, values)."""
        some = values[places]
        logs = weighted[:, None] * some - precision[:, None] * some**2 / 2
        if evidence.vote is not None:
            logs += evidence.vote.log_likelihood(counted, some, pi, size)[whose]
        return np.asarray(logs)

    shares = np.unique(np.minimum(2.0 ** np.arange(_NUM_SHARES) / evidence.dim, 0.5))
    sizes, slabs = _slabs(len(values), evidence.rows)
    pi, size = 2 / evidence.dim, 0.1
    for _ in range(1 if evidence.vote is None else 2):
        kept = _seen(logs_at, len(values), pi, size)
        logs = logs_at(kept, pi, size)
        mixture = _Mixture.of(logs, values[kept], slabs[kept], shares, sizes, times)
        pi, size = mixture.typical()
    inclusion, mean, second = mixture.moments()
    variance = np.maximum(second - mean**2, _TINY)
    each = np.array([inclusion, mean, variance, _spread_around(logs, values[kept], mean)])
    return Posterior(*each[:, which])


def _spread_around(logs: Floats, values: Floats, mean: Floats) -> Floats:
    """Return the root mean square distance of the grid's values from each posterior mean.

    The values are weighted by their likelihood, without the prior. ``logs`` has the
    log-likelihoods, one row for each coefficient.
    """
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    squares = (values - mean[:, None]) ** 2
    return np.asarray(np.sqrt((likelihood * squares).sum(axis=1) / likelihood.sum(axis=1)))


def _grid(precision: float) -> Floats:
    """Return a grid of values from -1 to 1, fine enough for a likelihood of this precision."""
    step = _COARSEST if precision == 0 else 1 / (4 * math.sqrt(precision))
    steps = math.ceil(1 / min(max(step, _FINEST), _COARSEST))
    return np.linspace(-1.0, 1.0, 2 * steps + 1)


def _seen(
    logs_at: Callable[[Integers, float, float], Floats], number: int, pi: float, size: float
) -> Integers:
    """Return the grid indices of the values that are not negligibly likely for all coefficients.

    They are symmetric around 0.
    """
    steps = np.arange(0, number // 2 + 1, _STRIDE)
    few = number // 2 + np.concatenate([-steps[:0:-1], steps])
    logs = logs_at(few, pi, size)
    near = (logs > logs.max(axis=1, keepdims=True) - _HOPELESS).any(axis=0)
    near |= near[::-1]
    near[len(steps) - 1] = True
    places = few[near, None] + np.arange(-_STRIDE, _STRIDE + 1)
    return np.unique(np.clip(places, 0, number - 1))


@lru_cache(maxsize=8)
def _slabs(num_values: int, rows: int) -> tuple[Floats, Floats]:
    """Return two arrays: sizes of nonzero values, and for each the prior over the grid's values.

    The second array has the shape (values, sizes). Sizes are repeated for each spread.
    """
    smallest = min(_SMALLEST, _LEAST_SCORE / math.sqrt(rows))
    sizes = np.tile(np.geomspace(smallest, _LARGEST, _NUM_SIZES), len(_SPREADS))
    spreads = np.repeat(_SPREADS, _NUM_SIZES)
    scaled = np.linspace(-1.0, 1.0, num_values)[:, None] / sizes
    either = np.exp(-(((scaled - 1) / spreads) ** 2) / 2)
    either += np.exp(-(((scaled + 1) / spreads) ** 2) / 2)
    either /= either.sum(axis=0)
    # A coefficient whose size differs much from the others is unlikely, but not impossible.
    return sizes, np.asarray((1 - _OUTLYING) * either + _OUTLYING / num_values)


@dataclass(frozen=True)
class _Mixture:
    """The posterior over the grid of sparsities and sizes."""

    zero: Floats  # (rows,): likelihood of zero
    slab: Floats  # (rows, sizes): likelihood of each slab, the prior of a nonzero value
    first: Floats  # (rows, sizes): likelihood times value, summed over the slab
    second: Floats  # (rows, sizes): likelihood times squared value, summed over the slab
    shares: Floats
    sizes: Floats
    weights: Floats  # (shares, sizes)

    @classmethod
    def of(
        cls,
        logs: Floats,
        values: Floats,
        slabs: Floats,
        shares: Floats,
        sizes: Floats,
        times: Integers,
    ) -> "_Mixture":
        logs = logs - logs.max(axis=1, keepdims=True)
        log_zero = logs[:, len(values) // 2]
        likelihood = np.exp(logs)
        slab = likelihood @ slabs
        first, second = (likelihood * values) @ slabs, (likelihood * values**2) @ slabs
        log_odds = np.log(slab + _TINY) - log_zero[:, None]  # (rows, sizes)
        # log of the product over coefficients of (1 - pi) + pi * odds, relative to all being zero
        most, pi = np.maximum(log_odds, 0.0), shares[:, None, None]
        either = (1 - pi) * np.exp(-most) + pi * np.exp(log_odds - most)
        evidence = times @ (most + np.log(either))
        # All coefficients together explain at most all of the targets' variance.
        possible = times.sum() * shares[:, None] * sizes**2 <= 1
        evidence = np.where(possible, evidence + math.log((1 - _NOTHING) / possible.sum()), -np.inf)
        total = np.logaddexp(np.logaddexp.reduce(evidence, axis=None), math.log(_NOTHING))
        weights = np.exp(evidence - total)
        return cls(np.exp(log_zero), slab, first, second, shares, sizes, weights)

    def typical(self) -> tuple[float, float]:
        """Return the posterior means of the share of nonzero coefficients, and of their size."""
        weights = self.weights / self.weights.sum()
        return float(weights.sum(axis=1) @ self.shares), float(weights.sum(axis=0) @ self.sizes)

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Return three arrays over rows: inclusion probability, first moment, second moment."""
        inclusion, first, second = (np.zeros(len(self.zero)) for _ in range(3))
        for share, weights in zip(self.shares, self.weights, strict=True):
            scale = share * weights / ((1 - share) * self.zero[:, None] + share * self.slab + _TINY)
            inclusion += (scale * self.slab).sum(axis=1)
            first += (scale * self.first).sum(axis=1)
            second += (scale * self.second).sum(axis=1)
        return inclusion, first, second
