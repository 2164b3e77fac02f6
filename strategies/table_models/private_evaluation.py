"""PrivateEvaluation: the R2 of a given linear model over users, with its standard error."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.presentation import charts
from ldp_flower.questions import SquaredErrors
from ldp_flower.randomizers import Estimate, Randomizer
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats, check_positive

from ..forecasts.populations import USUAL_R2, EvaluatedUsers, features_of, normal_users
from ..runtime import (
    Ask,
    Card,
    Cohort,
    Estimates,
    LdpStrategy,
    Protocol,
    Result,
    Run,
    TooFewReports,
    guarantees,
)
from ..runtime.result import frame, interval
from ..subprotocols.scales import number_randomizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class EvaluationResult(Result):
    """A result that says how well a model predicts the targets of users who were asked.

    Attributes
    ----------
    r2 : float
        One minus ``loss`` over ``baseline``: 0 for a model no better than the centre, 1 for a
        perfect one, below 0 for a worse one.
    std_error : float
        Standard deviation of ``r2`` from privacy noise and from the choice of users.
    loss : float
        Mean over users of each user's mean squared residual.
    loss_std_error : float
        Standard deviation of ``loss``.
    baseline : float
        Mean over users of each user's mean squared deviation from the centre.
    clip : float
        What a user counts at most, of its mean squared residual less about half of its deviation:
        R2 is too high if there are users whom the model serves worse.
    """

    _predicts: ClassVar[bool] = True

    r2: float
    std_error: float
    loss: float
    loss_std_error: float
    baseline: float
    clip: float

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([np.array([self.r2, self.loss])])

    def table(self) -> "DataFrame":
        """Return R2 and both squared errors, in squared units of the standardised target.

        Returns
        -------
        DataFrame
            ``name``, ``value``, ``standard error`` and an interval of 95 %.
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
        """Return R2, for a series of collections."""
        return Estimates(["R2"], np.array([self.r2]), np.array([self.std_error]))

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
            f"loss {self.loss:.3g} ({self.loss_std_error:.2g}); nobody counts more than "
            f"{self.clip:.2g}"
        ]


_BASELINE_NOISE = 0.03  # standard error of the baseline that is wanted, in units of the bound
_LEAST_SHARE, _MOST_SHARE = 0.1, 0.5  # of the users that report it
_FIRST_SHARE = 1 / 3  # of the others, who report the first difference
_BASELINE_Z = 4.0  # standard errors by which the baseline has to clear zero
_FIRST_PIVOT = 0.5  # the ratio of losses, 1 - R2, that is assumed before it is known
_RADII = 2.0, 6.0  # of the second difference, in units of the baseline; the first may be wider
_NOISE = 0.05, 0.03  # of R2, up to which a wider clip radius is worth it
_WIDER, _APART = 1.5, 1.5  # times as wide, and standard errors apart: the second one is clipped
_PRECISE = 0.1  # standard error from which on more users are called for
_EVEN = 1 / 3  # baseline over the bound, of targets that are spread evenly within their bounds
# Of plans: baseline over the bound, of targets whose standard deviation is a quarter of their
# bounds' width.
_USUAL_BASELINE = 0.25


