"""Hold-out cohorts of a regression: users who take no part in a fit and evaluate it.

They estimate the mean target, sizes, and the score. Each of them reports a single number, which
needs the least noise, or the octave of a size.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import Gradient, ResidualOctave, ScoreOctave, SquaredErrors
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Run
from ..subprotocols.number_mean import EVERYBODY, Number, ask_number
from ..subprotocols.scales import number_randomizer
from ..subprotocols.size_histogram import SizeHistogram, ask_histogram

Shares = tuple[float, float, float, float]

#: For each hold-out cohort: its smallest and its largest share of the users, the radius of a
#: report in scales of the targets, and the wanted standard error. Between the two shares a cohort
#: has as many users as this error needs.
COHORTS: dict[str, Shares] = {
    "place": (0.01, 0.04, 2.0, 0.2),
    "place again": (0.01, 0.06, 1.5, 0.15),
    "sizes": (0.03, 0.07, 2.0, 0.1),
    "mean": (0.02, 0.1, 1.5, 0.1),
    "steps": (0.01, 0.06, 2.0, 0.1),
    "first gain": (0.03, 0.075, 1.5, 0.06),
    "second gain": (0.03, 0.075, 1.5, 0.06),
    "model's sizes": (0.01, 0.02, 2.0, 0.1),
    "intercept": (0.04, 0.12, 1.5, 0.08),
    "left": (0.05, 0.05, 2.0, 0.1),
    "spread": (0.05, 0.05, 2.0, 0.1),
}


def _size(shares: Shares, num_users: float, epsilon: float) -> float:
    """Return how many users a hold-out cohort should have, before ``min_reports`` is considered."""
    least, most, radius, error = shares
    # The variance of one report, plus 1 for the differences of users.
    wanted = (number_randomizer(epsilon, radius).variance + 1) / error**2
    return max(least * num_users, min(most * num_users, wanted))


def held_out(num_users: float, epsilon: float) -> float:
    """Return the number of users of all hold-out cohorts together."""
    return sum(_size(shares, num_users, epsilon) for shares in COHORTS.values())


# Radii at which residuals are clipped to estimate the place of the mean; (1.2, .9) failed more
# often on chosen_on.txt.
_PLACE_RADII = 1.0, 0.75
MAX_TARGET = 2.0  # largest distance of a target from the middle of its bounds, by the schema
USUAL_SIZE = 0.35  # usual size of residuals
# Number of standard errors that the targets' spread has to exceed; otherwise the score is NaN.
_MIN_SPREAD_Z = 1.5
# Assumed share of the clipped amount that does not cancel between the two sides.
ONE_SIDED = 0.5
_LARGE_R2 = 0.4  # R2 above which cohorts report a model's loss, not its gain, since it is smaller
_MAX_PREDICTION = 2.5  # largest distance of a prediction from the mean, in units of ``moved``
_PRESENT = 0.01  # share of the users who report if they have a row
# Number of standard errors that show that some users have no rows; noise exceeds it in one run of
# 4,000.
_PRESENT_Z = 3.5
# Usual standard deviation of a numeric column with bounds only: half of its half-width.
NUMERIC_SPREAD = 0.5


# A function of a cohort, epsilon, a model and a radius that estimates the model's mean residual.
MeanResidual = Callable[[Cohort, float, Floats, float], Generator[Ask, Any, Number]]


def mean_residual(
    cohort: Cohort, epsilon: float, theta: Floats, radius: float
) -> Generator[Ask, Any, Number]:
    """Ask a cohort for a model's residuals, clipped to ``radius``; return their mean over users."""
    # The mean residual is minus the gradient of the squared loss in the intercept.
    question = Gradient(theta, np.zeros(1, np.int64))
    found = yield from ask_number(cohort, epsilon, question, radius)
    return Number(-found.value, found.std_error)


