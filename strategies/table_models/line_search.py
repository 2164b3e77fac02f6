"""Line search from the mean to a model: held-out users determine how far to go."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp_flower.questions import SquaredErrors
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from ..subprotocols.number_mean import Number
from ..subprotocols.scales import number_randomizer
from .holdout import HoldOut

# Smallest and largest radius of a user's gain, in products of scales, and the noise that allows a
# larger radius.
_GAIN_RADII, _GAIN_NOISE = (0.75, 8.0), 0.12
# Largest R2 that a step may cost in 98 of 100 runs, for a normal error. With .02, slopes made 2 %
# of the runs at epsilon 1 and 2 worse than an R2 of -.05; with 0 most models were the mean.
_TOLERANCE, _Z = 0.01, 2.05
_MAX_STEP = 3.0  # largest step, over the descent's own
_STEP_SPREAD = 0.4  # prior standard deviation of the best step around 1, the descent's own
_MIN_CURVATURE = 0.3  # smallest curvature, over the one expected from scales: less is noise
# Smallest standard deviation of predictions, over the standard deviation of the targets: smaller
# ones explain at most 1 %.
MIN_PREDICTED = 0.1


@dataclass
class Gains:
    """Estimates of c and s, where a step t explains a share ``2 c t - s t**2`` of the variance.

    They come from noisy linear combinations of the two numbers.
    """

    precision: Floats  # (2, 2): inverse covariance of the estimates of c and s
    product: Floats  # (2,): the precision times the estimates
    prior: float  # value of s that the scales of residuals and of steps imply

    @classmethod
    def of_scales(cls, scales: Floats, error: float) -> Self:
        """Return the estimates from the scales of residuals and of steps, which leave c unknown.

        ``error`` is the standard error of the scales' logarithms.
        """
        prior = float(scales[1] / scales[0]) ** 2
        # The relative error of a square is twice that of its root.
        precision = np.diag(np.array([math.inf, 2 * error * prior]) ** -2.0)
        return cls(precision, precision @ [0.0, prior], prior)

    def add(self, row: Sequence[float], found: Number) -> None:
        """Add an independent estimate ``found`` of a combination of the two numbers.

        ``row`` has the combination's coefficients.
        """
        weighted = np.asarray(row) * found.std_error**-2.0
        self.precision = self.precision + np.outer(weighted, row)
        self.product = self.product + found.value * weighted

    def best_step(self) -> float:
        """Return the step with the largest expected gain.

        The prior is around 1, the descent's own step.
        """
        row = np.array([1.0, -1.0])
        prior = np.outer(row, row) / (_STEP_SPREAD * self.prior) ** 2
        c, s = np.linalg.solve(self.precision + prior, self.product)
        return float(np.clip(c / max(s, _MIN_CURVATURE * self.prior), 0.05, _MAX_STEP))

    def safe_step(self) -> tuple[float, float]:
        """Return the step to take, and the share of the variance that it explains.

        It is the best step, or the largest shorter one that costs at most 1 % of the targets'
        variance with high probability. The prior of steps is not used for this. If the step changes
        predictions by less than a tenth of the targets' standard deviation, return 0.
        """
        steps = np.linspace(0.0, self.best_step(), 64)
        rows, covariance = np.column_stack([2 * steps, -(steps**2)]), np.linalg.inv(self.precision)
        gains = rows @ covariance @ self.product
        errors = np.sqrt(((rows @ covariance) * rows).sum(axis=-1))
        last = np.flatnonzero(gains - _Z * errors >= -_TOLERANCE)[-1]
        if steps[last] ** 2 * self.prior < MIN_PREDICTED**2:
            return 0.0, 0.0
        return float(steps[last]), float(gains[last])


def line_search(
    held_out: HoldOut, start: Floats, direction: Floats, scales: Floats, error: float
) -> Generator[Ask, Estimate, tuple[float, float]]:
    """Return how far to go from a constant along a direction, and the explained share of variance.

    Each of two cohorts reports the gain of the step that is best according to what is known before.
    ``scales`` are the scales of residuals and of steps, and ``error`` is the standard error of
    their logarithms.
    """
    gains, step, (a, b) = Gains.of_scales(scales, error), 1.0, scales
    for name in ("first gain", "second gain"):
        cohort = held_out.cohorts[name]
        noise = math.sqrt(number_randomizer(held_out.epsilon, 1.0).variance / cohort.size)
        radius = float(np.clip(_GAIN_NOISE / noise, *_GAIN_RADII)) * 2 * step * a * b
        question = SquaredErrors(start + step * direction, start[0], -1.0, 1.0, 0.0)
        answer = yield Ask(cohort, question, number_randomizer(held_out.epsilon, radius))
        found = Number(float(answer.mean[0]), float(answer.std_error[0])).of_those(held_out.present)
        # A margin is added to the reports' own spread, for users who differ by about one product of
        # scales.
        users = b / a / math.sqrt(answer.count)
        unit = 2 * step * a * a
        half = Number(found.value / unit, math.hypot(found.std_error / unit, users))
        gains.add([1.0, -step / 2], half)
        step = gains.best_step()
    return gains.safe_step()
