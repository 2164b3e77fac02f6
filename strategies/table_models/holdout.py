"""Hold-out cohorts of a regression: users who have no part in a fit evaluate it.

They estimate the mean target and the intercept, the scales of residuals and steps, and the score.
A mean residual is one number a user, for which noise is least; the score takes five moments.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp_flower.guarantee.questions import Gradient, LineMoments, LineSizes, SquaredErrors
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run
from ..subprotocols.one_number import number_randomizer

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
# Shares of a cohort that are asked one after the other: the second knows more. Of the intercept's,
# it is asked at the model that is returned.
_PARTS = {
    "rough mean": (0.4, 0.6),
    "mean": (0.33, 0.67),
    "gain": (0.5, 0.5),
    "intercept": (0.35, 0.65),
}
# Where targets are clipped for the rough mean; (1.2, .9) failed more often on the tables above.
_ROUGH_MEAN_RADII = 1.0, 0.75
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


def hold_out(run: Run, name: str) -> list[Cohort]:
    """Take a hold-out cohort from the users who have not been asked, in its parts."""
    size, parts = cohort_size(name, run.num_users, run.epsilon), _PARTS.get(name, (1.0,))
    return run.cohorts([max(math.ceil(part * size), run.min_reports) for part in parts])


def hold_out_present(run: Run) -> Cohort | None:
    """Take the cohort of :func:`ask_present`; nobody if it would be too small."""
    size = math.ceil(cohort_size("present", run.num_users, run.epsilon))
    return run.cohorts([size])[0] if size >= run.min_reports else None


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
    for cohort, radius in zip(cohorts, _ROUGH_MEAN_RADII, strict=True):
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
    """Reported moments of a model's residuals r and of steps q along a line."""

    scales: Floats  # (2,): units of r and q
    moments: Floats  # (5,): the means of r, q, r q, q**2 and r**2
    noise: Floats  # (5,): their standard deviations

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
        """Return the variance of r + q in the targets' units."""
        (r, q, product, square, loss), (a, b) = moments, line.scales
        return float(a * a * loss + 2 * a * b * product + b * b * square - (a * r + b * q) ** 2)

    # By how much each moment's error, up and as far down, changes it.
    at, steps = line.moments, np.diag(line.noise)
    slopes = np.array([(spread(at + step) - spread(at - step)) / 2 for step in steps])
    least = _MIN_SPREAD_Z * float(np.linalg.norm(slopes))
    square, targets = line.scales[0] ** 2, spread(line.moments)
    if targets <= least:
        return Number(math.nan, math.nan)
    loss = square * line.moments[4]
    errors = slopes - square * line.noise * np.eye(1, 5, 4)[0]
    return Number(min(1 - loss / targets, 1.0), float(np.linalg.norm(errors)) / targets)


# Radius of a user's gain, in products of scales, and the noise that allows a larger one.
_GAIN_RADII, _GAIN_NOISE = (0.75, 8.0), 0.12
# R2 that a step may cost at most in 98 of 100 runs, for a normal error. With .02 2 % of the runs
# at epsilon 1 and 2 were worse than -.05 by slopes, and with 0 most models were the mean.
_TOLERANCE, _Z = 0.01, 2.05
_MAX_STEP = 3.0  # over the descent's own
_STEP_SPREAD = 0.4  # of the best step around 1, the descent's own
_MIN_CURVATURE = 0.3  # over what scales let one expect: less is noise
_MIN_PREDICTED = 0.1  # of the targets' sd that predictions vary by: less explains 1 % at most
# Mean residual at a descent's end, of either sign: over the scale of its steps (.39 to .48), and of
# residuals at its beginning (.16 to .22, root mean squares over half of the tables, by epsilon).
_OFFSET_OVER_SCALES = np.array([0.2, 0.45])


