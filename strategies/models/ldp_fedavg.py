"""LdpFedAvg: federated averaging of any model from one randomised update per user."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.guarantee.training import NETWORK, RIDER, LocalTraining, with_parameters
from ldp_flower.models import Network
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import counted
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.refusals import Reason, TooFew
from ldp_flower.validation import Count, Positive, check_integer, check_number, check_unused

from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Card, LdpStrategy, Protocol, Result, Run, TooFewReports
from ..runtime.population import fewest_users
from ..runtime.run import Arguments
from .schedule import LONGEST_STEP, REFUSE_ABOVE, WARN_ABOVE, Reporting, Schedule, expected
from .server_optimizer import ServerOptimizer
from .signal import Signal
from .trained import Trained, check_trainable

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
        The rule of thumb q = sqrt(d c / n), for d parameters and n users: above 0.6 the noise
        is too much. How good a model is below that depends on its data, too.
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
class LdpFedAvg(LdpStrategy[FedAvgResult]):
    """Federated averaging in which every user reports its update privately, once.

    A user is a node (:class:`ldp_flower.clients.LdpUpdateMod`) or one of several behind a node
    (:class:`ldp_flower.clients.LdpUserUpdateMod`). Users are cut into disjoint cohorts. Every
    round sends the model to one cohort, whose apps train it and whose mods report
    their updates through a local randomizer; the mean of the debiased reports, times
    a step length, is added to the model. Messages and records are those of Flower's
    ``FedAvg``, so that an app needs no change but the mod.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    fraction_train : float, optional
        Share of all nodes that one round asks, in (0, 1]; by default ``1 / num_rounds``, so that
        all are asked. Rounds ask different nodes: with a smaller share some are never asked, and
        spend nothing.
    min_train_nodes : int, optional
        Fewest nodes that a round asks; a schedule of smaller cohorts is refused.
    min_available_nodes : int, optional
        Fewest nodes to wait for before the census.
    train_metrics_aggr_fn : callable, optional
        Function that aggregates the metrics that clients declare public, as in Flower's ``FedAvg``:
        from a list of RecordDict and the name ``num-examples`` to a MetricRecord. By default means.
    model : {"linear", "net"} (default: "linear")
        What the defaults are for: a linear or softmax model on rows of length about 1
        (with a bias feature on the same scale), or a neural net, whose steps decrease linearly
        to 0.
    clip : float, optional
        Largest length of an update, longer ones are shortened. By default updates are normalised,
        which needs about 3 or more records a node; with one record a node take 0.5.
    path_length : float, optional
        Sum of the step lengths, which are then taken as planned. By default they are
        fitted to the app as it trains (see Notes).
    learning_rate : float, optional
        The first step's multiple of the mean update, instead of a path length; steps are
        not fitted then either.
    optimizer : FedAdam, FedYogi, FedAdagrad or FedAvgM, optional
        A strategy object of Flower's, whose arithmetic takes the steps: the mean update is
        in the place of what Flower takes for it, the average of models less the last model.
        Path length and learning rate are the optimiser's own then. It is post-processing: it
        costs no privacy.
    sparsity : int, optional
        Number of parameters of the trained model that may differ from zero (hard thresholding).
    force : bool (default: False)
        Start even if q is above 2.
    trainable : sequence of str, optional
        Names of the arrays that are trained, or patterns of names (``head.*``); all others
        stay as the initial arrays have them. For a PyTorch module with frozen layers take
        :func:`~ldp_flower.strategies.trainable_of`. By default all arrays of floats but the
        running statistics of batch normalisation.
    network : Network, optional
        A network as data, which users of :class:`ldp_flower.clients.NetworkUsersApp` train
        without any code of an app. Its parameters are the initial arrays, and it says which of
        them are trained.
    local_steps : int (default: 5)
        Number of steps of each user, down the mean loss of its own rows.
    local_learning_rate : float (default: 0.5)
        Their length, over that of the gradient.
    message_type : str (default: "train")
        Type of the messages, ``train.NAME`` for the train function NAME.
    arrayrecord_key, configrecord_key : str
        Names of the records of model and config, as in Flower's ``FedAvg``.

    Notes
    -----
    Rule of thumb: q = sqrt(d c / n) for d parameters and n nodes, where c is the
    mechanism's noise (6.3, 1.6, 0.44, 0.13 at epsilon 1, 2, 4, 8). It is logged before
    anybody is asked, with a warning above 0.6; above 2 the run is refused. The noise
    grows with the path length and not with the number of rounds.

    Fitted steps (:class:`~..numerics.step_sizes.NoisyDescent`) begin with half of a path of 30 for
    a net, otherwise of min(100, sqrt(n / c)), for which the noise of a logit is about 1. They
    shrink when a mean update points back along the last step, and grow when it points on; the model
    is an average of the rounds', late ones above all.

    The mean updates are tested against their known noise (:class:`.signal.Signal`). A run
    of normalised updates without a signal is ended in its first half if a useful one would
    have been seen by then; if none is seen in the whole run, the result's notes say so.

    ``weighted_by_key``, ``fraction_evaluate``, ``min_evaluate_nodes`` and
    ``evaluate_metrics_aggr_fn`` can mean nothing here and are refused with the reason, but for
    ``fraction_evaluate=0``: weights and metrics are data of the nodes.

    Guarantee
    ---------
    1. Protected: all data of a user, against any other data, at pure ``epsilon``. With
       ``LdpUpdateMod`` that is the whole node.
    2. Every user answers one query; cohorts are disjoint and cut by public hashes.
    3. No matter what the strategy sends, the clients' mods and ledgers enforce this on their side.
       An app without the mod protects nobody.
    """

    card = Card(
        question="any model that an existing app trains",
        guarantee="pure epsilon",
        rounds="20-100",
        report="1-2",
        use_when="there are some 5 nodes a parameter at epsilon 2, 19 at 1",
        fails_when="where sqrt(d c / n) is above 0.6 for d parameters and n nodes, c = 6.3, 1.6, "
        "0.44 at epsilon 1, 2, 4",
        page="model-updates",
    )

    plans_with = frozenset({"num_features"})
    sized = False

    fraction_train: float | None = None
    min_train_nodes: Count | None = None
    min_available_nodes: Count | None = None
    train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None
    model: Literal["linear", "net"] = "linear"
    clip: Positive | None = None
    path_length: Positive | None = None
    learning_rate: Positive | None = None
    optimizer: FedAvg | ServerOptimizer | None = None
    sparsity: Count | None = None
    force: bool = False
    trainable: Sequence[str] | None = None
    network: Network | None = None
    local_steps: Count = 5
    local_learning_rate: float = 0.5
    message_type: str = "train"
    arrayrecord_key: str = "arrays"
    configrecord_key: str = "config"
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
        if self.fraction_train is not None:
            check_number("fraction_train", self.fraction_train)
            if not 0 < self.fraction_train <= 1:
                raise ValueError(f"Expected 0 < fraction_train <= 1, got {self.fraction_train}.")
        if not (self.train_metrics_aggr_fn is None or callable(self.train_metrics_aggr_fn)):
            raise ValueError(
                "Expected train_metrics_aggr_fn to be a function, got "
                f"{self.train_metrics_aggr_fn!r}."
            )
        if self.path_length is not None and self.learning_rate is not None:
            raise ValueError("Expected path_length or learning_rate, got both.")
        if self.optimizer is not None:
            check_unused(self, "with an optimizer", "path_length", "learning_rate")
            self.optimizer = ServerOptimizer.of(self.optimizer)
        self._reporting(1)  # refuses a bad epsilon now
        if self.trainable is not None:
            self.trainable = check_trainable(self.trainable)
        if self.network is None:
            check_unused(self, "without a network", "local_steps", "local_learning_rate")
        else:
            check_unused(self, "with a network, which says it", "trainable")
            self.trainable = check_trainable(self.network.graph.trainable)
            self._local()  # refuses bad arguments now
        if self.message_type != "train" and not self.message_type.startswith("train."):
            raise ValueError(
                f"Expected message_type train or train.NAME, got {self.message_type!r}."
            )
        for name in ("arrayrecord_key", "configrecord_key"):
            if (
                getattr(self, name) in (RIDER, NETWORK)
                or self.arrayrecord_key == self.configrecord_key
            ):
                raise ValueError(
                    f"Expected {name} to be a name that no other record has, got "
                    f"{getattr(self, name)!r}."
                )

    @property
    def fewest_nodes(self) -> int:
        """The ``min_available_nodes``."""
        return self.min_available_nodes or 1

    def _rounds(self, num_rounds: int) -> int:
        """Return how many rounds (0: by rule); raise ValueError if nodes are too few for them."""
        if self.fraction_train is None:
            return num_rounds
        cohorts = math.floor(1 / self.fraction_train + 1e-9)
        if num_rounds > cohorts:
            raise ValueError(
                f"Expected fraction_train <= {1 / num_rounds:.3g} for {num_rounds} rounds, got "
                f"{self.fraction_train}: every round asks other nodes. Remove it, and the rounds "
                "share all nodes."
            )
        return num_rounds or cohorts

    def _num_asked(self, num_users: int, num_rounds: int) -> int:
        """Return how many users are asked at all."""
        if self.fraction_train is None:
            return num_users
        return num_rounds * max(1, math.floor(self.fraction_train * num_users + 1e-9))

    def public_means(self, public: list[MetricRecord]) -> MetricRecord:
        """Return what ``train_metrics_aggr_fn`` makes of them."""
        if self.train_metrics_aggr_fn is None or not public:
            return super().public_means(public)
        records = [RecordDict({"metrics": metrics}) for metrics in public]
        found = self.train_metrics_aggr_fn(records, "num-examples")
        if not isinstance(found, MetricRecord):
            raise ValueError(
                f"Expected train_metrics_aggr_fn to return a MetricRecord, got {found!r}."
            )
        return found

    def _reporting(self, dim: int) -> Reporting:
        return Reporting.of(self.epsilon, dim, self.clip)

    def _schedule(self, reporting: Reporting, num_users: int, num_rounds: int) -> Schedule:
        return Schedule.of(
            reporting,
            self._num_asked(num_users, num_rounds),
            self.model == "net",
            num_rounds,
            self.path_length,
            self.learning_rate,
        )

    def _refused(self, reporting: Reporting, num_users: int, num_rounds: int) -> TooFew | None:
        """Return why so many users are not enough, and how many are; None if they are."""
        reasons = self._reasons(reporting, num_users, num_rounds)
        if not reasons:
            return None

        def refused(users: int, rounds: int = num_rounds) -> bool:
            return bool(self._reasons(reporting, users, rounds))

        fewer = next((r for r in range(num_rounds - 1, 0, -1) if not refused(num_users, r)), None)
        way = "" if fewer is None else f"Or take num_rounds={fewer}. "
        parameters = counted(reporting.dim, "parameter")
        return TooFew(
            f"{num_users:,} users are too few for {parameters}: {'; '.join(reasons.values())}.",
            next(iter(reasons)),
            fewest_users(refused, num_users),
            advice=f"{way}{_ONE_A_NODE}",
        )

    def _reasons(self, reporting: Reporting, num_users: int, num_rounds: int) -> dict[Reason, str]:
        """Return all that makes a run of so many users useless, in words."""
        schedule = self._schedule(reporting, max(num_users, 1), num_rounds)
        reasons: dict[Reason, str] = {}
        asked, needed = min(schedule.sizes), max(self.min_reports, self.min_train_nodes or 0)
        if min(asked, num_users) < needed:
            some = min(asked, num_users)
            reasons["cohorts"] = f"a round would ask {some} of them, and needs {needed}"
        if schedule.noise_to_signal > REFUSE_ABOVE and not self.force:
            good = self._for_a_good_model(reporting, num_users, num_rounds)
            reasons["noise"] = (
                f"the noise would drown the model (q > {REFUSE_ABOVE:g}): "
                f"{schedule.told(reporting)}, from {good} on noise is not what limits it (q < "
                f"{WARN_ABOVE:g}); a larger epsilon or fewer parameters (trainable=) take fewer, "
                "force=True tries anyway"
            )
        asked = self._num_asked(num_users, num_rounds)
        if reasons and asked < num_users:
            last = next(reversed(reasons))
            reasons[last] += f"; fraction_train asks {asked:,} of them"
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

    def _local(self) -> LocalTraining:
        assert self.network is not None
        text = self.network.graph.to_text()
        return LocalTraining(text, self.local_steps, float(self.local_learning_rate))

    @property
    def carrier(self) -> str:
        """The app's own messages."""
        return self.message_type

    def _arguments(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> Arguments:
        """Return the model, the number of rounds (0: by rule) and the app's config."""
        if self.network is not None:
            if initial_arrays is not None:
                raise ValueError("Expected no initial_arrays with a network, which has its own.")
            arrays = {name: Array(np.asarray(a)) for name, a in self.network.arrays.items()}
            initial_arrays = ArrayRecord(arrays)
        if not isinstance(initial_arrays, ArrayRecord):
            raise ValueError(
                "Expected initial_arrays to be an ArrayRecord, the model to start from, got "
                f"{type(initial_arrays).__name__}."
            )
        check_integer("num_rounds", num_rounds, 0)
        Trained.of(initial_arrays, self.trainable)  # refuses a bad model now
        self._rounds(num_rounds)
        return Arguments(initial_arrays, num_rounds, ConfigRecord({**(train_config or {})}))

    def _identity(self, arguments: Arguments) -> dict[str, object]:
        return vars(arguments)

    def _trained(self, run: Run) -> Trained:
        assert run.arguments.initial_arrays is not None
        return Trained.of(run.arguments.initial_arrays, self.trainable)

    def protocol(self, run: Run) -> Protocol:
        """Ask cohort after cohort for its mean update, and follow it."""
        trained, rounds = self._trained(run), self._rounds(run.arguments.num_rounds)
        initial, theta = run.arguments.initial_arrays, trained.start
        assert initial is not None
        reporting = self._reporting(len(theta))
        question = replace(reporting.question, trained=trained.among)
        schedule = self._schedule(reporting, run.num_users, rounds)
        run.planned_steps = len(schedule.steps)
        notes = self._judged(schedule, reporting, run.num_users, rounds)
        moved = None if self.optimizer is None else ServerOptimizer.of(self.optimizer).steps()
        fitted = self.path_length is None and self.learning_rate is None and moved is None
        planned = [1.0] * len(schedule.steps) if moved else schedule.steps
        descent = NoisyDescent(theta, planned, LONGEST_STEP / reporting.radius, fitted)
        signal = Signal(len(theta), len(schedule.steps))
        ended = False
        for number, cohort in enumerate(run.cohorts(schedule.sizes), 1):
            model = with_parameters(initial, descent.position, trained.names)
            message = self._message(number, model, run.arguments)
            try:
                answer = yield Ask(cohort, question, reporting.randomizer, content=message)
            except TooFewReports:
                if number == 1:
                    raise
                if self.sparsity:
                    estimate = keep_largest(descent.estimate, self.sparsity)
                    run.estimate = with_parameters(initial, estimate, trained.names)
                break
            update = answer.mean
            deviation = reporting.radius * math.sqrt(reporting.noise / answer.count)
            chance = signal.add(update, deviation)
            logger.info("\t└──> noise alone would be as long with probability %.2g", chance)
            # Clipped updates may be far shorter than the clip: what to expect is not known.
            if ended := self.clip is None and signal.missing:  # before the others pay
                descent.go_back()
                run.estimate = initial
                break
            moves = moved and moved(number, descent.position, update) - descent.position
            direction = update if moves is None else moves
            descent.follow(update, deviation, direction)
            estimate = descent.estimate
            if self.sparsity and number == len(schedule.steps):
                estimate = keep_largest(estimate, self.sparsity)
            run.estimate = with_parameters(initial, estimate, trained.names)
        assert run.estimate is not None
        return FedAvgResult(
            model=run.estimate,
            noise_to_signal=schedule.noise_to_signal,
            path_length=math.nan if moved else sum(descent.steps) * reporting.radius,
            noise=math.nan if moved else descent.noise,
            notes=[
                *trained.notes,
                *notes,
                *signal.notes(sum(schedule.sizes[number:]) if ended else 0),
            ],
        )

    @staticmethod
    def _config(number: int, arguments: Arguments) -> ConfigRecord:
        return ConfigRecord({**arguments.train_config, "server-round": number})

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return the config of round 0, which mods before ldp-flower's may read."""
        return RecordDict({self.configrecord_key: self._config(0, arguments)})

    def _message(self, number: int, model: ArrayRecord, arguments: Arguments) -> RecordDict:
        """Return what Flower's ``FedAvg`` would send."""
        config = self._config(number, arguments)
        content = RecordDict({self.arrayrecord_key: model, self.configrecord_key: config})
        if self.network is not None:
            content[NETWORK] = self._local().to_config()
        return content

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy with its defaults."""
        return cls(epsilon=epsilon)

    def expect(self, setting: Setting) -> Expectation:
        """Return q, of a model with ``num_features`` parameters and rounds by rule."""
        if setting.num_features is None:
            raise ValueError("Expected num_features, the model's parameters, got None.")
        reporting = self._reporting(setting.num_features)
        if refusal := self._refused(reporting, setting.num_users, self._rounds(0)):
            raise WouldRefuse(refusal)
        return expected(self._schedule(reporting, setting.num_users, self._rounds(0)), reporting)

    def check_census(self, run: Run) -> None:
        """Raise TooFewReports, with all reasons, if a run would be of no use."""
        reporting = self._reporting(len(self._trained(run).start))
        rounds = self._rounds(run.arguments.num_rounds)
        if refusal := self._refused(reporting, run.num_users, rounds):
            raise TooFewReports(refusal)
