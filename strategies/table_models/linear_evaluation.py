"""Evaluation of a given linear model: its R2 and its loss, from users' or nodes' reports."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import number
from ldp_flower.questions import SquaredErrors
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Cohort, Estimates, Result, Run, TooFewReports
from ..runtime.result import frame, interval
from ..subprotocols.number_mean import ask_number
from ..subprotocols.scales import number_randomizer
from ..sums import evaluation as sums
from ..sums.budget import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class EvaluationResult(Result):
    """The estimated R2 and loss of a model for the users who were asked.

    Attributes
    ----------
    r2 : float
        One minus ``loss`` over ``baseline``: 0 for a model no better than the centre, 1 for a
        perfect one, below 0 for a worse one.
    std_error : float
        Standard error of ``r2`` from privacy noise and from the choice of users.
    loss : float
        Mean over users of each user's mean squared residual.
    loss_std_error : float
        Standard error of ``loss``.
    baseline : float
        Mean over users of each user's mean squared deviation from the centre.
    clip : float
        Bound on a user's report: its mean squared residual minus about half of its mean squared
        deviation. With noise at the node it is the bound on each of the two. R2 is too high if the
        model fits some users so badly that they exceed it.
    users_std_error : float
        Standard error of ``r2`` among these users, which is by the noise of the nodes alone. NaN
        with noise at the user, where it is not known.
    """

    _predicts: ClassVar[bool] = True

    r2: float
    std_error: float
    loss: float
    loss_std_error: float
    baseline: float
    clip: float
    users_std_error: float = math.nan

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([np.array([self.r2, self.loss])])

    def table(self) -> "DataFrame":
        """Return R2 and both squared errors, in squared units of the standardised target.

        Returns
        -------
        DataFrame
            ``name``, ``value``, ``standard error`` and a 95 % interval.
        """
        values = np.array([self.r2, self.loss, self.baseline])
        errors = np.array([self.std_error, self.loss_std_error, np.nan])
        return frame(
            {
                "name": ["R2", "mean squared error", "mean squared error of the centre"],
                "value": values,
                "standard error": errors,
                **interval(values, errors),
            }
        )

    def estimates(self) -> Estimates:
        """Return R2 and its standard error, which a series of collections follows."""
        errors = np.array([[self.std_error], [self.users_std_error]])
        return Estimates(["R2"], np.array([self.r2]), *errors)

    @property
    def _height(self) -> float:
        return charts.height_of(1)

    def _draw(self, axes: "Axes") -> None:
        error = self.std_error if np.isfinite(self.std_error) else np.nan
        charts.intervals(axes, ["R2"], [self.r2], [error])
        axes.axvline(1, color=charts.GREY, lw=0.8, ls=":")
        axes.set_xlabel("0: no better than the centre; 1: perfect; with a 95 % interval")

    def _findings(self) -> list[str]:
        return [
            f"R2 = {self.r2:.3f} (standard error {self.std_error:.2g}), "
            f"loss {self.loss:.3g} ({self.loss_std_error:.2g}); each user's report is clipped at "
            f"{self.clip:.2g}"
        ]


_BASELINE_NOISE = 0.03  # wanted standard error of the baseline, in units of the bound
_LEAST_SHARE, _MOST_SHARE = 0.1, 0.5  # smallest and largest share of users who report the baseline
_FIRST_SHARE = 1 / 3  # share of the other users who report the first difference
_BASELINE_Z = 4.0  # number of standard errors by which the baseline has to exceed zero
_FIRST_PIVOT = 0.5  # first pivot: the R2 that is assumed before it is known
# Radii of the two differences, in units of the baseline: the smallest one of both, the largest one
# of each, and the standard error of R2 up to which each radius is widened.
_LEAST_RADIUS, _MOST_RADII, _NOISE = 2.0, (math.inf, 6.0), (0.05, 0.03)
# The second difference counts as clipped if the first one's radius is _WIDER times as large and the
# two differ by _WIDER_Z standard errors.
_WIDER, _WIDER_Z = 1.5, 1.5
_MAX_R2_ERROR = 0.1  # standard error of R2 above which a note asks for more users
_UNIFORM_BASELINE = 1 / 3  # over the bound, for targets that are uniform within their bounds


class _Loss(NamedTuple):
    """A cohort's estimate of the weighted sum of the mean loss and the mean baseline."""

    weights: tuple[float, float]
    value: float
    std_error: float