@dataclass
class LinearEstimates:
    """Estimates of two unknown numbers, from noisy combinations of them."""

    precision: Floats  # (2, 2): inverse covariance of what is known
    product: Floats  # (2,): the precision times the estimates

    @classmethod
    def known(cls, values: Sequence[float], std_errors: Sequence[float]) -> Self:
        """Return independent estimates; an infinite error where nothing is known."""
        precision = np.diag(np.asarray(std_errors) ** -2.0)
        return cls(precision, precision @ values)

    def add(self, row: Sequence[float], found: Number) -> None:
        """Add an estimate of a combination of both."""
        weighted = np.asarray(row) * found.std_error**-2.0
        self.precision = self.precision + np.outer(weighted, row)
        self.product = self.product + found.value * weighted

    def of(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return combinations, and their standard errors."""
        covariance = np.linalg.inv(self.precision)
        errors = np.sqrt(((rows @ covariance) * rows).sum(axis=-1))
        return rows @ covariance @ self.product, errors


class Intercepts(LinearEstimates):
    """The intercept of a model with a share of the slopes.

    It is the mean target, less that share of what the slopes predict in the mean.
    """

    @classmethod
    def of_descent(cls, mean: Number, intercept: float, scales: Floats) -> Self:
        """Return the prior from a mean target, a descent and scales of residuals and steps."""
        offset = float(min(_OFFSET_OVER_SCALES * scales))
        return cls.known([mean.value, mean.value - intercept], [mean.std_error, offset])

    def at(self, step: float) -> Number:
        """Return the intercept for so much of the slopes."""
        value, error = self.of(np.array([1.0, -step]))
        return Number(float(value), float(error))

    def model(
        self,
        cohort: Cohort,
        epsilon: float,
        slopes: Floats,
        step: float,
        scale: float,
        present: Number,
    ) -> Generator[Ask, Estimate, Floats]:
        """Return a model with so much of the slopes, whose mean residual a cohort reports."""
        theta = step * slopes
        theta[0] = self.at(step).value
        radius = mean_radius(cohort.size, epsilon, scale)
        left = (yield from ask_residual(cohort, epsilon, theta, radius)).of_those(present)
        self.add([1.0, -step], Number(theta[0] + left.value, left.std_error))
        theta[0] = self.at(step).value
        return theta


@dataclass
class Gains(LinearEstimates):
    """What a step t explains of the targets' variance, ``2 c t - s t**2``: estimates of c and s."""

    prior: float = 0.0  # what s is by the scales of residuals and of steps

    @classmethod
    def of_scales(cls, scales: Floats, error: float) -> Self:
        """Return what is known by scales whose logarithms have this standard error."""
        prior = float(scales[1] / scales[0]) ** 2
        # Of a square the error is twice that of its root.
        gains = cls.known([0.0, prior], [math.inf, 2 * error * prior])
        gains.prior = prior
        return gains

    def best_step(self) -> float:
        """Return the step of the largest gain, given that a descent's own is about right."""
        row = np.array([1.0, -1.0])
        prior = np.outer(row, row) / (_STEP_SPREAD * self.prior) ** 2
        c, s = np.linalg.solve(self.precision + prior, self.product)
        return float(np.clip(c / max(s, _MIN_CURVATURE * self.prior), 0.05, _MAX_STEP))

    def safe_step(self) -> tuple[float, float]:
        """Return the step to take, and the share of the variance that it explains.

        It is the best step, or the largest shorter one that surely costs at most 1 % of the
        targets' variance, without what is usual of steps. A step that changes predictions by less
        than a tenth of the targets' standard deviation is none.
        """
        steps = np.linspace(0.0, self.best_step(), 64)
        gains, errors = self.of(np.column_stack([2 * steps, -(steps**2)]))
        last = np.flatnonzero(gains - _Z * errors >= -_TOLERANCE)[-1]
        if steps[last] ** 2 * self.prior < _MIN_PREDICTED**2:
            return 0.0, 0.0
        return float(steps[last]), float(gains[last])


def line_search(
    cohorts: Sequence[Cohort],
    epsilon: float,
    start: Floats,
    direction: Floats,
    scales: Floats,
    error: float,
    present: Number,
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Return the step from a constant along a direction, and the share that it explains.

    Every cohort reports the gain of the step that is best by the cohorts before. ``scales`` are
    those of residuals and of steps, and ``error`` that of their logarithms.
    """
    gains, step, (a, b) = Gains.of_scales(scales, error), 1.0, scales
    for cohort in cohorts:
        noise = math.sqrt(number_randomizer(epsilon, 1.0).variance / cohort.size)
        radius = float(np.clip(_GAIN_NOISE / noise, *_GAIN_RADII)) * 2 * step * a * b
        question = SquaredErrors(start + step * direction, start[0], -1.0, 1.0, 0.0)
        answer = yield Ask(cohort, question, number_randomizer(epsilon, radius))
        found = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(present)
        # A margin beside the reports' own spread: users differ by about one product of scales.
        users = b / a / math.sqrt(answer.count)
        unit = 2 * step * a * a
        half = Number(found.value / unit, math.hypot(found.std_error / unit, users))
        gains.add([1.0, -step / 2], half)
        step = gains.best_step()
    return gains.safe_step()
