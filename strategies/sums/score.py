"""Sizes of numbers whose scale is not known, and the R2 of a model, from noisy sums."""

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ldp_flower.questions import DistanceOctave, ErrorPair, OctaveShares, ResidualOctave
from ldp_flower.questions.model_sums import HALF
from ldp_flower.questions.sizes import OCTAVES, SMALLEST_OCTAVE
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from ..runtime.result import HALF_WIDTH_95
from .budget import Budget

#: Shares of the budget: for the size of the errors of a model, or of a constant; and for R2.
SIZE, R2 = 0.04, 0.12
_ABOVE = 4  # octaves above the most frequent one in which there may be users
# A size is computed from the numbers that a share of the users exceeds. The share is _CLEAR
# standard errors by noise, and between these two limits.
_CLEAR, _LEAST_BEYOND, _MOST_BEYOND = 5.0, 0.01, 0.3
# Smallest bound on errors in units of their size, and the bound over the cube root of the
# signal-to-noise ratio. The noise grows with the square of the bound, and what lies beyond it falls
# as the bound's inverse if numbers have three moments. Chosen on five distributions, judged on
# others.
_BOUND, _GROWTH = 2.5, 0.5
# Mean square beyond the bound over that between half the bound and the bound, if the share of
# errors beyond t falls as t to the power of -2.6.
_BEYOND = 2.0
# The 95 % quantile of a squared standard normal number, less its mean.
_FARTHER = 2.84
# Largest standard error by noise of a constant's loss, in units of this loss, with which a run
# starts. With 1.25 times the users for it, R2 was not known in 35 to 41 % of the runs, and below
# -.05 in 7 to 10 %, on 232 tables that nothing was chosen on (simulations/studies/unseen_tables).
_MAX_LOSS_ERROR = 0.25
# Largest excess of R2 on the users whom the model was fitted to, on tables not used for tuning.
_OPTIMISM = 0.015
_HIDDEN = (
    "R2 may be far lower: {:.0f} % of the squared errors may lie beyond the bound at which errors "
    "are clipped, or more. To know takes closer bounds (or the target's logarithm, if few targets "
    "are large), more users per node, fewer nodes or a larger epsilon."
)
_UNKNOWN = (
    "R2 is not known, since noise hides how far the target varies: the model may be no better than "
    "the mean. More users per node, fewer nodes or a larger epsilon would show."
)


class Score(NamedTuple):
    """R2 of a model over all users, its standard error, and notes on what is hidden.

    Both numbers are NaN, with a note, if noise hides how far the target varies.
    """

    r2: float
    error: float
    notes: list[str]


def ask_size(
    budget: Budget,
    question: ResidualOctave | DistanceOctave,
    share: float = SIZE,
    most: float = math.inf,
) -> Generator[Ask, Any, float]:
    """Ask for a histogram of users' numbers by octave; return the size of the numbers.

    Sums of these numbers are clipped at a multiple of it. It comes from the share of large numbers.
    It is the standard deviation of normal numbers with the same share of large ones. No number is
    larger than ``most``.
    """
    mechanism = budget.cells(OCTAVES, share)
    found: Estimate = yield budget.ask(OctaveShares(question), mechanism)
    highest = min(math.log2(most) - SMALLEST_OCTAVE, OCTAVES - 1)
    end = 1 + min(int(np.argmax(found.mean)) + _ABOVE, math.floor(highest))
    beyond = np.append(0.0, np.cumsum(found.mean[:end][::-1]))
    level = min(max(_CLEAR * float(found.std_error[0]), _LEAST_BEYOND), _MOST_BEYOND)
    octave = float(np.interp(level, np.maximum.accumulate(beyond), np.arange(end, -1, -1)))
    size = min(float(2.0 ** (octave + SMALLEST_OCTAVE)), most)
    return size / -float(ndtri(level / 2))