def ask_present(
    cohort: Cohort,
    epsilon: float,
    dim: int,
    most: float = MAX_TARGET,
    residual: MeanResidual = mean_residual,
) -> Generator[Ask, Any, Number]:
    """Return the share of users who have a row with a target; 1 unless it is significantly less.

    The question is for the residuals of a prediction above ``most``, the largest target. They are
    all clipped to -1, while users without such a row answer 0.
    """
    above = (most + 1) * np.eye(1, dim)[0]
    found = yield from residual(cohort, epsilon, above, 1.0)
    share, error = -found.value, found.std_error
    return EVERYBODY if share > 1 - _PRESENT_Z * error else Number(max(share, error), error)


def prior_spread(schema: Schema, theta: Floats, of_numbers: float = NUMERIC_SPREAD) -> float:
    """Return the usual standard deviation of a model's predictions, for independent columns.

    ``of_numbers`` is the standard deviation of a numeric column whose scale is not declared.
    """
    spreads = [0.0]
    for kind in schema.columns.values():
        if isinstance(kind, Numeric):
            spreads.append(1.0 if kind.scale is not None else of_numbers)
        else:
            spreads += [math.sqrt(1 / kind.width * (1 - 1 / kind.width))] * kind.width
    return max(float(np.linalg.norm(spreads * theta)), np.finfo(float).tiny ** 0.25)