class _Loss(NamedTuple):
    """A cohort's estimate: ``weights`` times the mean loss and the mean baseline, added up."""

    weights: tuple[float, float]
    value: float
    std_error: float


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEvaluation(LdpStrategy[EvaluationResult]):
    """The R2 of a given linear model over users, with its standard error; one report per user.

    With A the mean squared residual and B the mean squared deviation from a centre, R2 is
    ``1 - A / B``. Users who are asked for A and B themselves need wide bounds. So only 10
    to 50 % of them report their B, which is needed roughly. The others report the
    difference ``A - (1 - pivot) B`` of their own two means, which is small for every user if
    the model is as good for it as for others, and whose mean says how far R2 is from the pivot.
    The first pivot is 0.5, the second one the estimate so far.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    coef : array_like, shape (num_features,)
        The model: predictions are ``<x, coef>``.
    centre : float (default: 0.0)
        What the model is compared with: the best constant prediction that is publicly known. R2
        is too good by the square of its distance from the targets' mean over their variance.
    bound : float (default: 4.0)
        Public bound on a user's mean squared deviation from the centre; what is beyond is
        clipped. The default holds for targets within [-2, 2], as a
        :class:`~ldp_flower.Schema` gives them for bounds, and the centre 0.

    Notes
    -----
    Every user counts the same, however many rows it has. The users must be others than the
    model was fitted on, or R2 is too good.

    The second difference is clipped at 2 to 6 times the baseline, as wide as a standard error of R2
    of 0.03 allows; the first wider, where .05 allows it. If that one says that the second clips
    users whom the model serves worst, it counts alone. Without clipping A and B are unbiased, and
    R2 is but for terms of the order of its variance. A single number in an interval goes through
    :class:`RandomizedResponse` or, from about epsilon 1.2, :class:`Codebook`, whichever is less
    noisy; both have finitely many outputs.
    """

    guarantee = (
        guarantees.USER,
        f"{guarantees.ASKED_ONCE} What the model itself reveals of those it was fitted on is not "
        "part of it.",
        guarantees.ENFORCED,
    )
    card = Card(
        question="R2 and loss of a given linear model, with standard errors",
        guarantee="pure epsilon",
        rounds="3",
        report="1",
        use_when="a model's worth to other users is in question",
        fails_when="with 1,000 users at epsilon 1: usually nothing can be estimated",
        page="private-evaluation",
    )

    coef: ArrayLike = field(kw_only=False)
    centre: float = 0.0
    bound: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model = np.asarray(self.coef, np.float64)
        if self._model.ndim != 1 or not self._model.size or not np.isfinite(self._model).all():
            raise ValueError(
                f"Expected coef to be a vector of finite numbers, got shape {self._model.shape}."
            )
        if not math.isfinite(self.centre):
            raise ValueError(f"Expected a finite centre, got {self.centre}.")
        check_positive("bound", self.bound)
        self.randomizer(1.0)  # refuses a bad epsilon now

    plans_with: ClassVar[frozenset[str]] = frozenset({"rows_per_user", "num_features", "quality"})

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the evaluation of a model with so many features beside the intercept."""
        return cls(np.eye(1, features_of(setting, cls) + 1)[0], epsilon=epsilon)

    def synthetic(self, setting: Setting) -> EvaluatedUsers:
        """Return users whom the model explains as well as is given."""
        quality = USUAL_R2 if setting.quality is None else setting.quality
        return EvaluatedUsers(
            error="standard error of R2",
            dim=len(self._model),
            coef=tuple(self._model.tolist()),
            centre=self.centre,
            variance=_USUAL_BASELINE * self.bound,
            quality=quality,
            rows=setting.rows_per_user,
            assumes=(
                f"R2 is {quality:g}, and users' mean squared deviation from the centre "
                f"{_USUAL_BASELINE:g} of the bound on it, as of targets whose standard deviation "
                "is a quarter of the width of their bounds.",
            ),
        )

    def randomizer(self, radius: float) -> Randomizer:
        """Return the mechanism for a number in ``[-radius, radius]``."""
        return number_randomizer(self.epsilon, radius)

    @property
    def row_features(self) -> int:
        """Those of the model."""
        return len(self._model)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield the evaluation of a model that is partly right."""
        yield cls(np.full(dim, 0.5), epsilon=epsilon), normal_users(dim, 2)

    def protocol(self, run: Run) -> Protocol:
        """Ask for the baseline, then for differences, and solve for both means."""
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        baseline_cohort, *others = run.cohorts(self._sizes(run.num_users))
        half = self.bound / 2
        baseline = yield from self._measure(baseline_cohort, half, (0.0, 1.0), half)
        scale = min(max(baseline.value, 0.0) + baseline.std_error, self.bound)
        losses, pivot, beyond, clip = [baseline], _FIRST_PIVOT, False, math.inf
        for cohort in others:
            if beyond:
                losses = [baseline]  # clipping made the first difference too small
            # As wide as noise allows: clipping keeps the sign of a difference, and hides how bad a
            # model is for users whom it serves worst. The first sees more of them.
            noise = math.sqrt(self.randomizer(1.0).variance / cohort.size)
            first = cohort is others[0]
            allowed = _NOISE[0 if first else 1] / noise
            radius = max(min(allowed, math.inf if first else _RADII[1]), _RADII[0]) * scale
            try:
                difference = yield from self._measure(cohort, radius, (1.0, pivot - 1))
            except TooFewReports:
                if first:
                    raise
                break
            if len(losses) > 1 and _WIDER * radius < clip and self._apart(losses, difference):
                break  # users whom the model serves worst are clipped
            losses.append(difference)
            clip = radius
            means, covariance = _solved(losses)
            if not math.isnan(r2 := _r2(means, covariance)[0]):
                pivot = min(r2, 1.0)
            beyond = difference.value > radius / 2
        return self._evaluation(means, covariance, beyond, clip, run.num_users)

    def _too_few(self, num_users: int) -> TooFew | None:
        sizes = self._sizes(num_users)
        if min(sizes) < self.min_reports:
            return self.too_small(num_users)
        noise = self.randomizer(self.bound / 2).variance
        askers = noise * (_BASELINE_Z / (_EVEN * self.bound)) ** 2
        if sizes[0] >= int(askers):
            return None
        why = (
            f"{num_users:,} users are too few at epsilon {self.epsilon:g}: how far targets are "
            "from the centre would not clear the privacy noise, not even if they were spread "
            "evenly within their bounds, and nothing could be said about R2."
        )
        return TooFew(why, "noise", advice="A larger epsilon would do as well.")

    def _sizes(self, num_users: int) -> list[int]:
        """Return how many users report the baseline, and the first and the second difference."""
        wanted = self.randomizer(0.5 / _BASELINE_NOISE).variance / num_users
        share = float(np.clip(wanted, _LEAST_SHARE, _MOST_SHARE))
        baseline = max(int(share * num_users), self.min_reports)
        first = int(_FIRST_SHARE * (num_users - baseline))
        return [baseline, first, num_users - baseline - first]

    def _measure(
        self, cohort: Cohort, radius: float, weights: tuple[float, float], offset: float = 0.0
    ) -> Generator[Ask, Estimate, _Loss]:
        """Ask for a weighted sum of both means, which clients clip to ``offset +- radius``."""
        question = SquaredErrors(self._model, self.centre, *weights, offset)
        answer = yield Ask(cohort, question, self.randomizer(radius))
        return _Loss(weights, offset + float(answer.mean[0]), float(answer.std_error[0]))

    def _apart(self, wide: list[_Loss], narrow: _Loss) -> bool:
        """Return whether a clipped difference is surely less than a wider one says."""
        means, covariance = _solved(wide)
        weights = np.array(narrow.weights)
        error = math.hypot(narrow.std_error, math.sqrt(weights @ covariance @ weights))
        return float(weights @ means) - narrow.value > _APART * error

    def _evaluation(
        self, means: Floats, covariance: Floats, beyond: bool, clip: float, num_users: int
    ) -> EvaluationResult:
        r2, std_error = _r2(means, covariance)
        notes = []
        if math.isnan(r2):
            notes.append(
                "How far targets are from the centre does not clear the privacy noise, so that "
                "nothing can be said about R2: more users, a larger epsilon or a smaller bound are "
                "needed."
            )
        elif std_error > _PRECISE:
            needed = math.ceil(num_users * (std_error / _PRECISE) ** 2)
            notes.append(
                f"A standard error of {_PRECISE} would take about {needed:,} users at this "
                f"epsilon; here are {num_users:,}."
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
            notes=notes,
        )


def _r2(means: Floats, covariance: Floats) -> tuple[float, float]:
    """Return R2 and its standard error, by the delta method; NaN unless the baseline is clear."""
    loss, baseline = map(float, means)
    if not baseline > _BASELINE_Z * math.sqrt(covariance[1, 1]):
        return math.nan, math.inf
    gradient = np.array([-1.0, loss / baseline]) / baseline
    return 1 - loss / baseline, math.sqrt(gradient @ covariance @ gradient)


def _solved(losses: list[_Loss]) -> tuple[Floats, Floats]:
    """Return the weighted least squares estimate of both means, and its covariance."""
    errors = np.array([one.std_error for one in losses])
    weights = np.array([one.weights for one in losses]) / errors[:, None]
    covariance = np.linalg.inv(weights.T @ weights)
    return covariance @ weights.T @ (np.array([one.value for one in losses]) / errors), covariance
