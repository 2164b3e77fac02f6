"""LdpFedAvg: a strategy for federated averaging from one randomised update per user."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Literal, Self

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.guarantee.training import NETWORK, RIDER, LocalTraining, with_parameters
from ldp_flower.models import Network
from ldp_flower.presentation.words import counted
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.refusals import Reason, TooFew
from ldp_flower.validation import Count, Positive, check_integer, check_number, check_unused

from ..forecasts.populations import features_of
from ..numerics.step_sizes import NoisyDescent
from ..runtime import Ask, Card, LdpStrategy, Protocol, Run, TooFewReports, ask_on
from ..runtime.at_node import AtNode
from ..runtime.population import SizeOnlyPopulation, fewest_users
from ..runtime.run import Arguments
from ..sums import networks
from ..sums.budget import Budget
from .fedavg_result import FedAvgResult
from .record_dp_sgd import linear_network
from .schedule import LONGEST_STEP, REFUSE_ABOVE, WARN_ABOVE, Reporting, Schedule, expected
from .server_optimizer import ServerOptimizer
from .signal import Signal
from .trained import Trained, check_trainable

logger = logging.getLogger("flwr")

# Reasons why arguments of FedAvg are refused.
_OF_METRICS = ("fraction_evaluate", "min_evaluate_nodes", "evaluate_metrics_aggr_fn")
_WEIGHTS = "weights are data of the nodes and do not leave them; all updates count the same."
_METRICS = (
    "nodes are never evaluated, which would cost them privacy. Pass evaluate_fn to start, which "
    "evaluates the model on the server's own rows."
)
_BEFORE_A_RUN = (
    "A run also needs at least {} users: `ldp-flower check APP` says before a run what is missing."
)

# Arguments that have no effect on sums over nodes.
_NOT_AT_NODE = (
    *("fraction_train", "min_train_nodes", "train_metrics_aggr_fn", "model", "clip"),
    *("path_length", "learning_rate", "optimizer", "sparsity", "local_steps"),
    *("local_learning_rate", "message_type", "arrayrecord_key", "configrecord_key"),
)

_ONE_A_NODE = (
    "With LdpUpdateMod each node is one user. For few silos use RecordDpSgdMod (protects records) "
    "or LdpUserUpdateMod (protects users, such as patients)."
)


@dataclass(kw_only=True, eq=False, repr=False)
class LdpFedAvg(AtNode, LdpStrategy[FedAvgResult]):
    """Strategy for federated averaging in which every user reports its update privately, once.

    A user is a node (:class:`ldp_flower.clients.LdpUpdateMod`) or one of several users of a node
    (:class:`ldp_flower.clients.LdpUserUpdateMod`). The users are split into disjoint cohorts. Each
    round sends the model to one cohort. The apps train it, and the mods report the updates through
    a local randomizer. The server debiases the reports and adds their mean, times a step length,
    to the model. Messages and records are those of Flower's ``FedAvg``, so an app needs no change
    except the mod.

    With noise at the node, or shared by nodes, a network is trained by DP-SGD instead: users of
    :class:`ldp_flower.clients.NetworkUsersApp` answer every step by their mean gradient, clipped,
    and nodes report sums of these with noise.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    fraction_train : float, optional
        Share of all nodes in one round, in (0, 1]. By default it is ``1 / num_rounds``, so that all
        nodes take part. Each round queries different nodes. With a smaller share, some nodes are
        never queried and spend nothing.
    min_train_nodes : int, optional
        Smallest number of nodes in a round. A schedule with smaller cohorts is refused.
    min_available_nodes : int, optional
        Smallest number of nodes to wait for before the census.
    train_metrics_aggr_fn : callable, optional
        Function that aggregates the metrics that clients declare public, as in Flower's ``FedAvg``:
        from a list of RecordDict and the name ``num-examples`` to a MetricRecord. By default
        metrics are averaged.
    model : {"linear", "net"} (default: "linear")
        Kind of model for which defaults are chosen: a linear or softmax model on rows of norm about
        1 (with a bias feature on the same scale), or a neural net, whose steps decrease linearly to
        0.
    clip : float, optional
        Norm at which updates are clipped. By default updates are normalised instead, which requires
        about 3 or more records per node. With one record per node use 0.5.
    path_length : float, optional
        Sum of the step lengths, which are then fixed in advance. By default step lengths are fitted
        during training (see Notes).
    learning_rate : float, optional
        Factor on the mean update in the first step, instead of a path length. Step lengths are then
        fixed in advance, too.
    optimizer : FedAdam, FedYogi, FedAdagrad or FedAvgM, optional
        One of Flower's strategy objects, whose arithmetic determines the steps. The private mean
        update replaces Flower's update, which is the average of models minus the last model. The
        optimiser then determines path length and learning rate. It is post-processing and costs no
        privacy.
    sparsity : int, optional
        Number of parameters of the trained model that may differ from zero (hard thresholding).
    force : bool (default: False)
        If True, start even if q is above 2.
    trainable : sequence of str, optional
        Names of the arrays that are trained, or patterns of names (``head.*``). All other arrays
        keep their initial values. For a PyTorch module with frozen layers use
        :func:`~ldp_flower.strategies.trainable_of`. By default all arrays of floats are trained,
        except the running statistics of batch normalisation.
    network : Network, optional
        A network as data, which users of :class:`ldp_flower.clients.NetworkUsersApp` train without
        an app's code. The network provides the initial arrays and the selection of trained arrays.
    local_steps : int (default: 5)
        Number of gradient steps of each user on the mean loss of its own rows, with a network.
    local_learning_rate : float (default: 0.5)
        Learning rate of these steps.
    message_type : str (default: "train")
        Type of the messages. It is ``train.NAME`` for the train function NAME.
    arrayrecord_key, configrecord_key : str
        Names of the records of model and config, as in Flower's ``FedAvg``.

    Notes
    -----
    Rule of thumb: q = sqrt(d c / n) for d parameters and n nodes, where c is the mechanism's noise
    (6.3, 1.6, 0.44, 0.13 at epsilon 1, 2, 4, 8). It is logged before the first query, with a
    warning above 0.6. Above 2 the run is refused. The noise grows with the path length, but not
    with the number of rounds.

    Fitted steps (:class:`~..numerics.step_sizes.NoisyDescent`) begin with half of a path. The path
    is 30 for a net, and otherwise min(100, sqrt(n / c)), for which the noise of a logit is about 1.
    Steps shrink if a mean update points back along the last step, and grow if it points in the same
    direction. The returned model is an average over the rounds, with larger weights of late rounds.

    The mean updates are tested against their known noise (:class:`.signal.Signal`). A run of
    normalised updates without a signal ends in its first half if a useful signal would have been
    detected by then. If no signal is detected in the whole run, a note of the result says so.

    With noise at the node or shared (DP-SGD by Abadi et al. 2016, without sampling), all users
    answer each of ``num_rounds`` steps, by default 30. A step is the users' mean gradient over its
    clip, times a length. The planned lengths are such that the noise of all steps adds up to a
    length of 20, and they are fitted as above. The clip begins at 0.01. It then changes until the
    share of clipped gradients, which each step estimates, is 40 over the signal-to-noise ratio of a
    sum, and between .05 and .5. Here q = 2.06 sqrt(d) / (n sqrt(2 rho h / K)) for n users on K
    nodes, h of which are relied on for noise (1 with noise at the node). The budget rho follows
    from ``epsilon`` and ``delta`` by zero-concentrated differential privacy.

    ``weighted_by_key``, ``fraction_evaluate``, ``min_evaluate_nodes`` and
    ``evaluate_metrics_aggr_fn`` have no meaning here and are refused with a reason, except for
    ``fraction_evaluate=0``. Weights and metrics are data of the nodes.

    Guarantee
    ---------
    1. Protected: all data of a user, against any other data, at pure ``epsilon``. With
       ``LdpUpdateMod`` that is the whole node.
    2. Every user answers one query; cohorts are disjoint and cut by public hashes.
    3. No matter what the strategy sends, the clients' mods and ledgers enforce this on their side.
       An app without the mod protects nobody.
    4. With ``noise="node"``, 1 and 2 are instead: protected are all records of a user, against
       everybody but the node that holds them, at (``epsilon``, ``delta``) for all steps together,
       which all users answer. With ``noise="shared"`` this holds if at most as many other nodes
       collude with the server as operators tolerate (``max-dishonest``). If all other nodes
       collude, it holds at the epsilon ``privacy.alone`` of the result.
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

    def __post_init__(self, weighted_by_key: object, *of_metrics: object) -> None:
        super().__post_init__()
        metrics = dict(zip(_OF_METRICS, of_metrics, strict=True))
        if metrics["fraction_evaluate"] == 0:
            metrics["fraction_evaluate"] = None
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
        if self.noise == "user":
            self._reporting(1)  # raises an error now if epsilon is invalid
        elif self.network is None:
            raise ValueError(f"Expected a network with noise={self.noise!r}, got None.")
        else:
            where = f"with noise={self.noise!r}, where all users answer steps of a fitted length"
            check_unused(self, where, *_NOT_AT_NODE)
        if self.trainable is not None:
            self.trainable = check_trainable(self.trainable)
        if self.network is None:
            check_unused(self, "without a network", "local_steps", "local_learning_rate")
        else:
            check_unused(self, "with a network, which names its trained arrays", "trainable")
            self._local()  # raises an error now if arguments are invalid
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
        """Smallest number of nodes: ``min_available_nodes``, or 1."""
        return self.min_available_nodes or 1

    def _rounds(self, num_rounds: int) -> int:
        """Return the number of rounds to run; 0 selects the rule of thumb.

        With a ``fraction_train``, 0 becomes the largest number of disjoint rounds of this share.
        Raise ValueError if ``num_rounds`` is larger.
        """
        if self.fraction_train is None:
            return num_rounds
        cohorts = math.floor(1 / self.fraction_train + 1e-9)
        if num_rounds > cohorts:
            raise ValueError(
                f"Expected fraction_train <= {1 / num_rounds:.3g} for {num_rounds} rounds, got "
                f"{self.fraction_train}: each round asks different nodes. Without fraction_train "
                "the rounds share all nodes."
            )
        return num_rounds or cohorts

    def _num_asked(self, num_users: int, num_rounds: int) -> int:
        """Return the number of users who are asked in the whole run."""
        if self.fraction_train is None:
            return num_users
        return num_rounds * max(1, math.floor(self.fraction_train * num_users + 1e-9))

    def public_means(self, public: list[MetricRecord]) -> MetricRecord:
        """Return the public metrics, aggregated by ``train_metrics_aggr_fn`` or averaged."""
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
        """Return a TooFew with the reasons to refuse a run and the users it needs, or None."""
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
        """Return the reasons to refuse a run of ``num_users`` users, each with its text.

        They are too small rounds (``cohorts``) and too much noise (``noise``). The dict is empty
        if the run may start.
        """
        schedule = self._schedule(reporting, max(num_users, 1), num_rounds)
        reasons: dict[Reason, str] = {}
        needed = max(self.min_reports, self.min_train_nodes or 0)
        if (some := min(num_users, *schedule.sizes)) < needed:
            reasons["cohorts"] = f"a round would ask {some} of them, and needs {needed}"
        if schedule.noise_to_signal > REFUSE_ABOVE and not self.force:
            good = self._for_a_good_model(reporting, num_users, num_rounds)
            reasons["noise"] = (
                f"the noise would drown the model (q > {REFUSE_ABOVE:g}): "
                f"{schedule.sentence(reporting)}, from {good} on the noise is acceptable (q < "
                f"{WARN_ABOVE:g}); a larger epsilon or fewer parameters (trainable=) need fewer, "
                "force=True tries anyway"
            )
        asked = self._num_asked(num_users, num_rounds)
        if reasons and asked < num_users:
            last = next(reversed(reasons))
            reasons[last] += f"; fraction_train asks {asked:,} of them"
        return reasons

    def _for_a_good_model(self, reporting: Reporting, num_users: int, num_rounds: int) -> str:
        """Return a text such as "some 20,000 users": the fewest for which q causes no warning."""
        needed = fewest_users(
            lambda users: self._schedule(reporting, users, num_rounds).noise_to_signal > WARN_ABOVE,
            num_users,
        )
        return "more users" if needed is None else f"some {needed:,} users"

    def _notes_on_noise(
        self, schedule: Schedule, reporting: Reporting, num_users: int, num_rounds: int
    ) -> list[str]:
        """Log the noise-to-signal ratio q; return a list with a note for the result if q > 0.6."""
        text = schedule.sentence(reporting)
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
    def carrier(self) -> str | None:
        """Type of the messages to the app's train function; None unless ``noise`` is ``"user"``.

        With noise at the node, or shared, nodes report sums and run no function of the app.
        """
        return self.message_type if self.noise == "user" else None

    def _arguments(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> Arguments:
        """Return the initial model, the number of rounds (0: rule of thumb) and the app's config.

        Raise ValueError if they are invalid.
        """
        if self.network is not None:
            if initial_arrays is not None:
                raise ValueError("Expected no initial_arrays with a network, which has its own.")
            initial_arrays = networks.arrays_of(self.network)
        if train_config and self.noise != "user":
            raise ValueError("Expected no train_config: nodes run no app of this run.")
        if not isinstance(initial_arrays, ArrayRecord):
            raise ValueError(
                "Expected initial_arrays to be an ArrayRecord, the model to start from, got "
                f"{type(initial_arrays).__name__}."
            )
        check_integer("num_rounds", num_rounds, 0)
        Trained.of(initial_arrays, self._trainable)  # raises an error now if the model is invalid
        self._rounds(num_rounds)
        return Arguments(initial_arrays, num_rounds, ConfigRecord({**(train_config or {})}))

    def _identity(self, arguments: Arguments) -> dict[str, object]:
        return vars(arguments)

    @property
    def _trainable(self) -> Sequence[str] | None:
        return self.trainable if self.network is None else self.network.graph.trainable

    def _trained(self, run: Run) -> Trained:
        assert run.arguments.initial_arrays is not None
        return Trained.of(run.arguments.initial_arrays, self._trainable)

    def protocol(self, run: Run) -> Protocol:
        """Query each cohort for its mean update, move the model along it, and return the model."""
        if self.noise != "user":
            return (yield from self._of_nodes(run))
        trained, rounds = self._trained(run), self._rounds(run.arguments.num_rounds)
        initial, theta = run.arguments.initial_arrays, trained.start
        assert initial is not None
        reporting = self._reporting(len(theta))
        question = replace(reporting.question, trained=trained.among)
        schedule = self._schedule(reporting, run.num_users, rounds)
        run.planned_steps = len(schedule.steps)
        notes = self._notes_on_noise(schedule, reporting, run.num_users, rounds)
        moved = None if self.optimizer is None else ServerOptimizer.of(self.optimizer).steps()
        fitted = self.path_length is None and self.learning_rate is None and moved is None
        planned = [1.0] * len(schedule.steps) if moved else schedule.steps
        descent = NoisyDescent(theta, planned, LONGEST_STEP / reporting.radius, fitted)
        signal = Signal(len(theta), len(schedule.steps))
        ended = False
        for number, cohort in enumerate(run.cohorts(schedule.sizes), 1):
            model = with_parameters(initial, descent.position, trained.names)
            message = self._message(number, model, run.arguments)
            ask = Ask(cohort, question, reporting.randomizer, content=message)
            answer = yield from ask_on(ask, number > 1)
            if answer is None:
                break
            update = answer.mean
            deviation = reporting.radius * math.sqrt(reporting.noise / answer.count)
            chance = signal.add(update, deviation)
            logger.info("\t└──> noise alone would be as long with probability %.2g", chance)
            # Clipped updates may be much shorter than the clip, so their expected norm is not
            # known. Normalised updates without a signal end the run before other users spend.
            if ended := self.clip is None and signal.missing:
                descent.reset()
                run.estimate = initial
                break
            position = descent.position
            direction = moved(number, position, update) - position if moved else update
            descent.follow(update, deviation, direction)
            run.estimate = with_parameters(initial, descent.estimate, trained.names)
        if self.sparsity and not ended:
            estimate = keep_largest(descent.estimate, self.sparsity)
            run.estimate = with_parameters(initial, estimate, trained.names)
        assert run.estimate is not None
        spared = sum(schedule.sizes[number:]) if ended else 0
        return FedAvgResult(
            model=run.estimate,
            noise_to_signal=schedule.noise_to_signal,
            path_length=math.nan if moved else sum(descent.steps) * reporting.radius,
            noise=math.nan if moved else descent.noise,
            text="" if self.network is None else self.network.graph.to_text(),
            notes=[*trained.notes, *notes, *signal.notes(spared)],
        )

    def _of_nodes(self, run: Run) -> Protocol:
        """Query all users for sums of gradients in each step, and return the trained model."""
        assert self.network is not None
        budget, dim = Budget.of(run, self.delta), self.network.num_trainable
        steps = run.arguments.num_rounds or networks.STEPS
        found = yield from networks.train(run, budget, self.network, steps)
        few = networks.too_few(budget, dim, WARN_ABOVE)
        return FedAvgResult(
            model=found.arrays,
            noise_to_signal=networks.noise_to_signal(budget, dim),
            path_length=found.path_length,
            noise=found.noise,
            text=self.network.graph.to_text(),
            notes=[] if few is None else [f"{few} Expect a poor network."],
        )

    @staticmethod
    def _config(number: int, arguments: Arguments) -> ConfigRecord:
        return ConfigRecord({**arguments.train_config, "server-round": number})

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return records for the census: a config of round 0, for the app's other mods."""
        return RecordDict({self.configrecord_key: self._config(0, arguments)})

    def _message(self, number: int, model: ArrayRecord, arguments: Arguments) -> RecordDict:
        """Return the message that Flower's ``FedAvg`` would send, plus the network if any."""
        config = self._config(number, arguments)
        content = RecordDict({self.arrayrecord_key: model, self.configrecord_key: config})
        if self.network is not None:
            content[NETWORK] = self._local().to_config()
        return content

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: a linear network of ``num_features`` parameters."""
        return cls(epsilon=epsilon, network=linear_network(features_of(setting, cls)))

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected noise-to-signal ratio q for ``num_features`` parameters."""
        if self.noise != "user":
            return self._expected_of_nodes(setting)
        reporting = self._reporting(features_of(setting, type(self)))
        if refusal := self._refused(reporting, setting.num_users, self._rounds(0)):
            raise WouldRefuse(refusal)
        return expected(self._schedule(reporting, setting.num_users, self._rounds(0)), reporting)

    def _expected_of_nodes(self, setting: Setting) -> Expectation:
        run = Run(self, SizeOnlyPopulation(setting.num_users, setting.num_nodes or 1))
        try:
            self._check_enough(run)
        except TooFewReports as refused:
            raise WouldRefuse(refused.refusal) from None
        assert self.network is not None
        budget = Budget.of(run, self.delta)
        return networks.expected(budget, self.network.num_trainable)

    def _check_enough(self, run: Run) -> None:
        """Raise TooFewReports if users or nodes are too few for sums with this noise."""
        assert self.network is not None
        budget, dim = Budget.of(run, self.delta), self.network.num_trainable
        most = math.inf if self.force else REFUSE_ABOVE
        if few := self._too_few(run.num_users) or networks.too_few(budget, dim, most):
            raise TooFewReports(few)

    def check_census(self, run: Run) -> None:
        """Raise TooFewReports with all reasons if the census has too few users."""
        if self.noise != "user":
            self._check_enough(run)
            return
        reporting = self._reporting(len(self._trained(run).start))
        rounds = self._rounds(run.arguments.num_rounds)
        if refusal := self._refused(reporting, run.num_users, rounds):
            raise TooFewReports(refusal)
