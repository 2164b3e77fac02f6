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
from ldp_flower.schema import Numeric, Schema

from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..subprotocols.squared_errors import number_randomizer

Floats = NDArray[np.float64]

# Of each hold-out cohort: its share of the users at most; and the standard errors, from the
# mechanism and from users who differ, beyond which more users are of no use. Chosen on every other
# one of 60 tables, for regressions that are seldom worse than a constant (docs/your-own-data.md).
_COHORTS = {
    "present": (0.01, 0.1, 0.1),
    "level": (0.12, 0.07, 0.15),
    "sizes": (0.03, 0.2, 0.3),
    "coarse": (0.05, 0.2, 0.3),
    "moments": (0.2, 0.1, 0.13),
    "final": (0.22, 0.05, 0.2),
    "score": (0.06, 0.1, 0.13),
    "stage sizes": (0.02, 0.2, 0.3),
    "stage moments": (0.05, 0.2, 0.3),
}
# The level is estimated in steps: shares of its cohort, and radii that targets are clipped to.
_LEVEL_STEPS = ((0.125, 1.2), (0.125, 1.2), (0.25, 0.9), (0.5, 0.7))
BIAS = 0.1  # of a mean of targets within these radii, in sizes of targets
# Of the last level, in sizes of residuals; and the noise, in these, that allows a larger radius:
# of skewed targets a mean within 1.5 sizes is biased by up to .3 of them.
_FINAL_RADII, _FINAL_NOISE, _LEAST_RADIUS = (1.5, 4.0), 0.1, 0.1
_FARTHEST = 2.0  # that a target can be from the middle of its bounds
USUAL_SIZE, _SIZE_SPREAD = 0.35, 0.6  # of residuals and predictions; that of its logarithm
_LOG_RANGE = math.log(5)
_USERS_VARIANCE = 0.5  # of the logarithms of users' sizes
_ROOM = 1.2  # a root mean square over a geometric mean
_RADII, _NOISE = (2.0, 12.0), 0.12  # of moments; noise that allows a larger one
_TRUSTED, _SQUARES = 4.0, (0.3, 4.0)  # mean squares are drawn to 1, and within these
_USERS = 1.5  # variance of moments between users
# R2 that slopes may cost, and the standard errors by which they cost no more. A constant costs what
# is left of .05.
_TOLERANCE, SAFE = 0.03, 1.8
_CLEAR = 2.0  # standard errors that the targets' spread is at least taken for
_SURE = 3.5  # standard errors from which on it is taken for certain that some have no rows
_NUMERIC_SPREAD = 0.5  # of a column of numbers with bounds only
_LEAST_SPREAD = 0.1  # of steps along a line, over their size
LENGTH = 1.0, 0.4  # of the slopes that fit best over those of a walk, and how that varies
_USUAL_SHIFT = 0.5  # means of r and q, in their sizes
LEVEL_SPREAD, LEVEL_NOISE = 0.1, 0.4  # of a walk's level, in residuals' sizes
WORSE = 2.0  # standard errors by which a score says that the mean is better
LEAST = 0.1  # of the targets' standard deviation that predictions vary by, or they are the mean


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


def cohort_size(name: str, num_users: float, epsilon: float) -> float:
    """Return how many of the users a hold-out cohort has, but for the fewest that a run allows."""
    share, error, spread = _COHORTS[name]
    if name in ("level", "final"):
        noise = number_randomizer(epsilon, 1.0).variance * _FINAL_RADII[0]
        wanted = noise / error**2 + 1 / spread**2
    else:
        noise = _RADII[0] ** 2 * ball_codebook(epsilon, 5, 1.0).variance
        wanted = noise / error**2 + _USERS / spread**2
    return min(share * num_users, wanted)


def held_out(num_users: float, epsilon: float, *, two_stages: bool = False) -> float:
    """Return how many users all hold-out cohorts have together."""
    names = [name for name in _COHORTS if two_stages or not name.startswith("stage")]
    return sum(cohort_size(name, num_users, epsilon) for name in names)


def hold_out(strategy: LdpStrategy[Any], name: str) -> Cohort:
    """Take a hold-out cohort from the users who have not been asked."""
    size = math.ceil(cohort_size(name, strategy.num_users, strategy.epsilon))
    return strategy.cohorts([max(size, strategy.min_reports)])[0]


def moments_radius(judges: float, epsilon: float) -> float:
    """Return where so many judges clip a line's moments."""
    noise = math.sqrt(ball_codebook(epsilon, 5, 1.0).variance / judges)
    return float(np.clip(_NOISE / noise, *_RADII))


def hold_out_present(strategy: LdpStrategy[Any]) -> Cohort | None:
    """Take those who tell who has a row with a target; nobody if they would be too few."""
    size = math.ceil(cohort_size("present", strategy.num_users, strategy.epsilon))
    return strategy.cohorts([size])[0] if size >= strategy.min_reports else None


def hold_out_level(strategy: LdpStrategy[Any]) -> list[Cohort]:
    """Take those who estimate the mean target in steps."""
    total = cohort_size("level", strategy.num_users, strategy.epsilon)
    return strategy.cohorts(
        [max(math.ceil(share * total), strategy.min_reports) for share, _ in _LEVEL_STEPS]
    )


