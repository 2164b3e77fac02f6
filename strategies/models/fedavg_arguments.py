"""The arguments of Flower's FedAvg: which mean something here, and why the others cannot."""

import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, MetricRecord, RecordDict

from ldp_flower.presentation import charts
from ldp_flower.validation import check_integer, check_number

from ..runtime import LdpStrategy, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False, kw_only=True)
class FedAvgResult(Result):
    """A result whose estimate is a model.

    Attributes
    ----------
    model : ArrayRecord
        The trained model (also as ``arrays``): the initial arrays with other
        parameters; all that is not trained is as it was.
    noise_to_signal : float
        The rule of thumb q = sqrt(d c / n), for d parameters and n users: useful up
        to 0.6, hardly worse than without privacy up to 0.17.
    path_length : float
        Sum of the lengths of the steps, if every mean update had length 1; NaN where an
        optimizer chose them.
    noise : float
        Standard deviation of the noise that the steps added up to, per parameter: that
        of a logit, in a linear model with rows of length 1. Leaves out that a noisy
        step changes the later ones. NaN where an optimizer chose the steps.
    """

    model: ArrayRecord
    noise_to_signal: float
    path_length: float
    noise: float

    def __post_init__(self) -> None:
        self.arrays = self.model

    def _draw(self, axes: "Axes") -> None:
        super()._draw(axes)
        if math.isfinite(self.noise):
            label = "noise of a parameter"
            axes.axvline(self.noise, color=charts.RED, ls="--", lw=1, label=label)
            axes.legend()

    def _findings(self) -> list[str]:
        text = f"noise to signal q = {self.noise_to_signal:.2g} (of use up to 0.6)"
        if math.isfinite(self.noise):
            text += f", path length {self.path_length:.3g}, noise per parameter {self.noise:.2g}"
        return [text]


# Arguments of FedAvg that can mean nothing, by the reason.
_WEIGHTS = "weights are data of the nodes and do not leave them; all updates count the same."
_METRICS = (
    "nodes are never evaluated, which would cost them privacy. Take evaluate_fn of start, on the "
    "server's own rows."
)
_BEFORE_A_RUN = (
    "A run needs at least {} users as well: `ldp-flower check APP` says before it what it lacks."
)


@dataclass(kw_only=True, eq=False, repr=False)
class FedAvgArguments(LdpStrategy[FedAvgResult]):
    """Base class of strategies that take what Flower's ``FedAvg`` takes.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    answers_per_user : int (default: 1)
        Reports of one node in different rounds, which share ``epsilon``. More than one
        costs accuracy.
    fraction_train : float, optional
        Share of all nodes that one round asks, in (0, 1]; by default
        ``answers_per_user / num_rounds``, so that all are asked. Rounds ask different nodes:
        with a smaller share some are never asked, and spend nothing.
    min_train_nodes : int, optional
        Fewest nodes that a round asks; a schedule of smaller cohorts is refused.
    min_available_nodes : int, optional
        Fewest nodes to wait for before the census.
    train_metrics_aggr_fn : callable, optional
        Function that aggregates the metrics that clients declare public, as in Flower's ``FedAvg``:
        from a list of RecordDict and the name ``num-examples`` to a MetricRecord. By default means.

    Notes
    -----
    ``weighted_by_key``, ``fraction_evaluate``, ``min_evaluate_nodes`` and
    ``evaluate_metrics_aggr_fn`` can mean nothing here and are refused with the reason, but for
    ``fraction_evaluate=0``: weights and metrics are data of the nodes.
    """

    answers_per_user: int = 1
    fraction_train: float | None = None
    min_train_nodes: int | None = None
    min_available_nodes: int | None = None
    train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None
    weighted_by_key: InitVar[object] = None
    fraction_evaluate: InitVar[object] = None
    min_evaluate_nodes: InitVar[object] = None
    evaluate_metrics_aggr_fn: InitVar[object] = None

    def __post_init__(
        self,
        weighted_by_key: object,
        fraction_evaluate: object,
        min_evaluate_nodes: object,
        evaluate_metrics_aggr_fn: object,
    ) -> None:
        super().__post_init__()
        metrics = {
            "fraction_evaluate": None if fraction_evaluate == 0 else fraction_evaluate,
            "min_evaluate_nodes": min_evaluate_nodes,
            "evaluate_metrics_aggr_fn": evaluate_metrics_aggr_fn,
        }
        refused = []
        for given, why in (({"weighted_by_key": weighted_by_key}, _WEIGHTS), (metrics, _METRICS)):
            found = [f"{name}={value!r}" for name, value in given.items() if value is not None]
            if found:
                refused.append(f"Remove {', '.join(found)}: {why}")
        if refused:
            raise ValueError(" ".join([*refused, _BEFORE_A_RUN.format(self.min_reports)]))
        check_integer("answers_per_user", self.answers_per_user, 1)
        if self.fraction_train is not None:
            check_number("fraction_train", self.fraction_train)
            if not 0 < self.fraction_train <= 1:
                raise ValueError(f"Expected 0 < fraction_train <= 1, got {self.fraction_train}.")
        for name in ("min_train_nodes", "min_available_nodes"):
            if (number := getattr(self, name)) is not None:
                check_integer(name, number, 1)
        if not (self.train_metrics_aggr_fn is None or callable(self.train_metrics_aggr_fn)):
            raise ValueError(
                "Expected train_metrics_aggr_fn to be a function, got "
                f"{self.train_metrics_aggr_fn!r}."
            )

    @property
    def _fewest_nodes(self) -> int:
        return self.min_available_nodes or 1

    def _rounds(self, num_rounds: int) -> int:
        """Return how many rounds (0: by rule); raise ValueError if nodes are too few for them."""
        if self.fraction_train is None:
            return num_rounds
        cohorts = math.floor(1 / self.fraction_train + 1e-9)
        if num_rounds > self.answers_per_user * cohorts:
            raise ValueError(
                f"Expected fraction_train <= {1 / -(-num_rounds // self.answers_per_user):.3g} for "
                f"{num_rounds} rounds, got {self.fraction_train}: every round asks other nodes, "
                f"as each answers answers_per_user = {self.answers_per_user} of them. Remove "
                "it, and the rounds share all nodes."
            )
        return num_rounds or self.answers_per_user * cohorts

    def _num_asked(self, num_users: int, num_rounds: int) -> int:
        """Return how many users are asked at all."""
        if self.fraction_train is None:
            return num_users
        cohorts = -(-num_rounds // self.answers_per_user)
        return cohorts * max(1, math.floor(self.fraction_train * num_users + 1e-9))

    def _aggregated(self, public: list[MetricRecord]) -> MetricRecord:
        if self.train_metrics_aggr_fn is None or not public:
            return super()._aggregated(public)
        records = [RecordDict({"metrics": metrics}) for metrics in public]
        found = self.train_metrics_aggr_fn(records, "num-examples")
        if not isinstance(found, MetricRecord):
            raise ValueError(
                f"Expected train_metrics_aggr_fn to return a MetricRecord, got {found!r}."
            )
        return found
