"""Mean of users' vectors by waves: each wave subtracts the estimate of the waves before it.

The distance of users' vectors from their mean is not known beforehand. It is estimated on the way,
from the share of each wave's vectors that need no shortening.
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
from ..numerics.sample import weighted_quantiles
from ..runtime import Ask, ContradictedValue, Run, TooFewReports
from .shortening import ask_shortened, word_variance

_COARSE = 0.15, 0.2  # smallest and largest share of the users in the first wave, around zero
_NARROWED = 0.5  # error of a wave's mean, over its radius, that lets the next wave be narrower
# Largest standard error of a wave's share of vectors without shortening; smaller waves have larger
# errors and learn nothing.
_WORD_ERROR = 0.2
_FEWEST_WAVES = 3
_CENTRE_MARGIN = 1.25  # part of a radius that allows for the error of the centre, over that error
# Radius of hard waves, which clip strongly, over the users' spread; .25 + 8 / d if larger. If
# lengths concentrate, strong clipping gains most. In fewer coordinates than _CONCENTRATED it biases
# the mean of skewed distributions, so there are no hard waves.
_HARD, _CONCENTRATED = 0.75, 8
_WIDE_WAVES = 0.25  # share of the waves, the last ones, that are not hard
# Candidate shares of the users whose vectors are shortened.
_SHORTENED_SHARES = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-5)
# Bias of a mean by shortening, over the radius and over the share of users beyond the radius. For
# exponential sizes of one sign with 5 % beyond the radius, it is .65. In several coordinates the
# bias partly cancels.
_BIAS = 0.5
# Shares of the users whose vectors may differ from the common value, and the prior probability that
# all users' vectors do.
_PARTS, _USUAL = (1.0, 0.5, 0.25, 0.12, 0.06), 0.9
# Prior for a declared spread: standard deviation of its logarithm, and the relative weight of any
# other spread.
_NEAR, _MISTAKEN = 0.25, 0.005
_LAW_ERROR = 0.04  # error of the share without shortening from the assumption of normal vectors
_SLOPE = 0.1  # relative error of the part that shortening removes, from the same assumption
_MOST_DEGREES = 32  # lengths of real vectors vary more than those of many independent coordinates
_LEAST_SPREAD = 0.3  # smallest spread considered, over the error of the centre
# A bound is contradicted if a larger share of vectors than _MOST_BEYOND exceeds it by _SURE
# standard errors.
_SURE, _MOST_BEYOND = 3.0, 0.2
_CONTRADICTED = (
    "Expected vectors within a bound of {:g}, but about {:.0%} of the users' vectors are longer."
)
# Candidate spreads are as small as exp(-_LOG_RANGE) times the largest possible distance. Their
# logarithms extend a tenth of this range above this distance.
_LOG_RANGE = 14.0


@dataclass(frozen=True)
class WaveMean:
    """A mean and its standard errors, which include the possible bias of clipping."""

    mean: Floats
    std_error: Floats


@dataclass(frozen=True)
class _Wave:
    """One cohort's estimate, with the variance and the possible bias of each coordinate."""

    mean: Floats
    variance: Floats
    bias: float
    is_hard: bool  # True if the wave clipped strongly

    @property
    def square(self) -> float:
        """Mean square error of a coordinate: the mean variance plus the squared bias."""
        return float(self.variance.mean()) + self.bias**2


def _pooled(waves: list[_Wave]) -> _Wave:
    """Return the average of several waves' estimates, weighted by their precision.

    Biases are averaged, too.
    """
    precision = np.array([1 / wave.square for wave in waves])
    shares = precision / precision.sum()
    return _Wave(
        np.sum([s * wave.mean for s, wave in zip(shares, waves, strict=True)], axis=0),
        np.sum([s**2 * wave.variance for s, wave in zip(shares, waves, strict=True)], axis=0),
        sum(share * wave.bias for share, wave in zip(shares, waves, strict=True)),
        waves[0].is_hard,
    )


def _of_both(waves: list[_Wave]) -> _Wave:
    """Return the average of hard and wide waves.

    Any difference between the two beyond noise counts as bias of the hard waves.
    """
    kinds = [[w for w in waves if w.is_hard is is_hard] for is_hard in (False, True)]
    wide, *hard = (_pooled(kind) for kind in kinds if kind)
    for each in hard:
        apart = (wide.mean - each.mean) ** 2 - wide.variance - each.variance
        bias = math.sqrt(max(float(apart.mean()), 0.0)) + wide.bias
        return _pooled([wide, replace(each, bias=bias)])
    return wide


