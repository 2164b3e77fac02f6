"""Judges: users who have no part in a fit tell its level, its length and how good it is.

They are asked about a line: a model, and a direction in which it may be moved. A least squares
fit of the model's residuals on the steps along the line takes five moments, which one user tells
in one report. Where judges are few, what they say counts little against what is usual.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Gradient, LineMoments, LineSizes
from ldp_flower.randomizers import Estimate, ball_codebook

from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..subprotocols.squared_errors import number_randomizer

Floats = NDArray[np.float64]

# Shares of the users that tell the level, sizes, moments and the score, and the standard error
# of a moment that no more are asked for.
LEVEL, SIZES, MOMENTS, SCORE = 0.02, 0.02, 0.1, 0.06
_ENOUGH = 0.04
_FARTHEST = 2.0  # that a target can be from the middle of its bounds
_USUAL_SIZE, _SIZE_SPREAD = 0.35, 0.6  # of residuals and predictions; that of its logarithm
_LOG_RANGE = math.log(16)
_USERS_VARIANCE = 0.5  # of the logarithms of users' sizes
_ROOM = 1.2  # a root mean square over a geometric mean
_RADII, _NOISE = (2.0, 12.0), 0.12  # of moments; noise that allows a larger one
_TRUSTED, _SQUARES = 4.0, (0.3, 10.0)  # mean squares are drawn to 1, and within these
_CLEAR = 2.0  # standard errors that the targets' spread is at least taken for
_SURE = 2.5  # standard errors from which on it is taken for certain that some have no rows
_LEAST_SPREAD = 0.1  # of steps along a line, over their size
LENGTH = 0.0, 0.3  # how much longer a walk's slopes usually should be, and how that varies
_COARSE = 0.2  # noise of moments with which a line tells nothing
LEVEL_SPREAD, LEVEL_NOISE = 0.1, 0.4  # of a walk's level, in residuals' sizes
USUAL_R2 = 0.2, 0.3  # of models, and how that varies
SHORTEST = 0.35  # of the slopes' length, below which the model is the mean
TOLD = 0.02  # share of the variance that a mean may cost which replaces a poor model


@dataclass(frozen=True)
class Number:
    """A number and its standard deviation."""

    value: float
    std_error: float

    def pooled(self, other: "Number") -> "Number":
        """Return the mean with another estimate, weighted by precision."""
        weights = np.array([self.std_error, other.std_error]) ** -2.0
        value = float(weights @ [self.value, other.value]) / weights.sum()
        return Number(value, 1 / math.sqrt(weights.sum()))

    def of_those(self, present: "Number") -> "Number":
        """Return a mean of those who are present, from one in which the others count as 0."""
        value = self.value / present.value
        return Number(value, math.hypot(self.std_error, value * present.std_error) / present.value)


EVERYBODY = Number(1.0, 0.0)


def judges(strategy: LdpStrategy[Any], share: float) -> Cohort:
    """Take a share of the users who have not been asked, but no more than are of use."""
    return strategy.cohorts([_num_judges(strategy, share)])[0]


def _num_judges(strategy: LdpStrategy[Any], share: float) -> int:
    wanted = num_wanted(strategy.num_users, strategy.epsilon, share)
    return max(math.ceil(wanted), strategy.min_reports)


def num_wanted(num_users: float, epsilon: float, share: float) -> float:
    """Return how many judges a share of the users is, but no more than are of use."""
    most = _RADII[0] ** 2 * ball_codebook(epsilon, 5, 1.0).variance / _ENOUGH**2
    return min(share * num_users, most)


def moments_radius(judges: float, epsilon: float) -> float:
    """Return where so many judges clip a line's moments."""
    noise = math.sqrt(ball_codebook(epsilon, 5, 1.0).variance / judges)
    return float(np.clip(_NOISE / noise, *_RADII))


