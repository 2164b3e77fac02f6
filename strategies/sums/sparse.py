"""Sparse linear regression from noisy sums, for features and targets of any scale."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import DistanceOctave, Mean, Moments, ResidualOctave, RidgeMove, Squares
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.denoising import drawn_together
from ..runtime import Ask, LinearResult, Run, TooFewReports
from . import score
from .budget import Budget
from .descent import STEPS, descend
from .newton import ask_step
from .statistics import ask_means

# Shares of the budget: of a size, of means and of squares, and of the three parts of the fit.
_SIZE, _MEAN, _SQUARES = 0.02, 0.03, 0.05
_EVERY, _CANDIDATES, _STEP = 0.3, 0.16, 0.13
_PLACES = 2  # number of times that sizes and means are asked, each time around the last means
_ROOM = 2.0  # bound on vectors, in units of their size
_WITHIN = 4.0  # distance of the targets' bounds from their last mean, in units of their size
_LEAST_VARIANCE = 0.1  # smallest variance of a feature, over the mean variance of all features
# Smallest signal-to-noise ratio of a coefficient in one mean, if the coefficients explain half.
_LEAST_SIGNAL = 4.0
_STANDS_OUT = 3.0  # smallest coefficient that is kept, over the noise of the first descent
_LEAST_REACHED = 0.1  # smallest share of a coefficient that the first descent is assumed to reach
_NORMAL_MEDIAN = 0.6745  # median of the absolute value of a standard normal number
_NOT_BETTER = (
    "The model may predict no better than the targets' mean: R2 is {:.2f}, with an error (two "
    "standard errors) of {:.2f}. More users per node, fewer nodes or a larger epsilon would reduce "
    "the error."
)
_NO_ERRORS = (
    "Standard errors are not known: noise hides how the features that are kept vary together. More "
    "users per node, fewer nodes or a larger epsilon would show."
)


Places = NDArray[np.int64]


@dataclass(frozen=True)
class MeansAndScales:
    """Means and scales of the features and, last, the target; the share of users with rows."""

    means: Floats
    scales: Floats
    present: float


def too_few(budget: Budget, dim: int, sparsity: int | None) -> TooFew | None:
    """Return why users are too few to find the coefficients; None if they are enough.

    If the sparsity is not known, they are enough if they find one coefficient.
    """
    least = sparsity or 1
    signal = budget.signal(_EVERY) / (2 * math.sqrt(dim * least))
    times = max(_LEAST_SIGNAL / signal, score.times_too_few(budget))
    return budget.too_few(f"find {least} of {dim} coefficients", math.ceil(times * budget.users))


def ask_scales(budget: Budget, dim: int, rows: int) -> Generator[Ask, Any, MeansAndScales]:
    """Ask for noisy sums, and return means and scales by which a fit standardises its columns.

    They are those of ``dim`` features and of the target. ``rows`` is the typical number of a user's
    rows.
    """
    means, size, mean, of_target, present = np.zeros(dim), 0.0, 0.0, 0.0, 1.0
    for _ in range(_PLACES):
        size = yield from score.ask_size(budget, DistanceOctave(means), _SIZE)
        mechanism = budget.ball(dim, _ROOM * size, _MEAN)
        found: Estimate = yield budget.ask(Mean(means), mechanism)
        means = means + found.mean
        question = ResidualOctave(np.zeros(dim), mean)
        of_target = yield from score.ask_size(budget, question, _SIZE)
        ends = mean - _WITHIN * of_target, mean + _WITHIN * of_target
        moments = Moments(np.array([dim]), np.zeros(0), *ends)
        targets, _ = yield from ask_means(budget, moments, _MEAN)
        mean = ends[0] + (ends[1] - ends[0]) * float(targets.mean[0])
        present = float(np.clip(targets.share[0], targets.share_error[0], 1.0))
    radius = _ROOM**2 * rows * size**2 / math.sqrt(dim)
    found = yield budget.ask(Squares(means), budget.ball(dim, radius, _SQUARES))
    squares, _ = drawn_together(found.mean, float(found.std_error[0]) ** 2)
    squares = np.maximum(squares, _LEAST_VARIANCE * max(float(squares.mean()), radius / dim**2))
    return MeansAndScales(np.append(means, mean), np.append(np.sqrt(squares), of_target), present)


def regress_sparsely(
    run: Run, dim: int, sparsity: int | None, rows: int, delta: float
) -> Generator[Ask, Any, tuple[LinearResult, Floats]]:
    """Return the linear model of the largest coefficients, by iterative hard thresholding.

    A descent over all features keeps the ``2 * sparsity`` largest coefficients, and a second
    descent over these keeps the ``sparsity`` largest, in units of the features' scales. A step by
    the normal equations of the features that are left leads to least squares. If the sparsity is
    None, it is the number of coefficients that are larger than the noise of the first descent. This
    noise is measured by the median of all coefficients, most of which are assumed to be zero.
    ``rows`` is the typical number of a user's rows. The second value returned is the features'
    scales over the targets' scale. A coefficient times this ratio has no unit.
    """
    budget = Budget.of(run, delta)
    if refusal := too_few(budget, dim, sparsity):
        raise TooFewReports(refusal)
    run.planned_steps = 2 * STEPS + 4 * _PLACES + 5
    columns = yield from ask_scales(budget, dim, rows)
    means, scales = columns.means[:-1], columns.scales[:-1]
    centre, unit = float(columns.means[-1]), float(columns.scales[-1])

    def descended(coef: Floats, asked: Places, share: float) -> Generator[Ask, Any, Floats]:
        def moves(own: Floats) -> RidgeMove:
            theta = np.zeros(dim)
            theta[asked] = own
            return RidgeMove(theta, means, scales, centre, asked)

        found = np.zeros(dim)
        found[asked] = yield from descend(budget, coef[asked], moves, share, unit=unit)
        return found

    every = yield from descended(np.zeros(dim), np.arange(dim), _EVERY)
    noise = float(np.median(np.abs(every))) / _NORMAL_MEDIAN
    kept = sparsity or max(int(np.sum(np.abs(every) > _STANDS_OUT * noise)), 1)
    likely = np.flatnonzero(keep_largest(every, min(2 * kept, dim)))
    coef = keep_largest((yield from descended(every, likely, _CANDIDATES)), kept) / scales
    offset, support = centre - float(means @ coef), np.flatnonzero(coef)
    size = yield from score.ask_size(budget, ResidualOctave(coef, offset), score.SIZE)
    step = yield from ask_step(budget, (coef, offset), (means, scales), support, size, _STEP)
    notes, std_error = [], np.full(dim, np.nan)
    if step.is_known:
        move = step.move[:-1] / scales[support]
        coef[support] += move
        offset += float(step.move[-1] - means[support] @ move)
        std_error[support] = np.sqrt(np.diag(step.covariance)[:-1]) / scales[support]
    else:
        notes.append(_NO_ERRORS)
    # The first descent reached only a part of each coefficient. So noise may have hidden larger
    # coefficients among those left out.
    large = coef[support] * scales[support]
    reached = max(float(every[support] @ large) / float(large @ large), _LEAST_REACHED)
    left_out = coef == 0
    std_error[left_out] = noise / reached / scales[left_out]
    sizes = size, unit
    r2, error, doubts = yield from score.ask_r2(
        budget, coef, offset, centre, sizes, columns.present
    )
    notes += doubts
    if r2 < 2 * error:
        notes.append(_NOT_BETTER.format(r2, 2 * error))
    result = LinearResult(
        coef=coef, std_error=std_error, intercept=offset, r2=r2, r2_error=error, notes=notes
    )
    return result.with_support_note(sparsity) if sparsity else result, scales / unit
