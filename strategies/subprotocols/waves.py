"""The mean of users' vectors by waves: each subtracts what the ones before it have found.

How far users' vectors are from their mean is learnt on the way, from the share of each wave's
vectors that need no shortening. Nothing is known of it beforehand.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, chdtri

from ldp_flower.questions import Question
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.validation import Floats

from ..numerics.denoising import shortened_slope, shrink
from ..runtime import Ask, ContradictedValue, Run, TooFewReports
from .shortening import ask_shortened, word_variance

_COARSE = 0.15, 0.2  # shares of the users, at least and at most, whose vectors are not re-centred
_NARROWED = 0.5  # error of a wave's mean, over its radius, at which the next one is narrower
_WORD_ERROR = 0.2  # of the share that needs no shortening, in a wave; smaller waves learn nothing
_FEWEST_WAVES = 3
_WIDE = 1.25  # radius for the error of the centre, over its size: that is not shortened
# Radius of hard waves over the users' spread; .25 + 8 / d if larger. Where lengths concentrate,
# clipping hard gains most; with fewer coordinates skewed users are biased by it.
_HARD, _CONCENTRATED = 0.75, 8
_WIDE_WAVES = 0.25  # share of the waves, the last ones, that are not hard
_BEYOND = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-5)  # shares of users, shortened
# What shortening hides of a mean, over the radius and the share that is beyond it. Where sizes are
# exponential, of one sign, and 5 % are beyond, it is 1 over the radius: .65; of several coordinates
# it cancels in part.
_HIDDEN = 0.5
# Parts of the users that may have all of the distance; and how likely it is that all have.
_PARTS, _USUAL = (1.0, 0.5, 0.25, 0.12, 0.06), 0.9
# Of a declared spread's logarithm: how far off it may be, and how likely another one is beside it.
_NEAR, _MISTAKEN = 0.25, 0.005
_LAW = 0.04  # error of the share that needs no shortening, if vectors are taken for normal
_SLOPE = 0.1  # relative error, likewise, of what shortening leaves, for all of it
_MOST_DEGREES = 32  # lengths of real vectors vary more than those of many independent coordinates
_LEAST_SPREAD = 0.3  # over the error of the centre, beside which a smaller one does not matter
_SURE, _MOST_BEYOND = 3.0, 0.2  # standard errors, and a share of vectors beyond their bound
_CONTRADICTED = (
    "Expected vectors within a bound of {:g}, but about {:.0%} of the users' are longer."
)
_RANGE = 14.0  # of the logarithms of spreads that are thought of, below and, by a tenth, above


@dataclass(frozen=True)
class WaveMean:
    """A mean and its standard errors, what clipping may hide among them."""

    mean: Floats
    std_error: Floats


@dataclass(frozen=True)
class _Wave:
    """One cohort's estimate: variances of its coordinates, and the bias that each may have."""

    mean: Floats
    variance: Floats
    bias: float
    is_hard: bool

    @property
    def square(self) -> float:
        """The mean square error of a coordinate."""
        return float(self.variance.mean()) + self.bias**2


def _pooled(waves: list[_Wave]) -> _Wave:
    """Return the estimates' average, by precision; biases add up."""
    precision = np.array([1 / wave.square for wave in waves])
    shares = precision / precision.sum()
    return _Wave(
        np.sum([s * wave.mean for s, wave in zip(shares, waves, strict=True)], axis=0),
        np.sum([s**2 * wave.variance for s, wave in zip(shares, waves, strict=True)], axis=0),
        sum(share * wave.bias for share, wave in zip(shares, waves, strict=True)),
        waves[0].is_hard,
    )