@dataclass(frozen=True)
class LinearEvaluation:
    """Protocols that estimate the R2 of a linear model, with noise at the user or at the node.

    A is the mean over users of the mean squared residual, the loss. B is that of the mean squared
    deviation from the centre, the baseline. R2 is ``1 - A / B``.
    """

    model: Floats  # (num_features,): coefficients
    centre: float
    bound: float  # bound on a user's mean squared deviation from the centre
    epsilon: float
    min_reports: int

    def of_users(self, run: Run) -> Generator[Ask, Any, EvaluationResult]:
        """Ask users for B, then for two differences to it; return R2."""
        baseline_cohort, *others = run.cohorts(self.sizes(run.num_users))
        half = self.bound / 2
        baseline = yield from self._measure(baseline_cohort, half, (0.0, 1.0), half)
        if baseline.value <= _BASELINE_Z * baseline.std_error:
            return self._hidden(baseline, run.num_users - baseline_cohort.size)
        scale = min(baseline.value + baseline.std_error, self.bound)
        losses, pivot, beyond, clip = [baseline], _FIRST_PIVOT, False, math.inf
        for cohort, wanted, most in zip(others, _NOISE, _MOST_RADII, strict=True):
            if beyond:
                losses = [baseline]  # clipping made the first difference too small
            # The radius is as large as noise allows. Clipping keeps the sign of a difference, but
            # hides how badly the model fits some users. The first difference shows more of that.
            noise = math.sqrt(number_randomizer(self.epsilon, 1.0).variance / cohort.size)
            radius = max(min(wanted / noise, most), _LEAST_RADIUS) * scale
            try:
                difference = yield from self._measure(cohort, radius, (1.0, pivot - 1))
            except TooFewReports:
                if cohort is others[0]:
                    raise
                break
            if len(losses) > 1 and _WIDER * radius < clip and _apart(losses, difference):
                break  # the users whom the model fits worst are clipped
            losses.append(difference)
            clip = radius
            means, covariance = _solved(losses)
            if not math.isnan(r2 := _r2(means, covariance)[0]):
                pivot = min(r2, 1.0)
            beyond = difference.value > radius / 2
        return self._evaluation(means, covariance, beyond, clip, run.num_users)

    def of_nodes(self, run: Run, delta: float) -> Generator[Ask, Any, EvaluationResult]:
        """Ask for noisy sums of all users' losses and their squares; return R2."""
        budget = Budget.of(run, delta)
        if refusal := sums.too_few(budget, _UNIFORM_BASELINE / _BASELINE_Z):
            raise TooFewReports(refusal)
        found = yield from sums.ask_losses(budget, self.model, self.centre, self.bound)
        loss, baseline = found.means
        beyond = loss > max(baseline, self.bound / 2)
        whole = found.noise + found.sampling
        return self._evaluation(
            found.means, whole, beyond, self.bound, run.num_users, of_users=found.noise
        )

    def too_few(self, num_users: int) -> TooFew | None:
        """Return a TooFew if noise would hide B of ``num_users`` users in any case, or None."""
        noise = number_randomizer(self.epsilon, self.bound / 2).variance
        askers = noise * (_BASELINE_Z / (_UNIFORM_BASELINE * self.bound)) ** 2
        if self.sizes(num_users)[0] >= int(askers):
            return None
        why = (
            f"{num_users:,} users are too few at epsilon {self.epsilon:g}: even if targets were "
            "spread evenly within their bounds, privacy noise would hide their mean squared "
            "deviation from the centre, and so R2."
        )
        return TooFew(why, "noise", advice="A larger epsilon would help, too.")

    def sizes(self, num_users: int) -> list[int]:
        """Return the numbers of users of three questions: the baseline, and two differences."""
        wanted = number_randomizer(self.epsilon, 0.5 / _BASELINE_NOISE).variance / num_users
        share = float(np.clip(wanted, _LEAST_SHARE, _MOST_SHARE))
        baseline = max(int(share * num_users), self.min_reports)
        first = int(_FIRST_SHARE * (num_users - baseline))
        return [baseline, first, num_users - baseline - first]

    def _measure(
        self, cohort: Cohort, radius: float, weights: tuple[float, float], offset: float = 0.0
    ) -> Generator[Ask, Estimate, _Loss]:
        """Ask users for the weighted sum of A and B, which clients clip to ``offset +- radius``.

        Return the mean of the sums over users.
        """
        question = SquaredErrors(self.model, self.centre, *weights, offset)
        found = yield from ask_number(cohort, self.epsilon, question, radius)
        return _Loss(weights, offset + found.value, found.std_error)

    def _hidden(self, baseline: _Loss, not_asked: int) -> EvaluationResult:
        """Return the result of a run in which noise hides B; the other users are not asked."""
        most = max(baseline.value, 0.0) + 2 * baseline.std_error
        closer = f" A bound of {number(2 * most)} has less noise." * (2 * most < self.bound)
        return EvaluationResult(
            r2=math.nan,
            std_error=math.inf,
            loss=math.nan,
            loss_std_error=math.inf,
            baseline=baseline.value,
            clip=self.bound / 2,
            notes=[
                "Privacy noise hides the targets' mean squared deviation from the centre, so that "
                f"R2 cannot be estimated. The other {not_asked:,} users have not been asked. The "
                f"deviation is hardly above {number(most)}, and the bound on that of a user is "
                f"{number(self.bound)}.{closer} More users or a larger epsilon would help, too."
            ],
        )

    def _evaluation(
        self,
        means: Floats,
        covariance: Floats,
        beyond: bool,
        clip: float,
        num_users: int,
        of_users: Floats | None = None,
    ) -> EvaluationResult:
        """Return the result; ``of_users`` is the covariance by the noise of nodes alone."""
        r2, std_error = _r2(means, covariance)
        users_std_error = math.nan if of_users is None else _r2(means, of_users)[1]
        notes = []
        if math.isnan(r2):
            notes.append(
                "Privacy noise hides the targets' mean squared deviation from the centre, so that "
                "R2 cannot be estimated: more users, a larger epsilon or a smaller bound are "
                "needed."
            )
        elif std_error > _MAX_R2_ERROR:
            # The noise of nodes falls with the number of users, other errors with its root.
            noise = 0.0 if of_users is None else users_std_error**2
            other = std_error**2 - noise
            times = other + math.sqrt(other**2 + 4 * noise * _MAX_R2_ERROR**2)
            needed = math.ceil(num_users * times / (2 * _MAX_R2_ERROR**2))
            notes.append(
                f"A standard error of {_MAX_R2_ERROR} would take about {needed:,} users at this "
                f"epsilon; this run had {num_users:,}."
            )
        if beyond and not math.isnan(r2):
            notes.append(
                "Most residuals were clipped: the model is much worse than the centre, and R2 is "
                "likely to be lower than this."
            )
        return EvaluationResult(
            r2=r2,
            std_error=std_error,
            loss=float(means[0]),
            loss_std_error=math.sqrt(covariance[0, 0]),
            baseline=float(means[1]),
            clip=clip,
            users_std_error=users_std_error,
            notes=notes,
        )