def line_tells(judges: float, epsilon: float) -> bool:
    """Whether so many judges can tell how far to go along a line, and not its level only."""
    return ball_codebook(epsilon, 5, _RADII[0]).variance < _COARSE**2 * judges


def level_judges(strategy: LdpStrategy[Any]) -> list[Cohort]:
    """Take those who tell the level; if they are enough, half of them to tell who is present."""
    size = _num_judges(strategy, LEVEL)
    some = num_present(size, strategy.min_reports)
    return strategy.cohorts([size - some, some] if some else [size])


def num_present(level_judges: int, min_reports: int) -> int:
    """Return how many of those who tell the level tell who is present; 0 if they are too few."""
    return level_judges // 2 if level_judges >= 2 * min_reports else 0


def ask_present(
    cohort: Cohort, epsilon: float, dim: int, most: float = _FARTHEST
) -> Generator[Ask, Estimate, Number]:
    """Return the share of users who have a row with a target; 1 unless it is surely less.

    Others answer as if they had no rows. They are told by a prediction that is above all
    targets, of which ``most`` is the largest: whoever has a row says that it is too high, by as
    much as is told at most.
    """
    above = (most + 1) * np.eye(1, dim)[0]
    question = Gradient(above, np.zeros(1, np.int64))
    answer = yield Ask(cohort, question, number_randomizer(epsilon, 1.0))
    share, error = float(answer.mean[0]), float(answer.std_error[0])
    return EVERYBODY if share > 1 - _SURE * error else Number(max(share, error), error)


def ask_level(
    cohort: Cohort, epsilon: float, theta: Floats, radius: float = _FARTHEST
) -> Generator[Ask, Estimate, Number]:
    """Return the mean over users of their mean residual, each within ``radius``."""
    # It is minus the gradient of the squared loss in the intercept.
    question = Gradient(theta, np.zeros(1, np.int64))
    answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
    return Number(-float(answer.mean[0]), float(answer.std_error[0]))


@dataclass(frozen=True)
class Line:
    """What judges say of a model's residuals r and of steps q along a line.

    Attributes
    ----------
    scales : ndarray, shape (2,)
        In units of which r and q are told.
    moments, noise : ndarray, shape (5,)
        The means of r, q, r q, q**2 and r**2, and their standard deviations.
    """

    scales: Floats
    moments: Floats
    noise: Floats

    def best_move(self, usual: float, spread: float) -> float:
        """Return how far along the line the squared error is least.

        ``usual`` is how far that usually is, with standard deviation ``spread``.
        """
        r, q, product, square, _ = self.moments
        ratio = self.scales[1] / self.scales[0]  # moves are found in units of the scales
        noise = float(np.mean(self.noise)) * math.sqrt(1 + r * r + q * q)
        return float(likely_move(product - r * q, square - q * q, noise, ratio, usual, spread))

    @property
    def sizes(self) -> Floats:
        """Root mean squares of r and q: what tails make them, where that is known."""
        trust = 1 / (1 + (_TRUSTED * self.noise[[4, 3]]) ** 2)
        squares = 1 + trust * (self.moments[[4, 3]] - 1)
        return np.asarray(self.scales * np.sqrt(np.clip(squares, *_SQUARES)))

    def level_after(self, move: float) -> Number:
        """Return the mean residual after a move."""
        weights = self.scales * [1.0, -move]
        error = float(np.linalg.norm(weights * self.noise[:2]))
        return Number(float(weights @ self.moments[:2]), error)


def likely_move(
    covariance: Floats | float,
    variance: Floats | float,
    noise: Floats | float,
    ratio: Floats | float,
    usual: float,
    spread: float,
) -> Floats:
    """Return how far along a line the squared error is least, in units of a step.

    Moments are in units of residuals and of steps, which are ``ratio`` times as large. A spread
    that is hardly known counts for little, lest noise be taken for a finding.
    """
    least = np.maximum(variance - noise, _LEAST_SPREAD)
    precision, known = (least / noise) ** 2, (spread * ratio) ** -2.0
    found = precision * (covariance / least) + known * (usual * ratio)
    return np.asarray(found / (precision + known) / ratio)