def _of_both(waves: list[_Wave]) -> _Wave:
    """Average hard and wide waves; what they differ by more than noise is the hard ones' bias."""
    kinds = [[w for w in waves if w.is_hard is is_hard] for is_hard in (False, True)]
    wide, *hard = (_pooled(kind) for kind in kinds if kind)
    for each in hard:
        apart = (wide.mean - each.mean) ** 2 - wide.variance - each.variance
        bias = math.sqrt(max(float(apart.mean()), 0.0)) + wide.bias
        return _pooled([wide, replace(each, bias=bias)])
    return wide


class _Spread:
    """What is believed of users' vectors: how far from their mean they are, and how many of them.

    A part of the users may have all of the distance, as where most have one value in common.
    Distances are root mean squares, of the users of that part.
    """

    def __init__(self, degrees: int, largest: float, expected: float | None) -> None:
        self._degrees = min(degrees, _MOST_DEGREES)
        logs = math.log(largest) + np.linspace(-_RANGE, _RANGE / 10, 309)
        self._logs, self._parts = (grid.ravel() for grid in np.meshgrid(logs, _PARTS))
        self._squares = np.exp(2 * self._logs)
        prior = np.where(self._parts == 1, _USUAL, (1 - _USUAL) / (len(_PARTS) - 1))
        if expected is not None:
            near = np.exp(-(((self._logs - math.log(expected)) / _NEAR) ** 2) / 2)
            prior = prior * (near + _MISTAKEN)
        self._likelihoods = np.log(prior)

    def _weights(self, error: float) -> Floats:
        possible = self._squares >= (_LEAST_SPREAD * error) ** 2
        weights = np.where(possible, np.exp(self._likelihoods - self._likelihoods.max()), 0.0)
        return np.asarray(weights / weights.sum())

    def _ratios(self, radius: float, error: float) -> Floats:
        return np.asarray(radius / np.sqrt(self._squares + error**2))

    def _beyond(self, radius: float, error: float) -> Floats:
        squares = self._degrees * self._ratios(radius, error) ** 2
        return np.asarray(self._parts * chdtrc(self._degrees, squares))

    def learn(self, radius: float, error: float, whole: float, whole_error: float) -> None:
        """Learn from the share of vectors that are within a radius of the centre."""
        surprise = 1 - whole - self._beyond(radius, error)
        self._likelihoods -= surprise**2 / (whole_error**2 + _LAW**2) / 2

    def radius(self, error: float, clip: float | None, beyond: float) -> float:
        """Return a radius that is as likely too small as too large, for a centre that far off.

        It is ``clip`` spreads, or leaves this share of users beyond it.
        """
        if clip is None:
            others = chdtri(self._degrees, np.minimum(beyond / self._parts, 1.0))
            needed = self._logs + np.log(np.maximum(others / self._degrees, 1e-6)) / 2
        else:
            needed = self._logs + math.log(clip)
        order = np.argsort(needed)
        shares = np.cumsum(self._weights(error)[order])
        return math.exp(float(np.interp(0.5, shares, needed[order])))

    def hidden(self, radius: float, error: float) -> float:
        """Return what shortening may hide of the mean."""
        excess = np.maximum(radius, np.sqrt(self._squares))
        return _HIDDEN * float(self._weights(error) @ (self._beyond(radius, error) * excess))

    def slope(self, dim: int, radius: float, error: float) -> tuple[float, float]:
        """Return what shortening leaves of the centre's error, and the relative error of that."""
        weights = self._weights(error)
        of_part = shortened_slope(dim, self._ratios(radius, error))
        slopes = 1 - self._parts + self._parts * of_part
        mean = float(weights @ slopes)
        deviation = math.sqrt(float(weights @ (slopes - mean) ** 2)) / mean
        return mean, math.hypot(deviation, _SLOPE * (1 - mean))


def _least_beyond(degrees: int, noise: float, users: int) -> float:
    """Return the share of users to leave beyond a radius: what that hides is less than noise."""
    for beyond in _BEYOND:
        radius = math.sqrt(chdtri(degrees, beyond) / degrees)
        if _HIDDEN * beyond * radius <= math.hypot(noise * radius, users**-0.5):
            break
    return beyond