def find_level(
    cohorts: list[Cohort], epsilon: float, dim: int, present: Number
) -> Generator[Ask, Estimate, Number]:
    """Return the mean target: every cohort estimates how far it is from the estimate before.

    So targets are clipped to where most of them lie, without knowing where that is. The last two
    estimates are pooled.
    """
    estimates = [Number(0.0, math.inf)]
    for cohort, (_, radius) in zip(cohorts, _LEVEL_STEPS, strict=True):
        at = estimates[-1].value
        step = yield from ask_level(cohort, epsilon, at * np.eye(1, dim)[0], radius)
        step = step.of_those(present)
        moved = float(np.clip(at + step.value, -_FARTHEST, _FARTHEST))
        estimates.append(Number(moved, step.std_error))
    return estimates[-2].pooled(estimates[-1])


def final_radius(users: float, epsilon: float, size: float) -> float:
    """Return where so many users clip residuals of this size for the last level."""
    noise = math.sqrt(number_randomizer(epsilon, 1.0).variance / users)
    radius = float(np.clip(_FINAL_NOISE / noise, *_FINAL_RADII)) * size
    return min(max(radius, _LEAST_RADIUS), _FARTHEST)


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
    def shifts(self) -> Floats:
        """Means of r and of q, drawn to 0 as far as they are noise."""
        trust = 1 / (1 + (self.noise[:2] / _USUAL_SHIFT) ** 2)
        return np.asarray(self.scales * trust * self.moments[:2])

    def safe_move(self) -> tuple[float, float]:
        """Return how far to go along the line, and the share of the variance that this explains.

        It is the likely best move, but no farther than to where the squared error is at most 3 % of
        the targets' variance above that at the beginning, even if r and q have less in common
        than reported, by 1.8 standard errors. A move that changes predictions by less than a
        tenth of the targets' standard deviation is none.
        """
        r, q, product, square, loss = self.moments
        a, b = self.scales
        variance = a * a * float(np.clip(loss - r * r, *_SQUARES))
        steps = b * b * float(np.clip(square - q * q, *_SQUARES))
        covariance = a * b * (product - r * q)
        least = covariance - SAFE * a * b * self.noise[2] * math.sqrt(1 + r * r + q * q)
        move = float(np.clip(self.best_move(*LENGTH), 0.0, safe(least, steps, variance)))
        if move**2 * steps < LEAST**2 * variance:
            return 0.0, 0.0
        return move, (2 * move * covariance - move**2 * steps) / variance

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


def safe(covariance: Any, steps: Any, variance: Any) -> Any:
    """Return the longest move that costs at most 3 % of the variance: 2 c m - s m^2 >= -.03 v."""
    return (covariance + np.sqrt(covariance**2 + _TOLERANCE * variance * steps)) / steps


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


def score(line: Line) -> Number:
    """Return the R2 of a model, where its line leads from predictions to a constant.

    These users chose nothing of the model, so nothing in it is selected by their noise. It is NaN
    if the targets' spread does not stand out of the noise. Its error is that of a model which is no
    better than a constant: a smaller one would trust losses that are small by chance, or as
    users' reports cut large residuals.
    """

    def spread(moments: Floats) -> float:
        return _spread(line.scales, moments)

    slopes = _differences(spread, line.moments, line.noise)
    least = _CLEAR * float(np.linalg.norm(slopes))
    square, targets = line.scales[0] ** 2, spread(line.moments)
    if targets <= least:
        return Number(math.nan, math.nan)
    loss = square * line.moments[4]
    errors = slopes - square * line.noise * np.eye(1, 5, 4)[0]
    return Number(min(1 - loss / targets, 1.0), float(np.linalg.norm(errors)) / targets)


def _spread(scales: Floats, moments: Floats) -> float:
    """Return the variance of r + q in the targets' units."""
    (r, q, product, square, loss), (a, b) = moments, scales
    return float(a * a * loss + 2 * a * b * product + b * b * square - (a * r + b * q) ** 2)


def _differences(function: Callable[[Floats], float], at: Floats, steps: Floats) -> Floats:
    """Return by how much each step up, and as far down, changes a number."""
    moved = [(function(at + step) - function(at - step)) / 2 for step in np.diag(steps)]
    return np.array(moved)


def usual_spread(schema: Schema, theta: Floats) -> float:
    """Return the usual standard deviation of scores whose columns are independent."""
    spreads = [0.0]
    for kind in schema.columns.values():
        if isinstance(kind, Numeric):
            spreads.append(1.0 if kind.scale is not None else _NUMERIC_SPREAD)
        else:
            spreads += [math.sqrt(1 / kind.width * (1 - 1 / kind.width))] * kind.width
    return max(float(np.linalg.norm(spreads * theta)), np.finfo(float).tiny ** 0.25)


def ask_sizes(
    cohort: Cohort, epsilon: float, theta: Floats, direction: Floats
) -> Generator[Ask, Estimate, Floats]:
    """Return the sizes of residuals and of steps along a line; the usual ones, if few answer."""
    mechanism = ball_codebook(epsilon, 2, 1.0)
    question = LineSizes(theta, direction, USUAL_SIZE, _LOG_RANGE)
    answer = yield Ask(cohort, question, mechanism, min_reports=0)
    logs = _LOG_RANGE * answer.mean * (1 - (size_error(answer.count, epsilon) / _SIZE_SPREAD) ** 2)
    return np.asarray(_ROOM * USUAL_SIZE * np.exp(logs))


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
