"""LDP-IHT for users with one record each, without prior knowledge of features and targets."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ldp_flower.questions import (
    ColumnMeans,
    DistanceOctave,
    Gradient,
    Octave,
    ResidualOctave,
    Squares,
    Standardised,
)
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import ball_codebook
from ldp_flower.validation import Floats

from ..numerics.denoising import drawn_together
from ..numerics.zero_of_line import LEFT, Zero, largest_noise
from ..runtime import Ask, Cohort, LinearResult, Run, TooFewReports
from ..runtime.coefficients import support_notes
from ..subprotocols.holdout_r2 import FEW_CARRY, R2HoldOut, predictor
from ..subprotocols.octaves import ask_size, size_askers
from ..subprotocols.shortening import ShortenedMean, ask_shortened
from .line_of_steps import LineOfSteps, z_scores

_SIZES, _MEANS, _SQUARES = 0.05, 0.05, 0.04  # largest shares of the users, for each question
_MOST_MEANS = 3  # largest number of cohorts that report means
# Means are precise enough if their mean square error, times the sparsity, is at most this multiple
# of a feature's variance.
_COUPLED = 0.25
# Clipping radius of a row and a target together, each in units of its estimated size.
_MEANS_RADIUS = 1.25 * math.sqrt(2)
_SQUARES_RADIUS = 1.75  # clipping radius of squares, over the length of equal squares
# Number of steps. From step _LAST on, steps may ask about candidate features only; the last quarter
# of the steps always does.
_STEPS, _LAST = 12, 4
_CLIP = 0.75  # clipping radius of a gradient over its estimated size
_CLASSES = 0.6  # initial size of a class's residual; at coefficients of zero all are 1/2
# Clipping draws the coefficients of classes away from zero. If the share of gradients that were not
# clipped is below _WHOLE, the radius grows by the factor _WIDER.
_WHOLE, _WIDER = 0.95, 1.3
# Curvature of the loss with classes: .25 if all probabilities are one half, .12 if they are spread
# over 0 to 1.
_CURVATURE = 0.18
_RARE = 0.02  # smallest share of a class
_CURVATURES = 0.35  # relative error of a feature's variance, given the common error
_LAW_ERROR = 0.25  # prior error of the share of gradients that normal numbers would leave unclipped
_MIN_RATIO = 0.1  # smallest variance over its estimate
# Steps are restricted to candidates if all selected coefficients exceed this many standard errors,
# and exceed the next coefficient by this many.
_SUPPORT_Z, _SUPPORT_GAP_Z = 8.0, 3.0
# Largest ratio of the explained variance to the variance that the coefficients would explain with
# uncorrelated features. Coefficients that are half as large as they should be give 3; so do four
# equal coefficients whose features are correlated by .67.
_TOO_SMALL = 3.0

_NOT_BETTER = (
    "On held-out users the model is not better than the targets' mean (R2 {:.2f}, give or take "
    "{:.2f}): the errors of its coefficients are not known."
)
_SMALL = (
    "On held-out users the model explains {:.0f} times as much as its coefficients would with "
    "uncorrelated features: few users have most of the features' size, or features are strongly "
    "correlated. The errors of its coefficients are not known."
)


def users_for_sizes(epsilon: float) -> int:
    """Return the smallest number of users with whom LDP-IHT runs for one record per user.

    A twentieth of them report the lengths of their rows, and as many others the sizes of their
    targets. The typical sizes are then known to a factor of about 1.3.
    """
    return math.ceil(size_askers(epsilon) / (2 * _SIZES))


class OneRecord:
    """One run of LDP-IHT for users with one record each.

    ``dim`` is the number of features, ``sparsity`` the largest number of coefficients, and ``link``
    a key of :data:`~ldp_flower.questions.links.LINKS`. Coefficients are kept in units of
    predictions, see :class:`~.line_of_steps.LineOfSteps`.
    """

    def __init__(self, run: Run, dim: int, sparsity: int, link: str) -> None:
        self._run, self._dim, self._sparsity = run, dim, sparsity
        self._name, self._link = link, LINKS[link]
        self._numbers = self._link.largest_score == math.inf  # False: targets are classes
        self._curvature = self._link.curvature if self._numbers else _CURVATURE
        # With classes, gradients are not linear in the coefficients.
        self._steps = LineOfSteps(sparsity, LEFT if self._numbers else LEFT[-2:])
        self._asked = np.arange(dim)  # features in the next gradients
        self._centre = np.zeros(dim)  # estimated mean of the rows
        self._mean = 0.0  # estimated mean of the targets

    def protocol(self) -> Generator[Ask, Any, LinearResult]:
        """Estimate means and variances, take the steps, and return the evaluated model."""
        yield from self._learn_moments()
        held_out = R2HoldOut(self._run, self._name)
        self._model = np.zeros(self._dim + 1)
        if self._numbers:
            self._model[-1] = predictor(self._mean, self._name)
        self._size = self._target * math.sqrt(self._curvature) if self._numbers else _CLASSES
        zero: Zero | None = None
        for step in range(_STEPS):
            (cohort,) = self._run.cohorts([self._run.num_unasked // (_STEPS - step)])
            try:
                zero = yield from self._step(cohort)
            except TooFewReports:
                if zero is None:
                    raise
                break
            clear = step + 1 >= _LAST and self._is_clear(zero)
            if clear or step + 1 == _STEPS - _STEPS // _LAST:
                few = keep_largest(z_scores(zero)[self._asked], min(2 * self._sparsity, self._dim))
                self._asked = self._asked[few > 0]
        assert zero is not None
        return (yield from self._result(zero, held_out))

    def _cohort(self, share: float, most: float = math.inf) -> Cohort:
        """Return a cohort of this share of the users, or of ``most`` users if that is smaller."""
        size = max(min(share * self._run.num_users, most), self._run.min_reports)
        return self._run.cohorts([math.ceil(size)])[0]

    # ---------------------------------------------------------------- means and variances

    def _ask_size(self, question: Octave, degrees: float) -> Generator[Ask, Any, float]:
        """Query a cohort for the octaves of its sizes; return the root mean square size."""
        epsilon = self._run.epsilon
        cohort = self._cohort(_SIZES, size_askers(epsilon))
        return (yield from ask_size(cohort, question, epsilon, degrees)).value

    def _ask_sizes(self) -> Generator[Ask, Any, None]:
        """Estimate how far rows and targets typically are from their means, each from a cohort."""
        self._length = yield from self._ask_size(DistanceOctave(self._centre), math.inf)
        question = ResidualOctave(np.zeros(self._dim), self._mean)
        self._target = yield from self._ask_size(question, 1.0)

    def _learn_moments(self) -> Generator[Ask, Any, None]:
        """Estimate the means of rows and targets, in rounds, then the features' variances."""
        dim, run = self._dim, self._run
        mechanism = ball_codebook(run.epsilon, dim + 1, _MEANS_RADIUS)
        precision, weighted = np.zeros(dim + 1), np.zeros(dim + 1)
        yield from self._ask_sizes()
        for _ in range(_MOST_MEANS):
            units = np.append(np.full(dim, self._length), self._target)
            centres = np.append(self._centre, self._mean)
            question = Standardised(ColumnMeans(np.zeros(dim + 1)), centres, units)
            answer = yield Ask(self._cohort(_MEANS), question, mechanism)
            weights = answer.count / (mechanism.variance * units**2)
            precision += weights
            weighted += weights * (centres + units * answer.mean)
            *found, self._mean = weighted / precision
            self._centre, error = drawn_together(np.array(found), 1 / float(precision[0]))
            yield from self._ask_sizes()
            each = self._length**2 / dim
            if self._sparsity * error <= _COUPLED * max(each - error, _MIN_RATIO * each):
                break
        radius = _SQUARES_RADIUS * self._length**2 / math.sqrt(dim)
        mechanism = ball_codebook(run.epsilon, dim, radius)
        answer = yield Ask(self._cohort(_SQUARES), Squares(self._centre), mechanism)
        squares, _ = drawn_together(answer.mean, mechanism.variance / answer.count)
        squares = np.maximum(squares, _MIN_RATIO * max(float(squares.mean()), _MIN_RATIO * each))
        variances = squares * (self._length**2 / squares.sum())
        self._scales = np.sqrt(np.maximum(variances - error, _MIN_RATIO * variances))
        self._constant = self._length / math.sqrt(dim)

    # ---------------------------------------------------------------- steps

    @property
    def _coef(self) -> Floats:
        return np.asarray(self._model[:-1] / self._scales)

    @property
    def _offset(self) -> float:
        """Prediction for a row of zeros in the users' own units."""
        return float(self._model[-1] - self._centre @ self._coef)

    @property
    def _radius(self) -> float:
        """Euclidean length to which users clip the gradients that they report."""
        every = len(self._asked) == self._dim
        rows = self._length if every else float(np.linalg.norm(self._scales[self._asked]))
        clip = _CLIP if self._numbers else 1.0
        return clip * self._size * math.hypot(rows, self._constant)

    def _step(self, cohort: Cohort) -> Generator[Ask, Any, Zero]:
        """Query a cohort for its gradients; return the point at which the fitted gradient is 0.

        The model moves to this point.
        """
        asked, curvature = self._asked, self._curvature
        question = Gradient(
            self._coef,
            asked,
            feature_centre=self._centre,
            offset=self._offset,
            constant=self._constant,
            link=self._name,
        )
        epsilon, dim = self._run.epsilon, len(asked) + 1
        answer = yield from ask_shortened(cohort, question, dim, self._radius, epsilon)
        whole = believed_share(answer) if self._numbers else 1.0
        if not (self._numbers or self._steps.positions):
            self._learn_classes(answer.mean[-1] / self._constant)
        units = np.append(self._scales[asked], self._constant) * curvature
        direction, noise = -answer.mean / units, answer.std_error / units
        # A direction cannot explain more than the residuals' whole size.
        reach = math.sqrt(max(float(direction @ direction - noise @ noise), 0.0))
        factor = max(whole, min(reach * curvature / self._size, 1.0))
        self._steps.add(self._model, asked, direction / factor, (noise / factor) ** 2)
        zero = self._steps.zero(np.append(np.full(self._dim, _CURVATURES), 0.0))
        moved = self._steps.kept(zero, asked, largest_noise(self._dim))
        if self._numbers:
            # new size: that of normal numbers of which the share ``whole`` is not clipped
            self._size *= _CLIP / float(ndtri((1 + whole) / 2))
        elif answer.whole < _WHOLE:
            self._size = min(_WIDER * self._size, self._link.largest_score)
        self._model = moved
        return zero

    def _learn_classes(self, score: float) -> None:
        """Set the estimated share of class 1, from the mean score of a model that predicts 1/2."""
        self._mean = min(max(0.5 - score, _RARE), 1 - _RARE)
        self._target = math.sqrt(self._mean * (1 - self._mean))

    def _is_clear(self, zero: Zero) -> bool:
        """Return True if the support is certain: significant, and clearly above all others."""
        clear = np.append(np.sort(z_scores(zero)[self._asked])[::-1], 0.0)
        weakest, following = clear[self._sparsity - 1 : self._sparsity + 1]
        return bool(weakest > max(_SUPPORT_Z, following + _SUPPORT_GAP_Z))

    # ---------------------------------------------------------------- result

    def _result(self, zero: Zero, held_out: R2HoldOut) -> Generator[Ask, Any, LinearResult]:
        """Query the held-out users for their residuals and return the result."""
        self._model = self._steps.kept(zero, self._asked)
        coef = self._coef
        notes = support_notes(z_scores(zero)[self._asked], self._sparsity)
        # The error of an omitted coefficient includes its estimated size.
        left_out = np.where(coef != 0, 0.0, zero.place[:-1])
        std_error = np.hypot(zero.std_error[:-1], left_out) / self._scales
        r2 = yield from held_out.r2(coef, self._offset, self._mean, self._target)
        if not r2.is_positive:
            known = math.isfinite(r2.value)
            notes.append(_NOT_BETTER.format(r2.value, 2 * r2.error) if known else FEW_CARRY)
            std_error = np.full(self._dim, np.nan)
        elif self._link is LINKS["identity"]:
            said = float(np.sum(self._model[:-1] ** 2)) / r2.target_size**2
            if r2.value - 2 * r2.error > _TOO_SMALL * said:
                notes.append(_SMALL.format(r2.value / said))
                std_error = np.full(self._dim, np.nan)
        return LinearResult(
            coef=coef,
            std_error=std_error,
            intercept=self._offset,
            r2=r2.value,
            r2_error=r2.error,
            notes=notes,
        )


def believed_share(answer: ShortenedMean) -> float:
    """Return an estimate of the share of gradients that were not clipped, from 0.2 to 0.98.

    By this share clipping shortens the mean gradient. The estimate is a weighted mean of the
    reported share and of the share among normal numbers.
    """
    reported, law = answer.whole_error**-2, _LAW_ERROR**-2
    usual = float(2 * ndtr(_CLIP) - 1)
    share = (reported * answer.whole + law * usual) / (reported + law)
    return float(np.clip(share, 0.2, 0.98))
