"""Peeling DP-IHT for few silos with very many features: one joint model, or one per silo."""

import math
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ldp_flower.presentation import charts
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.sparse import keep_largest, project_on_ball
from ldp_flower.randomizers import Estimate, RecordPeeling
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, Floats, Positive, check_unused

from ..numerics.secant import Secant
from ..runtime import Ask, Card, Cohort, LinearResult, Protocol, Run, TooFewReports, ask_on
from .base import NO_PLAN_OF_TEACHERS, ClippedSilos, record_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# For classes, steps and stretch were chosen among 2 to 4 steps and stretches of 1.8 to 3.2, on 20
# seeds of eight settings.
_STEPS = {"identity": 5, "logistic": 2}
_MAX_STRETCH = 2.0  # largest factor on the coefficients of classes
# Bound on residuals of the squared loss: factor from step to step, and minimum in noise scales.
_SHRINKAGE = 0.5
_FLOOR = 0.5
_NOT_STEEP = (
    "Noise hides how much the gradient changes with the coefficients: coefficients may be many "
    "times too small. More records, a larger epsilon, or feature_variance would help."
)
_CONTRADICTED = (
    "The last step contradicts the first: both are noise, and zero is returned. More records or a "
    "larger epsilon are needed."
)


@dataclass(kw_only=True, eq=False, repr=False)
class PeelingDpIht(ClippedSilos):
    """Strategy for sparse regression from the largest coordinates of silos' noisy steps.

    Every silo is one user of a node. In every step it moves the current estimate along the gradient
    of its records. It reports the indices and the values of the largest coefficients, both with
    noise. So the noise affects as many coordinates as the estimate has, instead of all. It is for
    one silo or a few, since the selections of many silos do not average out.

    Other parameters are those of :class:`~.base.ClippedSilos`.

    Parameters
    ----------
    noise_scale : float, optional
        Standard deviation of the targets given the features, a public guess, for the squared loss
        only. By default half of ``target_scale``.
    feature_variance : float, optional
        Mean square of a feature: 1 for signs, 1/3 for uniform features. The step size is its
        inverse, or four times the inverse for the logistic loss. By default the first step assumes
        1. With the squared loss, the size of later steps follows from the last change of the
        gradient.
    num_steps : int, optional
        Number of steps. Every silo answers in each step. By default 5, or 2 for the logistic loss.

    Notes
    -----
    This is not from Wang & Xu (2019). It is the private hard thresholding of Cai, Wang & Zhang,
    "The cost of privacy" (2021), with Gumbel noise, tighter accounting and a decreasing clip. With
    a thousand features and a few thousand records, the dense noise of Wang & Xu (:class:`DpIht`)
    would hide all coefficients.

    With the squared loss residuals are clipped at 1.5 times ``target_scale`` in the first step. The
    clip is halved from step to step, down to half of ``noise_scale``. With the logistic loss
    residuals are always clipped at 1/2, which preserves the direction of the coefficients and
    changes their norm. At the end the coefficients are rescaled to the norm for which the model's
    gradient at zero, along the coefficients, equals that of the first step, if features are normal
    and independent.

    ``std_error`` covers the noise of the last step's values, the sampling error (from
    ``noise_scale``) and the remaining distance, extrapolated from the last two steps. It does not
    cover the selection of coefficients. It is NaN for classes, where the norm assumes normal
    features.
    """

    guarantee = record_guarantee("RecordPeeling")
    card = Card(
        question="sparse linear or logistic regression over silos",
        guarantee="(epsilon, delta)",
        rounds="5, for classes 2, all silos",
        report="8 a coefficient",
        use_when="features are very many and silos one or few",
        fails_when="over more than some 20 silos: over 50 its error is .24, that of `DpIht` .21",
        page="silos",
    )
    _audited: ClassVar = {"target_scale": 1.0}

    noise_scale: Positive | None = None
    feature_variance: Positive | None = None
    num_steps: Count | None = None

    _prior = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link == "logistic":
            check_unused(self, "with link='logistic'", "noise_scale")
        self._num_steps = self.num_steps or _STEPS[self.link]
        self.randomizer(self._first_bound)  # raises an error now if epsilon is invalid

    def residual_bounds(self) -> list[float]:
        """Return the bound at which residuals are clipped, for each step."""
        first, steps = self._first_bound, self._num_steps
        if self.target_scale is None:  # classes
            return [first] * steps
        floor = min(_FLOOR * (self.noise_scale or self.target_scale / 2), first)
        return [max(first * _SHRINKAGE**step, floor) for step in range(steps)]

    def randomizer(self, residual_bound: float) -> RecordPeeling:
        """Return the mechanism of a step with this bound on residuals."""
        bound = residual_bound * self.feature_bound
        return RecordPeeling(
            self.epsilon, self.dim, bound, self.delta, self._num_steps, self.sparsity
        )

    def protocol(self, run: Run) -> Protocol:
        """Query all silos for steps' largest coordinates, and return the coefficients."""
        theta, _, error = yield from self.descend(self.everyone(run))
        std_error = np.where(theta != 0, error, 0.0)
        notes = _zero_notes(theta)
        if self.link == "identity" and math.isnan(error):
            notes = [_NOT_STEEP]
        result = LinearResult(coef=theta, std_error=std_error, notes=notes)
        return result.with_support_note(self.sparsity)

    def descend(self, cohort: Cohort) -> Generator[Ask, Estimate, tuple[Floats, float, float]]:
        """Query a cohort step by step; return the coefficients and two of their errors.

        The first is the standard deviation of the noise that the last step added to a coefficient.
        The second is the whole standard error of a coefficient, or NaN if it is not known.
        """
        theta = first = np.zeros(self.dim)
        declared = self.feature_variance is not None
        usual = LINKS[self.link].curvature * (self.feature_variance or 1.0)
        line = Secant(usual, is_known=declared)
        last = error = 0.0
        for number, bound in enumerate(self.residual_bounds()):
            question = self._gradient(theta, bound, centre=-line.curvature * theta)
            moved = yield from ask_on(Ask(cohort, question, self.randomizer(bound)), number > 0)
            if moved is None:
                break
            named = moved.mean != 0
            gradient = np.where(named, moved.mean + line.curvature * theta, 0.0)
            noise = float(moved.std_error[0])
            if self.link == "identity" and not declared:
                line.learn(theta, gradient, named, noise)
            ahead = np.where(named, theta - gradient / line.curvature, 0.0)
            largest = keep_largest(ahead, self.sparsity)
            line.steps.append(largest - theta)
            theta = project_on_ball(largest, self.radius)
            records = math.sqrt(moved.count * self.randomizer(bound).variance) / noise
            last = noise / line.curvature
            error = self._error(line, last, records)
            if number == 0:
                first = largest
        if self.link == "logistic":
            theta = project_on_ball(self._stretch(theta, first) * theta, self.radius) + 0.0
        return theta, last, error

    def _error(self, line: Secant, noise: float, records: float) -> float:
        """Return a coefficient's standard error: noise, sampling and remaining distance.

        ``noise`` is the standard deviation of the last step's noise, and ``records`` the number of
        records of all silos. The error is NaN if it is not known.
        """
        if self.target_scale is None or not line.is_known:  # with classes, the norm is a guess
            return math.nan
        residual = self.noise_scale or self.target_scale / 2
        sampled = residual / math.sqrt(line.curvature * records)
        return float(np.linalg.norm([noise, sampled, line.left(noise, self.sparsity)]))

    def _stretch(self, theta: Floats, first: Floats) -> float:
        """Return the factor for the coefficients of classes, given the first step from zero.

        With normal features of variance V and true coefficients theta, the first step is ``theta /
        sqrt(1 + c)`` with ``c = pi V |theta|**2 / 8``. This is the usual approximation of the mean
        of a logistic function of a normal number. It is exact for small and for large theta.
        """
        length = float(np.linalg.norm(theta))
        if length == 0:
            return 1.0
        along = max(float(first @ theta) / length, 0.0)
        left = 1 - math.pi / 8 * (self.feature_variance or 1.0) * along**2
        return along / length / math.sqrt(max(left, _MAX_STRETCH**-2))