@dataclass
class HoldOut:
    """The hold-out cohorts of one run of a regression, and the questions that they answer.

    Each cohort answers one question about a model ``theta``, the coefficients of ``dim`` features.
    """

    epsilon: float
    dim: int
    cohorts: dict[str, Cohort]  # by name, see ``COHORTS``
    residual: MeanResidual = mean_residual  # asks for residuals
    # Share of the users who have a row with a target. Means over users are divided by it
    present: Number = EVERYBODY

    @classmethod
    def of(cls, run: Run, dim: int, wanted: dict[str, Shares], residual: MeanResidual) -> Self:
        """Take a cohort for each name in ``wanted`` from the users who have not been asked yet.

        A further cohort, ``"present"``, reports who has a row with a target, unless it would be too
        small.
        """
        present = math.ceil(_PRESENT * run.num_users)
        sizes = {"present": present} if present >= run.min_reports else {}
        for name, shares in wanted.items():
            size = math.ceil(_size(shares, run.num_users, run.epsilon))
            sizes[name] = max(size, run.min_reports)
        cohorts = dict(zip(sizes, run.cohorts(list(sizes.values())), strict=True))
        return cls(run.epsilon, dim, cohorts, residual)

    def ask_present(self) -> Generator[Ask, Any, None]:
        """Estimate which share of the users has a row with a target."""
        if cohort := self.cohorts.get("present"):
            asks = ask_present(cohort, self.epsilon, self.dim, residual=self.residual)
            self.present = yield from asks

    def place(self) -> Generator[Ask, Any, float]:
        """Return a rough estimate of the mean target, which a second cohort refines."""
        found = 0.0
        for name, radius in zip(("place", "place again"), _PLACE_RADII, strict=True):
            theta = found * np.eye(1, self.dim)[0]
            asks = self.residual(self.cohorts[name], self.epsilon, theta, radius)
            left = (yield from asks).of_those(self.present)
            found = float(np.clip(found + left.value, -MAX_TARGET, MAX_TARGET))
        return found

    def sizes(
        self, name: str, theta: Floats, usual: float = USUAL_SIZE
    ) -> Generator[Ask, Estimate, SizeHistogram]:
        """Return the posterior of the sizes of a model's residuals, from their octaves.

        ``usual`` is the expected root mean square of the residuals.
        """
        question, present = ResidualOctave(theta, 0.0), self.present.value
        return (
            yield from ask_histogram(self.cohorts[name], question, self.epsilon, usual, present)
        )

    def step_size(self, direction: Floats, usual: float) -> Generator[Ask, Estimate, float]:
        """Return the root mean square change of predictions if coefficients move by ``direction``.

        ``usual`` is its expected value. The mean is over all users, since rows without a target
        have predictions, too.
        """
        question = ScoreOctave(direction, 0.0)
        law = yield from ask_histogram(self.cohorts["steps"], question, self.epsilon, usual)
        return law.root_mean_square

    def mean(
        self, names: Sequence[str], theta: Floats, law: SizeHistogram
    ) -> Generator[Ask, Estimate, Number]:
        """Return the mean over users of a model's residuals, which several cohorts report.

        Residuals, whose sizes have the distribution ``law``, are clipped at the bound that
        minimises noise and bias together. The standard error includes the bias, which may be of one
        sign.
        """
        cohorts = [self.cohorts[name] for name in names]
        size = sum(cohort.size for cohort in cohorts)
        unit = number_randomizer(self.epsilon, 1.0).variance
        clip = law.clip(unit / size, most=2 * MAX_TARGET)
        found = yield from mean_residual(cohorts[0], self.epsilon, theta, clip.bound)
        for cohort in cohorts[1:]:
            other = yield from mean_residual(cohort, self.epsilon, theta, clip.bound)
            found = found.pooled(other)
        error = math.hypot(found.std_error, clip.cut, clip.spread)
        return Number(found.value, error).of_those(self.present)

    def score(
        self,
        theta: Floats,
        mean: float,
        laws: tuple[SizeHistogram, SizeHistogram],
        expected: float,
        ask_gain: Generator[Ask, Any, Number],
    ) -> Generator[Ask, Any, Number]:
        """Return the R2 of a model; NaN if the targets' spread does not exceed the noise.

        One cohort reports squares around the mean target. The other one reports the model's squared
        residuals if the ``expected`` R2 is above .4, and otherwise the difference of the two, by
        ``ask_gain``, see :meth:`gain`. ``laws`` are the distributions of residuals of the mean and
        of the model.
        """
        at_mean, of_model = laws
        spread = yield from self._mean_square("spread", theta, mean, at_mean, (0.0, 1.0))
        if spread.value <= _MIN_SPREAD_Z * spread.std_error:
            return Number(math.nan, math.nan)
        large = expected > _LARGE_R2
        if large:
            ask_gain = self._mean_square("left", theta, mean, of_model, (1.0, 0.0))
        found = yield from ask_gain
        share = found.value / spread.value
        error = math.hypot(found.std_error, share * spread.std_error) / spread.value
        return Number(1 - share if large else min(share, 1.0), error)

    def gain(
        self, theta: Floats, mean: float, at_mean: SizeHistogram, moved: float
    ) -> Generator[Ask, Estimate, Number]:
        """Return the reduction of squared errors by a model, compared with the mean.

        ``at_mean`` is the distribution of residuals of the mean, and ``moved`` is the root mean
        square distance of predictions from the mean.
        """
        cohort = self.cohorts["left"]
        noise = number_randomizer(self.epsilon, 1.0).variance / cohort.size
        clip = at_mean.clip(noise, most=2 * MAX_TARGET)
        reach = 2 * _MAX_PREDICTION * moved
        question = SquaredErrors(theta, mean, -1.0, 1.0, 0.0)
        found = yield from ask_number(cohort, self.epsilon, question, reach * clip.bound)
        bias = ONE_SIDED * reach * math.hypot(clip.cut, clip.spread)
        return Number(found.value, math.hypot(found.std_error, bias))

    def _mean_square(
        self,
        name: str,
        theta: Floats,
        mean: float,
        law: SizeHistogram,
        weights: tuple[float, float],
    ) -> Generator[Ask, Estimate, Number]:
        """Return a mean of squares, estimated from clipped squares and corrected for the clipping.

        ``weights`` selects the squares: (1, 0) of the model's residuals, (0, 1) of deviations from
        ``mean``. ``law`` is the distribution of the sizes whose squares are reported.
        """
        cohort, present = self.cohorts[name], self.present
        # Users without rows report 0. Their share in both mean squares is the same.
        middle = 0.5 if present is EVERYBODY else 0.0
        noise = number_randomizer(self.epsilon, 1 - middle).variance / cohort.size
        clip = law.clip(noise / present.value**2, 2, 2 * MAX_TARGET)
        offset = middle * clip.bound**2
        question = SquaredErrors(theta, mean, *weights, offset)
        found = yield from ask_number(cohort, self.epsilon, question, clip.bound**2 - offset)
        error = math.hypot(found.std_error, present.value * clip.spread)
        return Number(found.value + offset + present.value * clip.cut, error)