def _r2(means: Floats, covariance: Floats) -> tuple[float, float]:
    """Return R2 and its standard error, by the delta method.

    R2 is NaN unless the baseline exceeds its noise clearly.
    """
    loss, baseline = map(float, means)
    if not baseline > _BASELINE_Z * math.sqrt(covariance[1, 1]):
        return math.nan, math.inf
    gradient = np.array([-1.0, loss / baseline]) / baseline
    return 1 - loss / baseline, math.sqrt(gradient @ covariance @ gradient)


def _solved(losses: list[_Loss]) -> tuple[Floats, Floats]:
    """Return the estimates of the mean loss and the mean baseline, and their covariance.

    They are the weighted least squares solution for all weighted sums of the two.
    """
    errors = np.array([one.std_error for one in losses])
    weights = np.array([one.weights for one in losses]) / errors[:, None]
    covariance = np.linalg.inv(weights.T @ weights)
    return covariance @ weights.T @ (np.array([one.value for one in losses]) / errors), covariance


def _apart(wide: list[_Loss], narrow: _Loss) -> bool:
    """Return True if narrow clipping lowers a difference significantly, compared with wide."""
    means, covariance = _solved(wide)
    weights = np.array(narrow.weights)
    error = math.hypot(narrow.std_error, math.sqrt(weights @ covariance @ weights))
    return float(weights @ means) - narrow.value > _WIDER_Z * error