class _Spread:
    """Posterior of the distance of users' vectors from their mean.

    If most users have one value in common, only the other part of the users differs from it. The
    posterior is therefore over pairs of that part's share of the users and its root mean square
    distance.
    """

    def __init__(self, degrees: int, largest: float, expected: float | None) -> None:
        self._degrees = min(degrees, _MOST_DEGREES)
        logs = math.log(largest) + np.linspace(-_LOG_RANGE, _LOG_RANGE / 10, 309)
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
        """Update the posterior by ``whole``: the share of vectors within ``radius`` of the centre.

        ``error`` is that of the centre, and ``whole_error`` that of the share.
        """
        surprise = 1 - whole - self._beyond(radius, error)
        self._likelihoods -= surprise**2 / (whole_error**2 + _LAW_ERROR**2) / 2

    def radius(self, error: float, clip: float | None, beyond: float) -> float:
        """Return the posterior median of the wanted radius, for a centre with this error.

        The wanted radius is ``clip`` times the spread. If ``clip`` is None, it is the radius that
        leaves the share ``beyond`` of the users beyond it.
        """
        if clip is None:
            others = chdtri(self._degrees, np.minimum(beyond / self._parts, 1.0))
            needed = self._logs + np.log(np.maximum(others / self._degrees, 1e-6)) / 2
        else:
            needed = self._logs + math.log(clip)
        return math.exp(weighted_quantiles(needed, self._weights(error), 0.5))

    def hidden(self, radius: float, error: float) -> float:
        """Return the bias that shortening to ``radius`` may cause in the mean."""
        excess = np.maximum(radius, np.sqrt(self._squares))
        return _BIAS * float(self._weights(error) @ (self._beyond(radius, error) * excess))

    def slope(self, dim: int, radius: float, error: float) -> tuple[float, float]:
        """Return the part of the centre's error that shortening leaves, and its relative error."""
        weights = self._weights(error)
        of_part = shortened_slope(dim, self._ratios(radius, error))
        slopes = 1 - self._parts + self._parts * of_part
        mean = float(weights @ slopes)
        deviation = math.sqrt(float(weights @ (slopes - mean) ** 2)) / mean
        return mean, math.hypot(deviation, _SLOPE * (1 - mean))


def _least_beyond(degrees: int, noise: float, users: int) -> float:
    """Return the share of users beyond a radius that suits the noise.

    It is the largest candidate for which the bias by shortening is below the noise.
    """
    for beyond in _SHORTENED_SHARES:
        radius = math.sqrt(chdtri(degrees, beyond) / degrees)
        if _BIAS * beyond * radius <= math.hypot(noise * radius, users**-0.5):
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
    """Ask all remaining users of a run for vectors minus a centre; return the mean of the vectors.

    A later wave with too few reports is left out, and two in a row end the protocol.

    Parameters
    ----------
    question : callable
        Function that makes, from a centre, the question for a user's vector minus that centre.
    radius : float
        Radius around zero to which the first cohort's vectors are shortened.
    most_waves : int
        Largest number of cohorts after the first. There are fewer, but at least three, if they
        would be too small to learn from.
    is_bound : bool
        True if no vector is longer than ``radius``. A later wave that needs a radius as large as
        this bound asks for the vectors themselves, shortened to the bound. If False, ``radius`` is
        only a first guess.
    expected : float, optional
        Expected root mean square distance of users' vectors from their mean, which reports may
        correct.
    factor, factor_error : float
        The mean of the reported vectors is ``factor`` times the mean minus the centre: 1 if users
        report exactly their vector minus the centre. Its relative error is ``factor_error``.

    Raises
    ------
    TooFewReports
        If the first cohort has too few reports.
    ContradictedValue
        If reports show that many vectors are longer than their bound.
    """
    epsilon, users = run.epsilon, run.num_unasked
    energy = dim * ball_codebook(epsilon, dim, 1.0).variance  # expected squared noise of a report
    noise = math.sqrt(energy / users)
    spread = _Spread(dim, radius, expected)
    beyond = _least_beyond(min(dim, _MOST_DEGREES), noise, users)
    hard = max(_HARD, 0.25 + 8 / dim) if dim >= _CONCENTRATED else None
    smallest = max(word_variance(epsilon, dim) / _WORD_ERROR**2, energy / _NARROWED**2)
    sizes = [max(int(np.clip(smallest, *(np.array(_COARSE) * users))), run.min_reports)]
    num_waves = int(np.clip((users - sizes[0]) / smallest, _FEWEST_WAVES, most_waves))
    waves: list[_Wave] = []
    centre, error, length, clip = np.zeros(dim), radius, radius, None
    lost = False
    for left in range(num_waves, -1, -1):
        try:
            (cohort,) = run.cohorts(sizes)
            answer = yield from ask_shortened(cohort, question(centre), dim, length, epsilon)
        except TooFewReports:
            if not waves:
                raise
            if lost:
                break
            lost = True  # by chance, if many small waves are asked and half of the nodes answer
            continue
        lost = False
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
        bias = 0.0 if clip else max(hidden, _BIAS * reported * length) / math.sqrt(dim)
        unit = 1 / (within * factor)
        uncertain = math.hypot(uncertain, factor_error) * error
        variance = (unit * answer.std_error) ** 2 + uncertain**2 / dim
        waves.append(_Wave(centre + unit * answer.mean, variance, unit * bias, clip is not None))
        known = _pooled(waves)
        centre, error = shrink(known.mean, known.square), math.sqrt(dim * known.square)
        clip = hard if left > _WIDE_WAVES * num_waves + 1 else None
        shift = factor * error
        length = math.hypot(spread.radius(shift, clip, beyond), _CENTRE_MARGIN * shift)
        if is_bound and length >= radius:
            centre, length, clip = np.zeros(dim), radius, None
        sizes = [run.num_unasked // max(left, 1)]
    known = _of_both(waves)
    return WaveMean(known.mean, np.sqrt(known.variance + known.bias**2))
