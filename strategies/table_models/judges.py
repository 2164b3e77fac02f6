"""Hold-out cohorts: users who have no part in a fit estimate its intercept, step length and score.

An intercept is the mean residual, and a step length is found by gains: by how much a user's
squared error is less at the end of a step than at its beginning. Either is one number a user, for
which noise is least. The score takes five moments of residuals and steps.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ldp_flower.guarantee.questions import Gradient, LineMoments, LineSizes, SquaredErrors
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import Floats

from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..subprotocols.squared_errors import number_randomizer

# Of each hold-out cohort: its share of the users at most; and the radius of a report, in sizes of
# what is asked, and the standard error from which on more users are of no use. Chosen on every
# other one of 60 tables (docs/your-own-data.md).
_COHORTS = {
    "present": (0.01, 1.0, 0.1),
    "level": (0.05, 2.0, 0.15),
    "sizes": (0.03, 2.0, 0.2),
    "mean": (0.12, 1.5, 0.1),
    "gain": (0.18, 1.5, 0.1),
    "final": (0.18, 1.5, 0.1),
    "score": (0.06, 2.2, 0.12),
    "stage sizes": (0.02, 2.0, 0.2),
    "stage moments": (0.05, 2.2, 0.2),
}
_LEVEL_STEPS = (0.4, 1.2), (0.6, 0.9)  # shares of the cohort; radii that targets are clipped to
MEAN_STEPS, GAIN_STEPS = (0.33, 0.67), (0.5, 0.5)  # shares of the cohorts
BIAS = 0.3  # of a mean of targets within these radii, in sizes of targets
# Of later means, in sizes of residuals; and the noise, in these, that allows a larger radius:
# of skewed targets a mean within 1.5 sizes is biased by up to .3 of them.
_MEAN_RADII, _MEAN_NOISE, _LEAST_RADIUS = (1.5, 3.0), 0.06, 0.1
_FARTHEST = 2.0  # that a target can be from the middle of its bounds
USUAL_SIZE, _SIZE_SPREAD = 0.35, 0.6  # of residuals and predictions; that of its logarithm
_LOG_RANGE = math.log(5)
_USERS_VARIANCE = 0.5  # of the logarithms of users' sizes
_ROOM = 1.2  # a root mean square over a geometric mean
_RADII, _NOISE = (2.0, 12.0), 0.12  # of moments; noise that allows a larger one
_GAIN_RADII, _GAIN_NOISE = (0.75, 8.0), 0.12  # of a user's gain a length, in products of sizes
# R2 that slopes may cost, and the standard errors by which they cost no more. A constant costs what
# is left of .05.
_TOLERANCE, _SAFE = 0.02, 1.8
_FARTHEST_MOVE = 3.0  # in lengths of the descent's slopes
_CLEAR = 2.0  # standard errors that the targets' spread is at least taken for
_SURE = 3.5  # standard errors from which on it is taken for certain that some have no rows
_NUMERIC_SPREAD = 0.5  # of a column of numbers with bounds only
_LEAST_SPREAD = 0.1  # of steps along a line, over their size
_LENGTH_SPREAD = 0.4  # of the slopes that fit best, over those of a descent
SHIFT = 0.3  # of the mean residual from the constant to a descent's end, in sizes of targets
WORSE = 2.0  # standard errors by which a score says that the mean is better
_LEAST = 0.1  # of the targets' standard deviation that predictions vary by, or they are the mean


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

    def within(self, bound: float) -> "Number":
        """Return it clipped to ``[-bound, bound]``."""
        return Number(float(np.clip(self.value, -bound, bound)), self.std_error)

    def of_those(self, present: "Number") -> "Number":
        """Return a mean of those who are present, from one in which the others count as 0."""
        value = self.value / present.value
        return Number(value, math.hypot(self.std_error, value * present.std_error) / present.value)


EVERYBODY = Number(1.0, 0.0)


def cohort_size(name: str, num_users: float, epsilon: float) -> float:
    """Return how many of the users a hold-out cohort has, but for the fewest that a run allows."""
    share, radius, error = _COHORTS[name]
    # The variance of one report, and 1 for users who differ.
    wanted = (number_randomizer(epsilon, radius).variance + 1) / error**2
    return min(share * num_users, wanted)


def held_out(num_users: float, epsilon: float, *, two_stages: bool = False) -> float:
    """Return how many users all hold-out cohorts have together."""
    names = [name for name in _COHORTS if two_stages or not name.startswith("stage")]
    return sum(cohort_size(name, num_users, epsilon) for name in names)


def hold_out(
    strategy: LdpStrategy[Any], name: str, shares: Sequence[float] = (1.0,)
) -> list[Cohort]:
    """Take a hold-out cohort from the users who have not been asked, in parts."""
    size = cohort_size(name, strategy.num_users, strategy.epsilon)
    return strategy.cohorts([max(math.ceil(part * size), strategy.min_reports) for part in shares])


def moments_radius(judges: float, epsilon: float) -> float:
    """Return where so many judges clip a line's moments."""
    noise = math.sqrt(ball_codebook(epsilon, 5, 1.0).variance / judges)
    return float(np.clip(_NOISE / noise, *_RADII))


def hold_out_present(strategy: LdpStrategy[Any]) -> Cohort | None:
    """Take those who tell who has a row with a target; nobody if they would be too few."""
    size = math.ceil(cohort_size("present", strategy.num_users, strategy.epsilon))
    return strategy.cohorts([size])[0] if size >= strategy.min_reports else None


