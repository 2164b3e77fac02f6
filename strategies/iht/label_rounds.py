"""One run of Label-LDP-IHT: the distribution of labels, then rounds of labels and residuals.

A residual is a label minus its prediction by the current estimate.
"""

import math
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from scipy.optimize import brentq

from ldp_flower.questions import Labels, ResidualOctave
from ldp_flower.questions.sparse import project_on_ball
from ldp_flower.randomizers import GaussianMechanism, HybridMechanism, Randomizer
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..numerics.denoising import attenuation, clipped_square
from ..runtime import Ask, LinearResult, Run, TooFewReports
from ..runtime.coefficients import Method
from ..subprotocols.laws_of_size import LawOfSizes, ask_law
from ..subprotocols.octaves import ask_larger, size_askers
from .label_fit import LabelFit, NoisyLabels

# The number of rounds and the clip were chosen among 2 to 12 rounds and clips of .5 to 2.2. They
# were the best, or within 10 % of it, in 24 synthetic settings (epsilon .7 to 4; 500 to 8,000
# users; 20 to 200 features; normal and heavy-tailed noise).
_ROUNDS, _FIRST_SHARE = 8, 0.3  # number of rounds; share of the users in the first one
# Default shares of the users who report on the distribution of labels, and on that of the residuals
# of the first round; and the largest number of these users, over the number that an estimate of a
# size needs.
_SIZES_SHARE, _SECOND_SHARE, _MOST_ASKERS = 0.1, 0.05, 8
_CLIP = 0.75  # bound for residuals that are distributed around 0, over their root mean square
_WIDE_BOUNDS = 2.0 ** np.arange(-1, 6.25, 0.25)  # candidate bounds for all other residuals, too
_GUESS = 0.5  # error of a scale's logarithm above which a note calls the scale a guess
_MAX_KNOWN_ERROR = 0.25  # error of a scale's logarithm up to which it may contradict another scale
_CONTRADICTION_RATIO = 1.5  # factor between two estimates of a scale from which they contradict
# Number of standard errors of the share of labels beside two classes from which these labels are
# numbers. A smaller share is in the errors of the coefficients.
_CONTRADICTION_Z = 3.0
_MOSTLY = 0.9  # share of labels that are not 0 from which classes are taken as -1 and 1
_GUESSED = (
    "The scale of the labels, {:.2g}, is a guess: more users, a larger scale_share or a "
    "declared label_bound are needed."
)
_MAX_PRECISE_ERROR = 0.1  # relative error of a scale below which it replaces an earlier estimate
_MAX_CORRECTION = 4.0  # largest factor by which an earlier estimate is corrected
_RESIDUAL_Z = 4.0  # number of standard errors of a significant coefficient of a round's residuals
_FAR = (
    "The last round still changes coefficients by more than their errors: few users have most of "
    "the labels' total size, which clipping hides, and the errors of coefficients are not known."
)
_NO_FEATURES = (
    "Only {:,} of the reports have features that are finite and not all 0. Users without a row "
    "send zeros: do the nodes load the features?"
)
_NOTHING = "No coefficient exceeds the noise: all coefficients are returned as 0."


@dataclass(frozen=True)
class _Clip:
    """Bound at which users clip the residuals that they report, and the effect of clipping."""

    bound: float
    # Root mean square of residuals that are distributed around 0; the clipping is then corrected.
    around_zero: float | None = None
    beyond: float = 0.0  # uncorrected share of the residuals' total size that clipping removes
    narrow: bool = False  # True if the bound is below the residuals' root mean square
    whole: bool = False  # True if users report labels within the declared bound, not residuals


class LabelSettings(Protocol):
    """Settings of a run: the arguments of :class:`~.label_ldp_iht.LabelLdpIht`."""

    dim: int
    sparsity: int
    epsilon: float
    method: Method
    solver: Literal["iht", "lasso"]
    label_bound: float | None
    scale_share: float | None
    radius: float

    def randomizer(self, bound: float) -> Randomizer:
        """Return the mechanism that randomises a label in [-bound, bound]."""


