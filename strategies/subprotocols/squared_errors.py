"""What PrivateEvaluation asks of a user: one number about its squared errors."""

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ldp_flower.guarantee.questions import SquaredErrors
from ldp_flower.randomizers import Codebook, Estimate, RandomizedResponse, Randomizer
from ldp_flower.validation import Floats

from ..runtime.exchange import Ask
from ..runtime.population import Cohort

_MOST_RADIUS = 6.0  # of a difference, in units of the baseline


@dataclass(frozen=True)
class LossEstimate:
    """A cohort's estimate: ``weights`` times the mean loss and the mean baseline, added up."""

    weights: tuple[float, float]
    value: float
    std_error: float


def number_randomizer(epsilon: float, radius: float) -> Randomizer:
    """Return the mechanism for a number in ``[-radius, radius]``, whichever is less noisy."""
    candidates = (RandomizedResponse(epsilon, radius), Codebook(epsilon, 1, radius))
    return min(candidates, key=lambda mechanism: mechanism.variance)


def clip_radius(epsilon: float, cohort: Cohort, noise: float, least: float) -> float:
    """Return where to clip differences, in units of the baseline.

    As wide as a standard error of ``noise`` allows, but within ``least`` and 6: clipping keeps
    the sign of a difference, and hides how bad a model is for users whom it serves worst.
    """
    per_unit = math.sqrt(number_randomizer(epsilon, 1.0).variance / cohort.size)
    return float(np.clip(noise / per_unit, least, _MOST_RADIUS))


def ask_squared_errors(
    cohort: Cohort,
    coef: Floats,
    randomizer: Randomizer,
    weights: tuple[float, float],
    centre: float,
    offset: float = 0.0,
) -> Generator[Ask, Estimate, LossEstimate]:
    """Ask for a weighted sum of the mean loss and the mean baseline.

    The loss is a user's mean squared residual, the baseline its mean squared deviation from
    the centre. Clients clip the sum to ``offset`` plus and minus the randomizer's radius.
    """
    answer = yield Ask(cohort, SquaredErrors(coef, centre, *weights, offset), randomizer)
    return LossEstimate(weights, offset + float(answer.mean[0]), float(answer.std_error[0]))
