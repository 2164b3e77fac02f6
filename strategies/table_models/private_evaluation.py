"""PrivateEvaluation: the score of a given model on users' rows, with its standard error."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from ldp_flower.data.users import Users
from ldp_flower.expectation import NoPlan, Setting
from ldp_flower.models import Network
from ldp_flower.models.graph import LABEL_LOSSES
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import number
from ldp_flower.questions import SquaredErrors
from ldp_flower.randomizers import Estimate, Randomizer
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats, Positive, check_choice, check_unused

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
from ..runtime.at_node import AtNode
from ..runtime.prints import LATER
from ..runtime.result import frame, interval
from ..subprotocols.number_mean import ask_number
from ..subprotocols.scales import number_randomizer
from ..sums import evaluation as sums
from ..sums.budget import Budget
from .network_evaluation import NetworkEvaluationResult, evaluate

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
# Smallest and largest radius of the second difference, in units of the baseline; the first
# difference may have a larger one.
_RADII = 2.0, 6.0
# Standard errors of R2, for the first and second difference, up to which the radius is widened.
_NOISE = 0.05, 0.03
# The second difference counts as clipped if the first one's radius is _WIDER times as large and the
# two differ by _WIDER_Z standard errors.
_WIDER, _WIDER_Z = 1.5, 1.5
_MAX_R2_ERROR = 0.1  # standard error of R2 above which a note asks for more users
_UNIFORM_BASELINE = 1 / 3  # over the bound, for targets that are uniform within their bounds
# Baseline over the bound that plans assume: that of targets whose standard deviation is a quarter
# of their bounds' width.
_USUAL_BASELINE = 0.25


class _Loss(NamedTuple):
    """A cohort's estimate of the weighted sum of the mean loss and the mean baseline."""

    weights: tuple[float, float]
    value: float
    std_error: float


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEvaluation(AtNode, LdpStrategy[EvaluationResult | NetworkEvaluationResult]):
    """The R2 of a given linear model over users, with its standard error; one report per user.

    For a network as data, the result is its accuracy or loss (:class:`NetworkEvaluationResult`).

    If A is the mean squared residual and B the mean squared deviation from a centre, R2 is
    ``1 - A / B``. Reports of A and B themselves would need wide bounds, and so much noise. So only
    10 to 50 % of the users report their B, which has to be known only roughly. The others report
    the difference ``A - (1 - pivot) B`` of their own two means. It is small for every user if the
    model fits all users equally well, and its mean shows the distance of R2 from the pivot. The
    first pivot is 0.5, and the second one is the estimate so far.

    With noise at the node, one sum over all users has A and B, each clipped at ``bound``, with
    their squares and their product, from which the error by the choice of users is estimated.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    coef : array_like, shape (num_features,), or Network
        The model. Predictions of a linear one are ``<x, coef>``. A network is evaluated by users of
        :class:`ldp_flower.clients.NetworkUsersApp`.
    centre : float (default: 0.0)
        Constant prediction with which the model is compared: the best one that is publicly known.
        R2 is too high by the square of its distance from the targets' mean over their variance.
    bound : float (default: 4.0)
        Public bound on a user's mean squared deviation from the centre; larger values are clipped.
        The default holds for targets within [-2, 2], as a :class:`~ldp_flower.Schema` gives them
        for bounds, and the centre 0. For a network it is the bound on a user's mean loss.
    metric : {"accuracy", "loss"}, optional
        Score that is estimated for a network. By default it is the accuracy if the network's loss
        is for classes or for targets of 0 and 1, and otherwise the loss.

    Notes
    -----
    All users count equally, whatever their number of rows. The model must have been fitted on
    other users, or R2 is too high.

    For a network, each user reports the network's score on its rows once. With noise at the node,
    the result has a score for each node, too.

    The second difference is clipped at 2 to 6 times the baseline, as far out as a standard error of
    R2 of 0.03 allows. The first one is clipped further out if a standard error of .05 allows it. If
    the first difference shows that the second one clips the users whom the model fits worst, only
    the first one is used. Without clipping A and B are unbiased, and R2 is unbiased except for
    terms of the order of its variance. Each number is reported by :class:`RandomizedResponse` or,
    from about epsilon 1.2, :class:`Codebook`, whichever is less noisy. Both have finitely many
    outputs.
    """

    guarantee = (
        guarantees.USER,
        f"{guarantees.ASKED_ONCE} What the model itself reveals of those it was fitted on is not "
        "part of it.",
        guarantees.ENFORCED,
    )
    card = Card(
        question="R2 and loss of a given linear model, accuracy or loss of a network",
        guarantee="pure epsilon",
        rounds="3",
        report="1",
        use_when="a model's worth to other users is in question",
        fails_when="with 1,000 users at epsilon 1: usually nothing can be estimated",
        page="private-evaluation",
    )

    coef: ArrayLike | Network = field(kw_only=False)
    centre: float = 0.0
    bound: Positive = 4.0
    metric: str | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.randomizer(1.0)  # refuses a bad epsilon now
        if self.network is not None:
            self._check_network(self.network)
            return
        check_unused(self, "without a network", "metric")
        self._model = np.asarray(self.coef, np.float64)
        if self._model.ndim != 1 or not self._model.size or not np.isfinite(self._model).all():
            raise ValueError(
                f"Expected coef to be a vector of finite numbers, got shape {self._model.shape}."
            )
        if not math.isfinite(self.centre):
            raise ValueError(f"Expected a finite centre, got {self.centre}.")

    def _check_network(self, network: Network) -> None:
        """Raise ValueError for arguments that a network does not have."""
        check_unused(self, "with a network", "centre")
        labels = network.graph.loss in LABEL_LOSSES
        if self.metric is not None:
            check_choice("metric", self.metric, ("accuracy", "loss") if labels else ("loss",))
        if self._tells_accuracy:
            check_unused(self, "with an accuracy", "bound")

    @property
    def network(self) -> Network | None:
        """The network to evaluate; None if the model is linear."""
        return self.coef if isinstance(self.coef, Network) else None

    @property
    def _tells_accuracy(self) -> bool:
        labels = self.network is not None and self.network.graph.loss in LABEL_LOSSES
        return labels and self.metric != "loss"

    plans_with: ClassVar[frozenset[str]] = frozenset({"rows_per_user", "num_features", "quality"})

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: of a model with the setting's features."""
        return cls(np.eye(1, features_of(setting, cls) + 1)[0], epsilon=epsilon)

    def synthetic(self, setting: Setting) -> EvaluatedUsers:
        """Return a population for plans: users for whom the model has the setting's R2."""
        if self.network is not None:
            raise NoPlan("The score of a network is not known to a plan.")
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
                f"R2 is {quality:g}, and users' mean squared deviation from the centre is "
                f"{_USUAL_BASELINE:g} of ``bound``, as for targets whose standard deviation is a "
                "quarter of the width of their bounds.",
            ),
        )

    def randomizer(self, radius: float) -> Randomizer:
        """Return the mechanism for a number in ``[-radius, radius]``."""
        return number_randomizer(self.epsilon, radius)

    @property
    def row_features(self) -> int:
        """Number of the model's features."""
        return len(self._model) if self.network is None else self.network.graph.record.size

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: of a model that is partly right."""
        yield cls(np.full(dim, 0.5), epsilon=epsilon), normal_users(dim, 2)

    def protocol(self, run: Run) -> Protocol:
        """Ask for the baseline's loss, then for differences to it; return R2."""
        if self.network is not None:
            bound = 1.0 if self._tells_accuracy else self.bound
            return (yield from evaluate(run, self.network, self._tells_accuracy, bound, self.delta))
        if self.noise != "user":
            return (yield from self._of_nodes(run))
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        baseline_cohort, *others = run.cohorts(self._sizes(run.num_users))
        half = self.bound / 2
        baseline = yield from self._measure(baseline_cohort, half, (0.0, 1.0), half)
        if baseline.value <= _BASELINE_Z * baseline.std_error:
            return self._hidden(baseline, run.num_users - baseline_cohort.size)
        scale = min(max(baseline.value, 0.0) + baseline.std_error, self.bound)
        losses, pivot, beyond, clip = [baseline], _FIRST_PIVOT, False, math.inf
        for cohort in others:
            if beyond:
                losses = [baseline]  # clipping made the first difference too small
            # The radius is as large as noise allows. Clipping keeps the sign of a difference, but
            # hides how badly the model fits some users. The first difference shows more of that.
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
                break  # the users whom the model fits worst are clipped
            losses.append(difference)
            clip = radius
            means, covariance = _solved(losses)
            if not math.isnan(r2 := _r2(means, covariance)[0]):
                pivot = min(r2, 1.0)
            beyond = difference.value > radius / 2
        return self._evaluation(means, covariance, beyond, clip, run.num_users)

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

    def _of_nodes(self, run: Run) -> Generator[Ask, Any, EvaluationResult]:
        """Ask for noisy sums of all users' losses and their squares; return R2."""
        budget = Budget.of(run, self.delta)
        if refusal := sums.too_few(budget, _UNIFORM_BASELINE / _BASELINE_Z):
            raise TooFewReports(refusal)
        found = yield from sums.ask_losses(budget, self._model, self.centre, self.bound)
        loss, baseline = found.means
        beyond = loss > max(baseline, self.bound / 2)
        whole = found.noise + found.sampling
        return self._evaluation(
            found.means, whole, beyond, self.bound, run.num_users, of_users=found.noise
        )

    def _too_few(self, num_users: int) -> TooFew | None:
        if self.noise != "user" or self.network is not None:
            return super()._too_few(num_users)  # the rules of sums and networks come later
        sizes = self._sizes(num_users)
        if min(sizes) < self.min_reports:
            return self.too_small(num_users)
        noise = self.randomizer(self.bound / 2).variance
        askers = noise * (_BASELINE_Z / (_UNIFORM_BASELINE * self.bound)) ** 2
        if sizes[0] >= int(askers):
            return None
        why = (
            f"{num_users:,} users are too few at epsilon {self.epsilon:g}: even if targets were "
            "spread evenly within their bounds, privacy noise would hide their mean squared "
            "deviation from the centre, and so R2."
        )
        return TooFew(why, "noise", advice="A larger epsilon would help, too.")

    def _sizes(self, num_users: int) -> list[int]:
        """Return the numbers of users of three questions: the baseline, and two differences."""
        wanted = self.randomizer(0.5 / _BASELINE_NOISE).variance / num_users
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
        question = SquaredErrors(self._model, self.centre, *weights, offset)
        found = yield from ask_number(cohort, self.epsilon, question, radius)
        return _Loss(weights, offset + found.value, found.std_error)

    def _apart(self, wide: list[_Loss], narrow: _Loss) -> bool:
        """Return True if narrow clipping lowers a difference significantly, compared with wide."""
        means, covariance = _solved(wide)
        weights = np.array(narrow.weights)
        error = math.hypot(narrow.std_error, math.sqrt(weights @ covariance @ weights))
        return float(weights @ means) - narrow.value > _WIDER_Z * error

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
