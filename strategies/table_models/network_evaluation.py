"""Evaluation of a network as data: its accuracy or loss on all users, and on each node's users."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.models import Network
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import counted, with_error
from ldp_flower.questions import NetworkScore
from ldp_flower.questions.sums import SQUARE
from ldp_flower.randomizers import Estimate, NodeSum, Randomizer
from ldp_flower.refusals import TooFew

from ..runtime import Ask, Estimates, Result, Run, TooFewReports
from ..runtime.ask import NodeEstimates
from ..runtime.result import frame, interval
from ..subprotocols.scales import number_randomizer
from ..sums.budget import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Largest standard errors, in units of the bound. A run is refused if the error by noise alone is
# larger, and a site gets no score if its whole error is larger.
_MOST_NOISE, _MOST_SITE_ERROR = 0.1, 0.1
_MOST_VARIANCE = 0.25  # largest variance of scores between 0 and 1
_WIDTH = 2  # number of entries of a report: a score and its square


@dataclass(frozen=True)
class SiteScore:
    """A network's score on the users of one node.

    ``value`` is NaN if the node has too few users for a ``std_error`` of a tenth of the bound.
    """

    node: int
    users: int
    value: float
    std_error: float


@dataclass(repr=False, kw_only=True)
class NetworkEvaluationResult(Result):
    """The estimated accuracy or loss of a network for the users who were asked.

    Attributes
    ----------
    metric : {"accuracy", "loss"}
        Score that was estimated: the mean over users of each user's mean over its rows.
    value : float
        The estimate. It is unbiased, so an accuracy may be estimated below 0 or above 1.
    std_error : float
        Standard error of ``value`` from privacy noise and from the choice of users.
    clip : float
        Bound on a user's mean; larger means are clipped.
    users_std_error : float
        Standard error among these users, by the noise of the nodes alone. NaN with noise at the
        user, where it is not known.
    sites : list of SiteScore
        The score on each node, with noise at the node. Empty otherwise.
    """

    metric: str
    value: float
    std_error: float
    clip: float
    users_std_error: float
    sites: list[SiteScore]

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([np.array([self.value])])

    def table(self) -> "DataFrame":
        """Return the score on all users, and on the users of each node.

        Returns
        -------
        DataFrame
            ``name``, ``value``, ``standard error`` and a 95 % interval, and the number of
            ``users``.
        """
        all_users = SiteScore(0, self.num_reports, self.value, self.std_error)
        rows = [all_users, *self.sites]
        values, errors = (np.array([getattr(r, n) for r in rows]) for n in ("value", "std_error"))
        return frame(
            {
                "name": [self.metric, *(f"node {site.node}" for site in self.sites)],
                "value": values,
                "standard error": errors,
                **interval(values, errors),
                "users": [row.users for row in rows],
            }
        )

    def estimates(self) -> Estimates:
        """Return the score on all users, which a series of collections follows."""
        errors = np.array([[self.std_error], [self.users_std_error]])
        return Estimates([self.metric], np.array([self.value]), *errors)

    @property
    def _height(self) -> float:
        return charts.height_of(1 + len(self.sites))

    def _draw(self, axes: "Axes") -> None:
        table = self.table()
        charts.intervals(axes, *(list(table[n]) for n in ("name", "value", "standard error")))
        axes.set_xlabel(f"{self.metric}, with a 95 % interval")

    def _findings(self) -> list[str]:
        known = [site.value for site in self.sites if not math.isnan(site.value)]
        found = f"{self.metric} = {with_error(self.value, self.std_error)}"
        if known:
            found += f"; on {counted(len(known), 'node')} {min(known):.2f} to {max(known):.2f}"
        return [found]


def evaluate(
    run: Run, network: Network, accuracy: bool, bound: float, delta: float
) -> Generator[Ask, Any, NetworkEvaluationResult]:
    """Ask all users to score a network on their rows; return the scores of all, and of nodes."""
    noise = run.settings.noise
    question = NetworkScore.of(network, bound, accuracy, squares=noise != "user")
    metric = "accuracy" if accuracy else "loss"
    mechanism = _mechanism(run, question, delta, f"estimate the {metric}")
    (cohort,) = run.cohorts([run.num_users])
    found = yield Ask(cohort, question, mechanism, by_node=noise == "node")
    whole = found.whole if isinstance(found, NodeEstimates) else found
    value, std_error = _scored(whole, question)
    sites = []
    if isinstance(found, NodeEstimates):
        for node, each in sorted(found.nodes.items()):
            own, error = _scored(each, question)
            enough = error <= _MOST_SITE_ERROR * bound
            sites.append(SiteScore(node, each.count, own if enough else math.nan, error))
    return NetworkEvaluationResult(
        metric=metric,
        value=value,
        std_error=std_error,
        clip=bound,
        users_std_error=bound * float(whole.std_error[0]) if question.squares else math.nan,
        sites=sites,
        notes=_notes(sites, mechanism),
    )


def _mechanism(run: Run, question: NetworkScore, delta: float, what: str) -> Randomizer:
    """Return the mechanism for a question; raise TooFewReports if users are too few for it.

    ``what`` is the text of the refusal after "too few to".
    """
    few: TooFew | None = None
    if not question.squares:
        mechanism = number_randomizer(run.epsilon, question.radius)
        needed = math.ceil(mechanism.variance / _MOST_NOISE**2)
        if run.num_users < needed:
            why = f"{run.num_users:,} users are too few at epsilon {run.epsilon:g} to {what}."
            few = TooFew(why, "noise", needed)
    else:
        budget = Budget.of(run, delta)
        mechanism = budget.ball(_WIDTH, question.radius, 1.0)
        few = budget.too_few(what, math.ceil(budget.error(mechanism) * budget.users / _MOST_NOISE))
    if few is not None:
        raise TooFewReports(few)
    return mechanism


def _scored(found: Estimate, question: NetworkScore) -> tuple[float, float]:
    """Return a score and its standard error, from the answer to ``question``.

    The error includes noise and the choice of users.
    """
    mean, error = float(found.mean[0]) + 0.5, float(found.std_error[0])
    if question.squares:
        # The spread is raised by one standard error, so that it is hardly ever too small.
        spread = float(found.mean[1]) / SQUARE + 0.5 - mean**2 + error / SQUARE
        sampling = min(max(spread, 0.0), _MOST_VARIANCE) / max(found.count, 1)
        error = math.hypot(error, math.sqrt(sampling))
    return question.bound * mean, question.bound * error


def _notes(sites: list[SiteScore], mechanism: Randomizer) -> list[str]:
    """Return a note on the nodes that have no score, with a number of users that is enough."""
    few = sum(math.isnan(site.value) for site in sites)
    if not few or not isinstance(mechanism, NodeSum):
        return []
    root = math.sqrt(_MOST_VARIANCE**2 + 4 * mechanism.variance * _MOST_SITE_ERROR**2)
    enough = math.ceil((_MOST_VARIANCE + root) / (2 * _MOST_SITE_ERROR**2))
    return [
        f"{counted(few, 'node')} of {len(sites)} have too few users for a score of their own: "
        f"{enough:,} users on a node are enough at this epsilon."
    ]