def score(*lines: Line) -> Number:
    """Return the R2 of a model, where its line leads from predictions to a constant.

    Its error is infinite if the targets' spread does not stand out of the noise, and else that
    of a model which is no better than a constant: a smaller one would trust losses that are
    small by chance, or as judges' reports cut large residuals.
    The mean squared residual is that of the last judges. The spread of the targets is told by
    them and by those before, who were asked about another model with a line to the same
    constant.
    """
    last = lines[-1]
    told = np.concatenate([line.moments for line in lines])
    noise = np.concatenate([line.noise for line in lines])

    def spread(moments: Floats) -> float:
        each = zip(lines, moments.reshape(-1, 5), strict=True)
        return float(np.mean([_spread(line.scales, own) for line, own in each]))

    slopes = _differences(spread, told, noise)
    least = _CLEAR * float(np.linalg.norm(slopes))
    square = last.scales[0] ** 2
    loss, targets = square * last.moments[4], max(spread(told), least)
    errors = slopes - square * noise * (np.arange(len(told)) == len(told) - 1)
    error = float(np.linalg.norm(errors)) / targets if targets > least else math.inf
    return Number(min(1 - loss / targets, 1.0), error)


def _spread(scales: Floats, moments: Floats) -> float:
    """Return the variance of r + q in the targets' units."""
    (r, q, product, square, loss), (a, b) = moments, scales
    return float(a * a * loss + 2 * a * b * product + b * b * square - (a * r + b * q) ** 2)


def _differences(function: Callable[[Floats], float], at: Floats, steps: Floats) -> Floats:
    """Return by how much each step up, and as far down, changes a number."""
    moved = [(function(at + step) - function(at - step)) / 2 for step in np.diag(steps)]
    return np.array(moved)


def ask_sizes(
    cohort: Cohort, epsilon: float, theta: Floats, direction: Floats
) -> Generator[Ask, Estimate, Floats]:
    """Return the sizes of residuals and of steps along a line; the usual ones, if few answer."""
    mechanism = ball_codebook(epsilon, 2, 1.0)
    question = LineSizes(theta, direction, _USUAL_SIZE, _LOG_RANGE)
    answer = yield Ask(cohort, question, mechanism, min_reports=0)
    logs = _LOG_RANGE * answer.mean * (1 - (size_error(answer.count, epsilon) / _SIZE_SPREAD) ** 2)
    return np.asarray(_ROOM * _USUAL_SIZE * np.exp(logs))


def size_error(judges: float, epsilon: float) -> float:
    """Return the standard deviation of the logarithm of a size, of which it is known what is usual.

    Where nobody tells, it is that of usual sizes.
    """
    told = _LOG_RANGE**2 * ball_codebook(epsilon, 2, 1.0).variance + _USERS_VARIANCE
    return _SIZE_SPREAD / math.sqrt(1 + _SIZE_SPREAD**2 * judges / told)


def ask_line(
    cohort: Cohort,
    epsilon: float,
    theta: Floats,
    direction: Floats,
    scales: Floats,
    present: Number = EVERYBODY,
) -> Generator[Ask, Estimate, Line]:
    """Ask judges for the moments of a line, given what sizes are usual and who is present."""
    radius = moments_radius(cohort.size, epsilon)
    question = LineMoments(theta, direction, float(scales[0]), float(scales[1]))
    answer = yield Ask(cohort, question, ball_codebook(epsilon, 5, radius))
    told = answer.mean / present.value  # those without rows have zeros
    noise = np.hypot(answer.std_error, told * present.std_error) / present.value
    return Line(scales, told + np.array([0.0, 0.0, 0.0, 1.0, 1.0]), noise)