class LabelRounds:
    """One run of a :class:`~.label_ldp_iht.LabelLdpIht`."""

    def __init__(self, run: Run, strategy: LabelSettings) -> None:
        self._run, self._strategy = run, strategy
        self._most = strategy.label_bound or math.inf
        self._is_printed = strategy.method == "paper"
        self._shows_residuals = not self._is_printed and has_known_noise(strategy.randomizer(1.0))
        self._coef, self._offset = np.zeros(strategy.dim), 0.0
        self._known = NoisyLabels.none(strategy.dim)
        self._fit: LabelFit
        self._still_moves = False  # True if the last round found significant coefficients

    def protocol(self) -> Generator[Ask, Any, LinearResult]:
        """Query for the distribution of labels, then in rounds for labels; return the result."""
        self._notes: list[str] = []
        clip, law = _Clip(self._most), None
        if size := self._num_label_askers():
            law = yield from self._ask_law(size)
            checkers = min(size, self._run.num_unasked // 4)  # most users report their class
            if law.are_classes and not self._is_printed and checkers >= self._run.min_reports:
                offset = 0.0 if law.mean > _MOSTLY else 1.0
                other, error = yield from self._ask_other_classes(checkers, offset)
                if other < _CONTRADICTION_Z * error:
                    self._offset = offset / 2
                    beyond = (max(other, 0.0) + error) / law.mean
                    return (yield from self._of_classes(_Clip(1 - self._offset, beyond=beyond)))
            if self._most == math.inf:
                clip = self._first_clip(law)
                if law.spread > _GUESS:
                    self._notes.append(_GUESSED.format(law.root_mean_square))
        first, *others = self._round_sizes()
        yield from self._round(first, clip)
        if others and law is not None:
            with suppress(TooFewReports):  # the earlier rounds suffice for an estimate
                yield from self._later_rounds(law, len(others))
        return self._result()

    def _later_rounds(self, first: LawOfSizes, rounds: int) -> Generator[Ask, Any, None]:
        """Query for residuals in several rounds, and update the fit after each.

        Before these rounds, users report on the residuals' distribution. They do not if the first
        round found no coefficients of labels that are not around 0: the residuals are then labels
        minus a constant, whose size would be that of most users if most labels are 0.
        """
        law, residual = first, self._fit.residual
        if not residual:
            return  # the reports are all alike, so few have features
        size = self._num_residual_askers() if self._coef.any() or first.is_around_zero else 0
        if size:
            law = yield from self._ask_law(size)
            ratio = law.root_mean_square / residual if law.spread < _MAX_KNOWN_ERROR else 1.0
            if ratio > _CONTRADICTION_RATIO:  # the first round's bound was too small
                self._known = NoisyLabels.none(self._strategy.dim)
            if max(ratio, 1 / ratio) > _CONTRADICTION_RATIO:
                residual = law.root_mean_square
        is_around_zero = law.is_around_zero and first.may_have_a_mean
        if not is_around_zero:
            self._known = self._known.uncorrected()
        for left in range(rounds, 0, -1):
            if is_around_zero:
                bound = min(_CLIP * residual, self._most)
                clip = _Clip(bound, around_zero=residual, narrow=True)
            else:
                clip = self._wide(law, self._signal)
            yield from self._round(self._run.num_unasked // left, clip)
            if is_around_zero and self._fit.is_askew:
                is_around_zero = False
                self._known = self._known.uncorrected()
            elif is_around_zero:
                self._known = self._known.on_one_scale(self._fit.scale)
            residual = self._fit.residual

    def _ask_other_classes(
        self, size: int, offset: float
    ) -> Generator[Ask, Any, tuple[float, float]]:
        """Query a cohort for the sizes of labels minus an offset, which is 1 for labels 0 and 1.

        Return the share of users whose label is neither of the two classes, and its standard
        error. The sizes of the labels themselves do not tell -1 from 1.
        """
        (cohort,) = self._run.cohorts([size])
        question = ResidualOctave(self._coef, offset)
        return (yield from ask_larger(cohort, question, self._strategy.epsilon))

    def _of_classes(self, clip: _Clip) -> Generator[Ask, Any, LinearResult]:
        """Query all remaining users for their class, and return the fit."""
        yield from self._round(self._run.num_unasked, clip)
        return self._result()

    # ---------------------------------------------------------------- distribution of residuals

    def _num_label_askers(self) -> int:
        """Return how many users report on the labels' distribution, before the first round.

        It is 0 if a declared bound makes this unnecessary.
        """
        if self._most < math.inf:
            return self._num_residual_askers() if self._shows_residuals else 0
        if self._strategy.scale_share is not None:
            return round(self._strategy.scale_share * self._run.num_users)
        most = _MOST_ASKERS * size_askers(self._strategy.epsilon)
        return min(round(_SIZES_SHARE * self._run.num_users), most)

    def _num_residual_askers(self) -> int:
        """Return how many users report on the residuals' distribution, after the first round.

        It is 0 if they would be too few for an estimate.
        """
        askers = size_askers(self._strategy.epsilon)
        size = min(round(_SECOND_SHARE * self._run.num_users), _MOST_ASKERS * askers)
        return size if size >= max(askers // 2, self._run.min_reports) else 0

    def _ask_law(self, size: int) -> Generator[Ask, Any, LawOfSizes]:
        """Query a cohort for its residuals' octaves; return the posterior over distributions."""
        if size < self._run.min_reports:
            why = f"{self._run.num_users:,} users are too few to learn the labels' scale."
            advice = "Declare label_bound if it is public."
            raise TooFewReports(TooFew(why, "cohorts", advice=advice))
        (cohort,) = self._run.cohorts([size])
        question = ResidualOctave(self._coef, self._offset)
        return (yield from ask_law(cohort, question, self._strategy.epsilon))

    def _first_clip(self, law: LawOfSizes) -> _Clip:
        """Return how the first round clips labels: the smaller the noise, the wider."""
        scale = law.root_mean_square
        if self._is_printed or law.is_around_zero:
            over_scale = min(2.5, max(1.0, 0.75 + self._strategy.epsilon / 4))
            return _Clip(over_scale * scale, around_zero=scale)
        return self._wide(law, scale)

    def _wide(self, law: LawOfSizes, signal: float) -> _Clip:
        """Return the clip that minimises the sum of noise variance and squared clipping bias.

        ``signal`` is the size of the predictions, of which clipping takes a share.
        """
        clips = []
        for bound in law.root_mean_square * _WIDE_BOUNDS:
            variance = self._strategy.randomizer(bound).variance + law.root_mean_square**2
            beyond = law.lost(bound)
            error = self._strategy.sparsity * variance / self._run.num_unasked
            clips.append((error + (beyond * signal) ** 2, bound, beyond))
        _, bound, beyond = min(clips)
        return _Clip(bound, beyond=beyond) if bound < self._most else _Clip(self._most, whole=True)

    # ---------------------------------------------------------------- rounds

    def _round_sizes(self) -> list[int]:
        """Return the number of users of each round.

        There is one round only if reports do not reveal the size of residuals.
        """
        num_users, fewest = self._run.num_unasked, self._run.min_reports
        if not self._shows_residuals or (self._most < math.inf and not self._num_label_askers()):
            return [num_users]
        others = num_users - self._num_residual_askers()
        rounds = min(_ROUNDS, 1 + int((1 - _FIRST_SHARE) * others / fewest))
        first = round(_FIRST_SHARE * others)
        if rounds < 2 or first < fewest:
            return [num_users]
        return [first] + [(others - first) // (rounds - 1)] * (rounds - 1)

    def _round(self, size: int, clip: _Clip) -> Generator[Ask, Any, None]:
        """Query a cohort for its residuals or labels, and fit the model to all reports so far."""
        (cohort,) = self._run.cohorts([size])
        randomizer = self._strategy.randomizer(clip.bound)
        theta, offset = (0 * self._coef, 0.0) if clip.whole else (self._coef, self._offset)
        question = Labels(1, clip.bound, theta if theta.any() else None, offset if offset else None)
        answers = yield Ask(cohort, question, randomizer, public=(1, self._strategy.dim))
        x = answers.public.reshape(-1, self._strategy.dim).astype(np.float64)
        y = answers.values.ravel()
        rows = np.isfinite(x).all(axis=1) & x.any(axis=1)  # a user without rows sends zeros
        x, y = x[rows], y[rows]
        residual = clip.around_zero
        if residual and not clip.narrow:
            residual = self._scale_of(y, randomizer, clip.bound, residual)
        slope = attenuation(clip.bound / residual) if residual else 1.0
        labels = x @ theta + offset + y / slope
        residuals = labels - (x @ self._coef + self._offset)
        self._still_moves = self._residuals_show_a_signal(x, residuals)
        asked = NoisyLabels(
            x,
            labels,
            np.full(len(y), randomizer.variance / slope**2),
            np.full(len(y), clip.beyond),
            np.full(len(y), clip.narrow),
            np.full(len(y), clip.around_zero is not None),
        )
        self._known = self._known.plus(asked)
        if (rows := len(self._known.labels)) < self._run.min_reports:
            raise TooFewReports(TooFew(_NO_FEATURES.format(rows), "data"))
        sparsity, solver = self._strategy.sparsity, self._strategy.solver
        fit = self._known.fit(sparsity, solver, residual or 0.0, centred=not self._is_printed)
        self._fit = fit
        self._coef, self._offset = fit.coef, fit.intercept
        # standard deviation of the predictions
        self._signal = float(np.std(x @ fit.coef)) if len(x) else 0.0

    def _residuals_show_a_signal(self, x: Floats, y: Floats) -> bool:
        """Return True if a round's residuals still have significant coefficients.

        The residuals ``y`` are regressed on the columns of ``x`` in the current support. If their
        coefficients differ from 0, the rounds have not converged, and the result says so.
        """
        support = np.flatnonzero(self._coef)
        if not len(support) or len(y) <= 2 * len(support):
            return False
        inverse = np.linalg.pinv(x[:, support].T @ x[:, support])
        step = inverse @ x[:, support].T @ y
        errors = np.hypot(self._fit.std_error[support], np.std(y) * np.sqrt(np.diag(inverse)))
        return bool((np.abs(step) > _RESIDUAL_Z * errors).any())

    def _result(self) -> LinearResult:
        """Return the last fit, with notes."""
        fit = self._fit
        if not fit.coef.any():
            self._notes.append(_NOTHING)
        if self._still_moves:
            self._notes.append(_FAR)
            fit = replace(fit, std_error=np.full(self._strategy.dim, np.nan))
        result = LinearResult(
            coef=project_on_ball(fit.coef, self._strategy.radius),
            std_error=fit.std_error,
            intercept=fit.intercept,
            notes=self._notes + fit.notes,
        )
        return result.with_support_note(self._strategy.sparsity)

    def _scale_of(self, y: Floats, randomizer: Randomizer, bound: float, estimated: float) -> float:
        """Return the labels' scale from the spread of their reports, or the ``estimated`` scale.

        The mean square of the reports is the mean square of clipped normal labels plus the
        mechanism's variance. The estimated scale is kept if the mechanism's variance depends on the
        label, as with bits, or if the reports are too imprecise.
        """
        if not has_known_noise(randomizer) or not len(y):
            return estimated
        square = (float(np.mean(y**2)) - randomizer.variance) / bound**2
        error = float(np.std(y**2)) / math.sqrt(len(y)) / bound**2
        low, high = (clipped_square(f) for f in (_MAX_CORRECTION, 1 / _MAX_CORRECTION))
        if not low < square < high:
            return estimated
        ratio = brentq(lambda r: clipped_square(r) - square, 1 / _MAX_CORRECTION, _MAX_CORRECTION)
        return bound / ratio if error < _MAX_PRECISE_ERROR * abs(_slope(ratio)) else estimated


def has_known_noise(randomizer: Randomizer) -> bool:
    """Return True if the noise of a randomised label has the same variance for all labels."""
    if isinstance(randomizer, HybridMechanism):
        return math.isclose(randomizer.variance_at(0.0), randomizer.variance_at(1.0))
    return isinstance(randomizer, GaussianMechanism)


def _slope(bound: float) -> float:
    """Return the derivative of ``clipped_square`` with respect to the bound's logarithm."""
    return (clipped_square(1.01 * bound) - clipped_square(bound)) / 0.01