def _zero_notes(coef: Floats) -> list[str]:
    """Return a list with a note if the estimate is zero, or an empty list.

    It is zero, for example, if a step of classes contradicts the first one.
    """
    return [] if coef.any() else [_CONTRADICTED]


@dataclass(repr=False, kw_only=True)
class TransferResult(LinearResult):
    """A student model with the coefficients ``coef``, and its teachers.

    Attributes
    ----------
    teachers : ndarray of float64, shape (silos, dim)
        Models of the silos, in the random order in which they were trained.
    """

    teachers: Floats

    def table(self) -> "DataFrame":
        """Return the student's coefficients by name, with mean and spread over the teachers."""
        table = super().table()
        table["teachers' mean"] = self.teachers.mean(axis=0)
        table["teachers' standard deviation"] = self.teachers.std(axis=0)
        return table

    def _draw(self, axes: "Axes") -> None:
        super()._draw(axes)
        drawn = self._drawn
        for teacher in self.teachers:
            axes.plot(teacher[drawn], range(len(drawn)), ".", color=charts.GREY, alpha=0.4, ms=3)


@dataclass(kw_only=True, eq=False, repr=False)
class PeelingTransfer(PeelingDpIht):
    """Strategy that trains one private teacher per silo, for a few silos, and a sparse student.

    Every silo is one user of a node. One silo after the other trains a teacher by private hard
    thresholding, as in :class:`PeelingDpIht` with a single silo. The student keeps the coefficients
    that are largest over all teachers. Each is averaged over the teachers in which it is not zero.
    Use it for silos that may differ, or to get a model of each silo. For one joint model, use
    :class:`PeelingDpIht`, which has fewer rounds.

    Parameters are those of :class:`PeelingDpIht`, for each silo's teacher.

    Notes
    -----
    Source: the setting is that of Wang & Gu, "A Knowledge Transfer Framework for
    Differentially Private Sparse Learning", AAAI 2020, for several silos. The guarantee of peeling
    replaces theirs, which is false in general (``docs/silos.md``). The bounded quantity is the same
    as theirs: one record's gradient in each coordinate.

    There are ``num_steps`` rounds for each silo. The result, a :class:`TransferResult`, has the
    silos' models as ``teachers``.
    """

    card = Card(
        question="a sparse model of silos' own models",
        guarantee="(epsilon, delta)",
        rounds="5 for each silo, for classes 2",
        report="8 a coefficient",
        use_when="silos are few",
        fails_when="with few records: 800 in one silo leave a relative error of .26 at epsilon 2, "
        "and 20 such silos .11",
        page="silos",
    )
    no_plan = NO_PLAN_OF_TEACHERS

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return a TooFew if ``min_reports`` is not 1, or None: each step queries one silo."""
        if self.min_reports == 1:
            return super()._refusal(num_users)
        why = f"Every step asks one silo: min_reports = {self.min_reports} cannot be reached."
        return TooFew(why, "cohorts")

    def protocol(self, run: Run) -> Protocol:
        """Train one teacher per silo, and return the student that learns from them."""
        found: list[tuple[Floats, float, float]] = []
        for silo in run.cohorts([1] * run.num_users):
            with suppress(TooFewReports):  # the student uses the other silos' teachers
                found.append((yield from self.descend(silo)))
        if not found:
            raise TooFewReports(TooFew("No silo has answered.", "answers"))
        teachers, noises, errors = map(np.array, zip(*found, strict=True))
        # A teacher's noise is inversely proportional to its silo's number of records.
        weights = 1 / noises[:, None]
        kept = teachers != 0
        total, weight = (weights * teachers).sum(axis=0), (weights * kept).sum(axis=0)
        student = keep_largest(total, self.sparsity) / np.maximum(weight, weights.min())
        squares = np.where(kept, (weights * errors[:, None]) ** 2, 0.0).sum(axis=0)
        spread = np.sqrt(squares) / np.maximum(weight, weights.min())
        std_error = np.where(student != 0, spread, 0.0)
        return TransferResult(
            coef=student, std_error=std_error, teachers=teachers, notes=_zero_notes(student)
        )