def mean_by_waves(
    run: Run,
    question: Callable[[Floats], Question],
    dim: int,
    radius: float,
    most_waves: int,
    *,
    is_bound: bool,
    expected: float | None = None,
    factor: float = 1.0,
    factor_error: float = 0.0,
) -> Generator[Ask, Estimate, WaveMean]:
    """Ask all of a run's users who are left for a vector less a centre, and return their mean.

    Parameters
    ----------
    question : callable
        From a centre to a user's vector less that centre.
    radius : float
        Of the first cohort's vectors, around zero.
    most_waves : int
        How many cohorts follow it at most; fewer where they would be too small to learn from.
    is_bound : bool
        Whether no vector is longer than ``radius``, or taken for longer. A wave of a larger radius
        is then not re-centred. Otherwise the first radius is a guess.
    expected : float, optional
        Root mean square distance of users' vectors from their mean, if it is declared. Reports may
        say that it is another.
    factor, factor_error : float
        What a vector less a centre has of the difference of the mean and the centre, and the
        relative error of that.

    Raises
    ------
    TooFewReports
        If the first cohort has too few.
    ContradictedValue
        If reports say that many vectors are longer than their bound.
    """
    epsilon, users = run.epsilon, run.num_unasked
    energy = dim * ball_codebook(epsilon, dim, 1.0).variance  # of the noise of one report
    noise = math.sqrt(energy / users)
    spread = _Spread(dim, radius, expected)
    beyond = _least_beyond(min(dim, _MOST_DEGREES), noise, users)
    hard = max(_HARD, 0.25 + 8 / dim) if dim >= _CONCENTRATED else None
    smallest = max(word_variance(epsilon, dim) / _WORD_ERROR**2, energy / _NARROWED**2)
    sizes = [max(int(np.clip(smallest, *(np.array(_COARSE) * users))), run.min_reports)]
    num_waves = int(np.clip((users - sizes[0]) / smallest, _FEWEST_WAVES, most_waves))
    waves: list[_Wave] = []
    centre, error, length, clip = np.zeros(dim), radius, radius, None
    for left in range(num_waves, -1, -1):
        try:
            (cohort,) = run.cohorts(sizes)
            answer = yield from ask_shortened(cohort, question(centre), dim, length, epsilon)
        except TooFewReports:
            if not waves:
                raise
            break
        within, uncertain, hidden = 1.0, 0.0, 0.0
        reported = 1 - answer.whole - answer.whole_error
        if is_bound and length >= radius:
            if 1 - answer.whole - _SURE * answer.whole_error > _MOST_BEYOND:
                raise ContradictedValue(_CONTRADICTED.format(radius, 1 - answer.whole))
        else:
            shift = factor * error
            spread.learn(length, shift, answer.whole, answer.whole_error)
            within, uncertain = spread.slope(dim, length, shift)
            hidden = spread.hidden(length, shift)
        bias = 0.0 if clip else max(hidden, _HIDDEN * reported * length) / math.sqrt(dim)
        unit = 1 / (within * factor)
        uncertain = math.hypot(uncertain, factor_error) * error
        variance = (unit * answer.std_error) ** 2 + uncertain**2 / dim
        waves.append(_Wave(centre + unit * answer.mean, variance, unit * bias, clip is not None))
        known = _pooled(waves)
        centre, error = shrink(known.mean, known.square), math.sqrt(dim * known.square)
        clip = hard if left > _WIDE_WAVES * num_waves + 1 else None
        shift = factor * error
        length = math.hypot(spread.radius(shift, clip, beyond), _WIDE * shift)
        if is_bound and length >= radius:
            centre, length, clip = np.zeros(dim), radius, None
        sizes = [run.num_unasked // max(left, 1)]
    known = _of_both(waves)
    return WaveMean(known.mean, np.sqrt(known.variance + known.bias**2))