def ask_r2(
    budget: Budget,
    theta: Floats,
    offset: float,
    centre: float,
    sizes: tuple[float, float],
    present: float,
    most: float = math.inf,
    centre_error: float = 0.0,
) -> Generator[Ask, Any, Score]:
    """Ask for the squared errors of a model and of a constant, and return the model's R2.

    ``sizes`` has the size of the errors of the model and of the constant ``centre``. No error
    exceeds ``most``. ``present`` is the share of the users who have rows. The centre is an unbiased
    estimate of the mean, with the standard error ``centre_error``. Errors are clipped. The standard
    error includes how far R2 changes if errors are clipped at half their bounds, and how much lower
    it is if model and constant have the same heavy tail of clipped errors, or each its own, as far
    as noise does not explain their difference.
    """
    mechanism = budget.ball(4, ErrorPair.radius, R2)
    reach = max(_BOUND, _GROWTH / float(np.cbrt(budget.error(mechanism))))
    bounds = np.minimum(reach * np.minimum(sizes, sizes[1]), most)
    question = ErrorPair(theta, offset, centre, *bounds.tolist())
    found: Estimate = yield budget.ask(question, mechanism)
    noise = float(found.std_error[0])
    whole, half = found.mean.reshape(2, 2) / np.array([[1.0], [HALF]]) + present / 2
    # A centre beside the mean adds its squared distance to the constant's loss.
    beside = np.array([0.0, centre_error**2])
    losses, halves = whole * bounds**2 - beside, half * bounds**2 / 4 - beside
    own, baseline = max(float(losses[0]), 0.0), float(losses[1])
    error = _ratio_error(own, baseline, *(noise * bounds**2).tolist())
    if math.isnan(error):
        return Score(math.nan, math.nan, [_UNKNOWN])
    ratio = own / baseline
    # How much lower R2 is if that distance is as large as at the end of a 95 % interval. No model
    # is expected to be worse than the constant.
    least = max(baseline - _FARTHER * centre_error**2, own)
    by_centre = max(own / least - ratio, 0.0) / HALF_WIDTH_95 if own else 0.0
    notes, clipped = list[str](), 0.0
    if (bounds < most).any():
        noise_of_half = noise / HALF * bounds[1] ** 2 / 4
        own_half, constant_half = np.maximum(halves, 0.0).tolist()
        other = own_half / max(constant_half, noise_of_half, min(own_half, 2 * noise_of_half))
        beyond, of_constant = _BEYOND * np.maximum(losses - halves, 0.0)
        whole_constant = baseline + of_constant
        by_noise = _BEYOND * noise * np.hypot(1.0, 0.25 / HALF) * bounds**2
        excess = (own + beyond) / whole_constant - ratio
        excess -= math.hypot(by_noise[0], ratio * by_noise[1]) / whole_constant
        same_tail = (1 - ratio) * beyond / (baseline + beyond)
        clipped = math.hypot(other - ratio, max(same_tail, excess))
        if beyond > own / 2:
            notes.append(_HIDDEN.format(100 * beyond / (beyond + own)))
    # Squares of normal residuals vary by twice their squared mean; both losses are of one user.
    sampling = 2 * ratio / math.sqrt(max(found.count * present, 1))
    return Score(1 - ratio, math.hypot(error, sampling, clipped, by_centre, _OPTIMISM), notes)


def _ratio_error(own: float, baseline: float, own_noise: float, noise: float) -> float:
    """Return the standard error of a model's loss over a constant's, from the errors by noise.

    It is the distance to the upper end of Fieller's interval (1954), which holds for any ratio of
    two normal numbers. NaN if the constant's loss is not clearly above 0.
    """
    z = HALF_WIDTH_95
    clear = baseline**2 - (z * noise) ** 2
    if baseline <= 0 or clear <= 0:
        return math.nan
    root = (own * noise) ** 2 + (baseline * own_noise) ** 2 - (z * own_noise * noise) ** 2
    upper = (own * baseline + z * math.sqrt(root)) / clear
    return (upper - own / baseline) / z


def times_too_few(budget: Budget) -> float:
    """Return by what factor users are too few to tell a model's R2; at most 1 if they are enough.

    The loss of a constant is to have a standard error by noise of at most ``_MAX_LOSS_ERROR`` of
    itself.
    """
    return _BOUND**2 * budget.error(budget.ball(4, ErrorPair.radius, R2)) / _MAX_LOSS_ERROR
