"""Hold-out cohorts of a regression: users who have no part in a fit evaluate it.

They estimate the mean target and the intercept, the scales of residuals and steps, and the score.
A mean residual is one number a user, for which noise is least; the score takes five moments.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np

from ldp_flower.guarantee.questions import Gradient, LineMoments, LineSizes
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import Floats

from ..runtime.exchange import Ask
from ..runtime.population import Cohort
from ..runtime.run import Run
from ..subprotocols.squared_errors import number_randomizer

# Of each hold-out cohort: its largest share of the users; and the radius of a report, in scales of
# the residuals, and the standard error from which on more users are of no use. Shares were chosen
# on one half of the tables of docs/your-own-data.md, at the fewest users and at twice as many.
_COHORTS = {
    "present": (0.01, 1.0, 0.1),
    "rough mean": (0.1, 2.0, 0.15),
    "scales": (0.04, 2.0, 0.2),
    "mean": (0.2, 1.5, 0.1),
    "gain": (0.15, 1.5, 0.05),
    "intercept": (0.16, 1.5, 0.1),
    "score": (0.06, 2.2, 0.12),
    "stage scales": (0.02, 2.0, 0.2),
    "stage moments": (0.05, 2.2, 0.2),
}
# Shares of the cohort, and radii that targets are clipped to; smaller ones than (1.2, .9) failed
# less often on the tables above.
_ROUGH_MEAN_STEPS = (0.4, 1.0), (0.6, 0.75)
MEAN_STEPS = 0.33, 0.67  # shares of the cohort: the second has a better centre
# Radius of later means, in scales of residuals, and the noise, in these, that allows a larger one.
_MEAN_RADII, _MEAN_NOISE, _MIN_RADIUS = (1.5, 3.0), 0.06, 0.1
_MAX_TARGET = 2.0  # distance of a target from the middle of its bounds, by the schema
PRIOR_SCALE, _PRIOR_SD = 0.35, 0.6  # of residuals and predictions; the sd is of the logarithm
_LOG_RANGE = math.log(5)  # of the reported logarithm around the prior: 2.7 of its sds
_USERS_VARIANCE = 0.5  # of the logarithms of users' scales
_RMS_OVER_GEOMETRIC = 1.2  # of users' scales
_MOMENT_RADII, _MOMENT_NOISE = (2.0, 12.0), 0.12  # of moments; noise that allows a larger one
_MIN_SPREAD_Z = 2.0  # standard errors that the targets' spread exceeds, or the score is NaN
_PRESENT_Z = 3.5  # standard errors that show that some have no rows: by chance one run in 4,000
_NUMERIC_SPREAD = 0.5  # of a column of numbers with bounds only: half of their half-width
_MIN_STEP_SPREAD = 0.1  # of steps along a line, over their scale


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
    """Return how many users a hold-out cohort has, before ``min_reports``."""
    share, radius, error = _COHORTS[name]
    # The variance of one report, and 1 for users who differ.
    wanted = (number_randomizer(epsilon, radius).variance + 1) / error**2
    return min(share * num_users, wanted)


def held_out(num_users: float, epsilon: float, *, two_stages: bool = False) -> float:
    """Return how many users all hold-out cohorts have together."""
    names = [name for name in _COHORTS if two_stages or not name.startswith("stage")]
    return sum(cohort_size(name, num_users, epsilon) for name in names)


def hold_out(run: Run, name: str, shares: Sequence[float] = (1.0,)) -> list[Cohort]:
    """Take a hold-out cohort from the users who have not been asked, in parts."""
    size = cohort_size(name, run.num_users, run.epsilon)
    return run.cohorts([max(math.ceil(part * size), run.min_reports) for part in shares])


def hold_out_present(run: Run) -> Cohort | None:
    """Take the cohort of :func:`ask_present`; nobody if it would be too small."""
    size = math.ceil(cohort_size("present", run.num_users, run.epsilon))
    return run.cohorts([size])[0] if size >= run.min_reports else None


def hold_out_rough_mean(run: Run) -> list[Cohort]:
    """Take the cohorts of :func:`rough_mean`, before the descent."""
    return hold_out(run, "rough mean", [share for share, _ in _ROUGH_MEAN_STEPS])


def ask_present(
    cohort: Cohort, epsilon: float, dim: int, most: float = _MAX_TARGET
) -> Generator[Ask, Estimate, Number]:
    """Return the share of users who have a row with a target; 1 unless it is surely less.

    Users without one answer 0. All others answer 1 to a prediction above ``most``, the largest
    target: their mean residual is clipped.
    """
    above = (most + 1) * np.eye(1, dim)[0]
    question = Gradient(above, np.zeros(1, np.int64))
    answer = yield Ask(cohort, question, number_randomizer(epsilon, 1.0))
    share, error = float(answer.mean[0]), float(answer.std_error[0])
    return EVERYBODY if share > 1 - _PRESENT_Z * error else Number(max(share, error), error)


def ask_residual(
    cohort: Cohort, epsilon: float, theta: Floats, radius: float = _MAX_TARGET
) -> Generator[Ask, Estimate, Number]:
    """Return the mean over users of their mean residual, each within ``radius``."""
    # It is minus the gradient of the squared loss in the intercept.
    question = Gradient(theta, np.zeros(1, np.int64))
    answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
    return Number(-float(answer.mean[0]), float(answer.std_error[0]))


def rough_mean(
    cohorts: list[Cohort], epsilon: float, dim: int, present: Number
) -> Generator[Ask, Estimate, Number]:
    """Return about where the mean target is: each cohort looks around the estimate before.

    Its error counts as infinite: what was clipped at fixed radii, around places that were far
    off, is no estimate of the mean, and only says where to look for it.
    """
    mean = Number(0.0, math.inf)
    for cohort, (_, radius) in zip(cohorts, _ROUGH_MEAN_STEPS, strict=True):
        found = yield from _refined(cohort, epsilon, dim, mean, radius, present)
        mean = Number(found.value, math.inf)
    return mean


def refined_mean(
    cohorts: Sequence[Cohort],
    epsilon: float,
    dim: int,
    mean: Number,
    scale: float,
    present: Number,
) -> Generator[Ask, Estimate, Number]:
    """Return the mean target by further cohorts; targets have this scale around it."""
    for cohort in cohorts:
        radius = mean_radius(cohort.size, epsilon, scale)
        mean = yield from _refined(cohort, epsilon, dim, mean, radius, present)
    return mean


def _refined(
    cohort: Cohort, epsilon: float, dim: int, mean: Number, radius: float, present: Number
) -> Generator[Ask, Estimate, Number]:
    theta = mean.value * np.eye(1, dim)[0]
    left = (yield from ask_residual(cohort, epsilon, theta, radius)).of_those(present)
    return mean.pooled(Number(mean.value + left.value, left.std_error)).within(_MAX_TARGET)


def mean_radius(users: float, epsilon: float, scale: float) -> float:
    """Return where so many users clip residuals of this scale for their mean."""
    noise = math.sqrt(number_randomizer(epsilon, 1.0).variance / users)
    radius = float(np.clip(_MEAN_NOISE / noise, *_MEAN_RADII)) * scale
    return min(max(radius, _MIN_RADIUS), _MAX_TARGET)


def prior_spread(schema: Schema, theta: Floats) -> float:
    """Return the usual standard deviation of scores whose columns are independent."""
    spreads = [0.0]
    for kind in schema.columns.values():
        if isinstance(kind, Numeric):
            spreads.append(1.0 if kind.scale is not None else _NUMERIC_SPREAD)
        else:
            spreads += [math.sqrt(1 / kind.width * (1 - 1 / kind.width))] * kind.width
    return max(float(np.linalg.norm(spreads * theta)), np.finfo(float).tiny ** 0.25)


def ask_scales(
    cohort: Cohort, epsilon: float, theta: Floats, direction: Floats
) -> Generator[Ask, Estimate, Floats]:
    """Return the root mean squares of residuals and of steps; of the prior, if few answer."""
    question = LineSizes(theta, direction, PRIOR_SCALE, _LOG_RANGE)
    answer = yield Ask(cohort, question, ball_codebook(epsilon, 2, 1.0), min_reports=0)
    shrunk = 1 - (log_scale_error(answer.count, epsilon) / _PRIOR_SD) ** 2
    return np.asarray(_RMS_OVER_GEOMETRIC * PRIOR_SCALE * np.exp(_LOG_RANGE * answer.mean * shrunk))


def log_scale_error(users: float, epsilon: float) -> float:
    """Return the posterior standard deviation of a scale's logarithm, by so many users."""
    variance = _LOG_RANGE**2 * ball_codebook(epsilon, 2, 1.0).variance + _USERS_VARIANCE
    return _PRIOR_SD / math.sqrt(1 + _PRIOR_SD**2 * users / variance)


