"""The arguments of LdpFedAvg: those of Flower's FedAvg, what is reported, and its steps."""

import logging
import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Literal

from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import counted
from ldp_flower.validation import (
    check_choice,
    check_integer,
    check_number,
    check_optional,
    check_unused,
)

from ..runtime import LdpStrategy, Result
from ..runtime.population import fewest_users
from .schedule import REFUSE_ABOVE, WARN_ABOVE, Reporting, Schedule
from .server_optimizer import ServerOptimizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

logger = logging.getLogger("flwr")


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

_ONE_A_NODE = (
    "With LdpUpdateMod each node is one user. Few silos: RecordDpSgdMod (protects records) or "
    "LdpUserUpdateMod (patients)."
)


@dataclass(kw_only=True, eq=False, repr=False)
class FedAvgArguments(LdpStrategy[FedAvgResult]):
    """Base class of :class:`~.ldp_fedavg.LdpFedAvg`: its arguments, and when a run is refused.

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
    model : {"linear", "net"} (default: "linear")
        What the defaults are for: a linear or softmax model on rows of length about 1
        (with a bias feature on the same scale), or a neural net.
    clip : float, optional
        Largest length of an update, longer ones are shortened. By default updates are normalised,
        which needs about 3 or more records a node; with one record a node take 0.5.
    num_codewords : int, optional
        Size of a codebook, by default as of :func:`~ldp_flower.randomizers.ball_codebook`.
    path_length : float, optional
        Sum of the step lengths, which are then taken as planned. By default they are
        fitted to the app as it trains (see Notes).
    learning_rate : float, optional
        The first step's multiple of the mean update, instead of a path length; steps are
        not fitted then either.
    decay : bool, optional
        Whether steps, fitted or not, decrease linearly to 0; by default for nets only.
    momentum : float (default: 0.0)
        Share of the previous direction in the next one, in [0, 1).
    optimizer : FedAdam, FedYogi, FedAdagrad or FedAvgM, optional
        A strategy object of Flower's, whose arithmetic takes the steps: the mean update is
        in the place of what Flower takes for it, the average of models less the last model.
        Path length, learning rate, decay and momentum are the optimiser's own then. It is
        post-processing: it costs no privacy.
    sparsity : int, optional
        Number of parameters that may differ from zero (hard thresholding).
    threshold : {"final", "each"} (default: "final")
        Whether to threshold the trained model or the model after each round
        (iterative hard thresholding).
    force : bool (default: False)
        Start even if q is above 2.

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
    model: Literal["linear", "net"] = "linear"
    clip: float | None = None
    num_codewords: int | None = None
    path_length: float | None = None
    learning_rate: float | None = None
    decay: bool | None = None
    momentum: float = 0.0
    optimizer: FedAvg | ServerOptimizer | None = None
    sparsity: int | None = None
    threshold: Literal["final", "each"] = "final"
    force: bool = False
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
        check_choice("model", self.model, ("linear", "net"))
        check_choice("threshold", self.threshold, ("final", "each"))
        check_optional(self, "clip", "path_length", "learning_rate")
        if self.sparsity is not None:
            check_integer("sparsity", self.sparsity, 1)
        else:
            check_unused(self, "without sparsity", "threshold")
        if self.path_length is not None and self.learning_rate is not None:
            raise ValueError("Expected path_length or learning_rate, got both.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"Expected 0 <= momentum < 1, got {self.momentum}.")
        if self.optimizer is not None:
            names = ("path_length", "learning_rate", "decay", "momentum")
            check_unused(self, "with an optimizer", *names)
            self.optimizer = ServerOptimizer.of(self.optimizer)
        self._reporting(1)  # refuses a bad epsilon now

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

    def _reporting(self, dim: int) -> Reporting:
        answers = self.answers_per_user
        epsilon = self.epsilon / answers
        while sum([epsilon] * answers) > self.epsilon:
            epsilon = math.nextafter(epsilon, 0.0)
        return Reporting.of(epsilon, dim, self.clip, self.num_codewords)

    def _schedule(self, reporting: Reporting, num_users: int, num_rounds: int) -> Schedule:
        net = self.model == "net"
        return Schedule.of(
            reporting,
            self._num_asked(num_users, num_rounds),
            self.answers_per_user,
            net,
            num_rounds,
            self.path_length,
            self.learning_rate,
            net if self.decay is None else self.decay,
        )

    def _refused(self, reporting: Reporting, num_users: int, num_rounds: int) -> str:
        """Say why so many users are not enough, and how many are; nothing if they are."""
        reasons = self._reasons(reporting, num_users, num_rounds)
        if not reasons:
            return ""

        def refused(users: int, rounds: int = num_rounds) -> bool:
            return bool(self._reasons(reporting, users, rounds))

        fewer = next((r for r in range(num_rounds - 1, 0, -1) if not refused(num_users, r)), None)
        way = "" if fewer is None else f" Or take num_rounds={fewer}."
        needed = fewest_users(refused, num_users)
        enough = "More users" if needed is None else f"At least {needed:,} users"
        return (
            f"{enough} are needed for "
            f"{counted(reporting.dim, 'parameter')}, got {num_users:,}: {'; '.join(reasons)}."
            f"{way} {_ONE_A_NODE}"
        )

    def _reasons(self, reporting: Reporting, num_users: int, num_rounds: int) -> list[str]:
        """Say all that makes a run of so many users useless."""
        schedule = self._schedule(reporting, max(num_users, 1), num_rounds)
        reasons = []
        asked, needed = min(schedule.sizes), max(self.min_reports, self.min_train_nodes or 0)
        if min(asked, num_users) < needed:
            reasons.append(f"a round would ask {min(asked, num_users)} of them, and needs {needed}")
        if schedule.noise_to_signal > REFUSE_ABOVE and not self.force:
            good = self._for_a_good_model(reporting, num_users, num_rounds)
            reasons.append(
                f"the noise would drown the model (q > {REFUSE_ABOVE:g}): "
                f"{schedule.told(reporting)}, from {good} on noise is not what limits it (q < "
                f"{WARN_ABOVE:g}); a larger epsilon or fewer parameters (trainable=) take fewer, "
                "force=True tries anyway"
            )
        asked = self._num_asked(num_users, num_rounds)
        if reasons and asked < num_users:
            reasons.append(f"fraction_train asks {asked:,} of them")
        return reasons

    def _for_a_good_model(self, reporting: Reporting, num_users: int, num_rounds: int) -> str:
        """Say with how many users the noise to signal is below what is warned of."""
        needed = fewest_users(
            lambda users: self._schedule(reporting, users, num_rounds).noise_to_signal > WARN_ABOVE,
            num_users,
        )
        return "more users" if needed is None else f"some {needed:,} users"

    def _judged(
        self, schedule: Schedule, reporting: Reporting, num_users: int, num_rounds: int
    ) -> list[str]:
        """Log the rule of thumb, and warn; return notes for the result."""
        text = schedule.told(reporting)
        logger.info("%s", text)
        if schedule.noise_to_signal <= WARN_ABOVE:
            return []
        wanted = self._for_a_good_model(reporting, num_users, num_rounds)
        note = f"{text}: above {WARN_ABOVE}, expect a poor model; {wanted} would be enough."
        logger.warning("%s", note)
        return [note]
