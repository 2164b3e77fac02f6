"""PrivateEvaluation: the score of a given model on users' rows, with its standard error."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.data.users import Users
from ldp_flower.expectation import NoPlan, Setting
from ldp_flower.models import Network
from ldp_flower.models.graph import LABEL_LOSSES
from ldp_flower.randomizers import Randomizer
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Positive, check_choice, check_unused

from ..forecasts.populations import USUAL_R2, EvaluatedUsers, features_of, normal_users
from ..runtime import (
    Card,
    LdpStrategy,
    Protocol,
    Run,
    TooFewReports,
    guarantees,
)
from ..runtime.at_node import AtNode
from ..runtime.prints import LATER
from ..subprotocols.scales import number_randomizer
from .linear_evaluation import EvaluationResult, LinearEvaluation
from .network_evaluation import NetworkEvaluationResult, evaluate

if TYPE_CHECKING:
    pass


# Baseline over the bound that plans assume: that of targets whose standard deviation is a quarter
# of their bounds' width.
_USUAL_BASELINE = 0.25


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEvaluation(AtNode, LdpStrategy[EvaluationResult | NetworkEvaluationResult]):
    """The R2 of a given linear model over users, with its standard error; one report per user.

    For a network as data, the result is its accuracy or loss (:class:`NetworkEvaluationResult`).

    Each user has two numbers: its mean squared residual A, and its mean squared deviation B from a
    centre. With means over users, R2 is ``1 - A / B``. Reports of A and B themselves would need
    wide bounds, and so much noise. So only 10 to 50 % of the users report their B, which has to be
    known only roughly. The others, in two groups, report the difference ``A - (1 - pivot) B``. It
    is small for every user if the model fits all users equally well. The mean of these reports is
    the mean of B times ``pivot - R2``. The pivot is 0.5 for the first group, and the estimate so
    far for the second.

    With noise at the node, one sum over all users has A and B, each clipped at ``bound``, with
    their squares and their product, from which the error by the choice of users is estimated.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    coef : array_like, shape (num_features,), or Network
        The model. Predictions of a linear one are ``<x, coef>``. An intercept is the coefficient of
        a constant feature, which is the first one of a :class:`~ldp_flower.Schema`. A network is
        evaluated by users of :class:`ldp_flower.clients.NetworkUsersApp`.
    centre : float (default: 0.0)
        Constant prediction with which the model is compared: the best one that is publicly known.
        If its distance from the targets' mean is d, and their variance is v, the result R2 is too
        high by ``(1 - R2) d**2 / v``.
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
            return (yield from self._linear.of_nodes(run, self.delta))
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        return (yield from self._linear.of_users(run))

    @property
    def _linear(self) -> LinearEvaluation:
        given = self.centre, self.bound, self.epsilon, self.min_reports
        return LinearEvaluation(self._model, *given)

    def _too_few(self, num_users: int) -> TooFew | None:
        if self.noise != "user" or self.network is not None:
            return super()._too_few(num_users)  # the rules of sums and networks come later
        if min(self._linear.sizes(num_users)) < self.min_reports:
            return self.too_small(num_users)
        return self._linear.too_few(num_users)
