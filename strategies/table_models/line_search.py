"""How far to go from the mean to a model, by users who had no part in it."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp_flower.questions import SquaredErrors
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort
from ..subprotocols.scales import number_randomizer
from .holdout import Number

# Radius of a user's gain, in products of scales, and the noise that allows a larger one.
_GAIN_RADII, _GAIN_NOISE = (0.75, 8.0), 0.12
# R2 that a step may cost at most in 98 of 100 runs, for a normal error. With .02 2 % of the runs
# at epsilon 1 and 2 were worse than -.05 by slopes, and with 0 most models were the mean.
_TOLERANCE, _Z = 0.01, 2.05
_MAX_STEP = 3.0  # over the descent's own
_STEP_SPREAD = 0.4  # of the best step around 1, the descent's own
_MIN_CURVATURE = 0.3  # over what scales let one expect: less is noise
MIN_PREDICTED = 0.1  # of the targets' sd that predictions vary by: less explains 1 % at most


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
        if steps[last] ** 2 * self.prior < MIN_PREDICTED**2:
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