@dataclass(frozen=True)
class Line:
    """Reported moments of a model's residuals r and of steps q along a line.

    Attributes
    ----------
    scales : ndarray, shape (2,)
        Units of r and q.
    moments, noise : ndarray, shape (5,)
        The means of r, q, r q, q**2 and r**2, and their standard deviations.
    """

    scales: Floats
    moments: Floats
    noise: Floats

    def best_step(self, usual: float, spread: float) -> float:
        """Return the step at which the squared error is least.

        ``usual`` is the prior mean of it, with standard deviation ``spread``. A variance of steps
        that is hardly known counts for little, lest noise be taken for a finding.
        """
        r, q, product, square, _ = self.moments
        ratio = self.scales[1] / self.scales[0]  # steps are found in units of the scales
        noise = float(np.mean(self.noise)) * math.sqrt(1 + r * r + q * q)
        variance = max(square - q * q - noise, _MIN_STEP_SPREAD)
        precision, known = (variance / noise) ** 2, (spread * ratio) ** -2.0
        found = precision * (product - r * q) / variance + known * usual * ratio
        return float(found / (precision + known) / ratio)


def ask_line(
    cohort: Cohort,
    epsilon: float,
    theta: Floats,
    direction: Floats,
    scales: Floats,
    present: Number = EVERYBODY,
) -> Generator[Ask, Estimate, Line]:
    """Return the moments of a line, in units of these scales, of those who are present."""
    noise = math.sqrt(ball_codebook(epsilon, 5, 1.0).variance / cohort.size)
    radius = float(np.clip(_MOMENT_NOISE / noise, *_MOMENT_RADII))
    question = LineMoments(theta, direction, float(scales[0]), float(scales[1]))
    answer = yield Ask(cohort, question, ball_codebook(epsilon, 5, radius))
    moments = answer.mean / present.value  # those without rows have zeros
    errors = np.hypot(answer.std_error, moments * present.std_error) / present.value
    return Line(scales, moments + np.array([0.0, 0.0, 0.0, 1.0, 1.0]), errors)


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
    least = _MIN_SPREAD_Z * float(np.linalg.norm(slopes))
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