def hold_out_level(strategy: LdpStrategy[Any]) -> list[Cohort]:
    """Take those who estimate the mean target roughly, before the descent."""
    return hold_out(strategy, "level", [share for share, _ in _LEVEL_STEPS])


def find_level(
    cohorts: list[Cohort], epsilon: float, dim: int, present: Number
) -> Generator[Ask, Estimate, Number]:
    """Return the mean target: every cohort estimates how far it is from the estimate before.

    So targets are clipped to where most of them lie, without knowing where that is.
    """
    mean = Number(0.0, math.inf)
    for cohort, (_, radius) in zip(cohorts, _LEVEL_STEPS, strict=True):
        coef = mean.value * np.eye(1, dim)[0]
        mean = yield from refine(cohort, epsilon, coef, mean, radius, present)
    return mean


def refine(
    cohort: Cohort, epsilon: float, theta: Floats, known: Number, radius: float, present: Number
) -> Generator[Ask, Estimate, Number]:
    """Return a model's intercept by a cohort's mean residual, pooled with what is known of it.

    The model ``theta`` has what is known for its intercept.
    """
    left = (yield from ask_level(cohort, epsilon, theta, radius)).of_those(present)
    return known.pooled(Number(known.value + left.value, left.std_error)).within(_FARTHEST)


def mean_radius(users: float, epsilon: float, size: float) -> float:
    """Return where so many users clip residuals of this size for their mean."""
    noise = math.sqrt(number_randomizer(epsilon, 1.0).variance / users)
    radius = float(np.clip(_MEAN_NOISE / noise, *_MEAN_RADII)) * size
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


@dataclass
class Gains:
    """What a move along a line explains of the targets' variance: ``2 c t - s t**2``.

    Attributes
    ----------
    precision : ndarray, shape (2, 2)
        Of what is known of c and s.
    product : ndarray, shape (2,)
        The precision times the estimates of c and s.
    usual : float
        What s is by the sizes of residuals and of steps.
    """

    precision: Floats
    product: Floats
    usual: float

    @classmethod
    def of_sizes(cls, scales: Floats, error: float) -> Self:
        """Return what sizes say, whose logarithms have this standard error."""
        usual = float(scales[1] / scales[0]) ** 2
        known = (2 * error * usual) ** -2.0  # of a square the error is twice that of its root
        return cls(np.diag([0.0, known]), np.array([0.0, known * usual]), usual)

    def add(self, move: float, found: Number) -> None:
        """Add an estimate of ``c - s move / 2``: half the gain of a move, over its length."""
        row, weight = np.array([1.0, -move / 2]), found.std_error**-2.0
        self.precision = self.precision + weight * np.outer(row, row)
        self.product = self.product + weight * found.value * row

    def best_move(self) -> float:
        """Return how far the gain is largest, where a descent's own length is about right."""
        row = np.array([1.0, -1.0])
        prior = np.outer(row, row) / (_LENGTH_SPREAD * self.usual) ** 2
        c, s = np.linalg.solve(self.precision + prior, self.product)
        return float(np.clip(c / max(s, 0.3 * self.usual), 0.05, _FARTHEST_MOVE))

    def safe_move(self) -> tuple[float, float]:
        """Return how far to go along the line, and the share of the variance that this explains.

        It is the best move, but no farther than surely costs at most 2 % of the targets' variance:
        by 1.8 standard errors, without what is usual of lengths. A move that changes predictions
        by less than a tenth of the targets' standard deviation is none.
        """
        moves = np.linspace(0.0, self.best_move(), 64)
        rows = np.column_stack([2 * moves, -(moves**2)])
        covariance = np.linalg.inv(self.precision)
        gains = rows @ covariance @ self.product
        errors = np.sqrt(((rows @ covariance) * rows).sum(axis=1))
        last = np.flatnonzero(gains - _SAFE * errors >= -_TOLERANCE)[-1]
        if moves[last] ** 2 * self.usual < _LEAST**2:
            return 0.0, 0.0
        return float(moves[last]), float(gains[last])


def line_search(
    cohorts: Sequence[Cohort],
    epsilon: float,
    constant: float,
    direction: Floats,
    scales: Floats,
    error: float,
    present: Number,
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Return how far to go from a constant along a direction, and what share that explains.

    Every cohort is asked for the gain of the move that is best by the cohorts before.
    ``scales`` are the sizes of residuals and of steps, and ``error`` that of their logarithms.
    """
    gains, move, (a, b) = Gains.of_sizes(scales, error), 1.0, scales
    for cohort in cohorts:
        theta = constant * np.eye(1, len(direction))[0] + move * direction
        noise = math.sqrt(number_randomizer(epsilon, 1.0).variance / cohort.size)
        radius = float(np.clip(_GAIN_NOISE / noise, *_GAIN_RADII)) * 2 * move * a * b
        question = SquaredErrors(theta, constant, -1.0, 1.0, 0.0)
        answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
        found = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
        # A margin beside the reports' own spread: users differ by about one product of sizes.
        users = b / a / math.sqrt(answer.count)
        unit = 2 * move * a * a
        gains.add(move, Number(found.value / unit, math.hypot(found.std_error / unit, users)))
        move = gains.best_move()
    return gains.safe_move()


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
