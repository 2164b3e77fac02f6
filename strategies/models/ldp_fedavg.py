"""LdpFedAvg: federated averaging of any model from one randomised update per user."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.guarantee.training import NETWORK, RIDER, LocalTraining, with_parameters
from ldp_flower.iht import keep_largest
from ldp_flower.models import Network
from ldp_flower.validation import check_integer, check_unused

from ..numerics.walk import Walk
from ..runtime import Ask, Card, Protocol, Run, TooFewReports
from ..runtime.run import Arguments
from .fedavg_arguments import FedAvgArguments, FedAvgResult
from .schedule import LONGEST_STEP, expected
from .server_optimizer import ServerOptimizer
from .signal import Signal
from .trained import Trained, check_trainable

logger = logging.getLogger("flwr")


@dataclass(kw_only=True, eq=False, repr=False)
class LdpFedAvg(FedAvgArguments):
    """Federated averaging in which every user reports its update privately, once.

    A user is a node (:class:`ldp_flower.clients.LdpUpdateMod`) or one of several behind a node
    (:class:`ldp_flower.clients.LdpUserUpdateMod`). Users are cut into disjoint cohorts. Every
    round sends the model to one cohort, whose apps train it and whose mods report
    their updates through a local randomizer; the mean of the debiased reports, times
    a step length, is added to the model. Messages and records are those of Flower's
    ``FedAvg``, so that an app needs no change but the mod.

    Other parameters are those of :class:`~.fedavg_arguments.FedAvgArguments`, some of which FedAvg
    has, and :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
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

    Fitted steps (:class:`~..numerics.walk.Walk`) begin with half of a path of 30 for a net,
    otherwise of min(100, sqrt(n / c)), for which the noise of a logit is about 1. They
    shrink when a mean update points back along the last step, and grow when it points on;
    the model is an average of the rounds', late ones above all.

    The mean updates are tested against their known noise (:class:`.signal.Signal`). A run
    of normalised updates without a signal is ended in its first half if a useful one would
    have been seen by then; if none is seen in the whole run, the result's notes say so.

    Guarantee
    ---------
    1. Protected: all data of a user, against any other data, at pure ``epsilon``. With
       ``LdpUpdateMod`` that is the whole node.
    2. Every user answers ``answers_per_user`` queries, of epsilon / answers_per_user each, rounded
       so that their sum is at most ``epsilon`` (basic composition); cohorts are disjoint and cut by
       public hashes.
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

    trainable: Sequence[str] | None = None
    network: Network | None = None
    local_steps: int = 5
    local_learning_rate: float = 0.5
    message_type: str = "train"
    arrayrecord_key: str = "arrays"
    configrecord_key: str = "config"

    def __post_init__(self, *refused: object) -> None:
        super().__post_init__(*refused)
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

    def _local(self) -> LocalTraining:
        assert self.network is not None
        text = self.network.graph.to_text()
        return LocalTraining(text, self.local_steps, float(self.local_learning_rate))

    @property
    def _rides_on(self) -> str:
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
        walk = Walk(theta, planned, LONGEST_STEP / reporting.radius, fitted)
        signal = Signal(len(theta), len(schedule.steps))
        cohorts = run.cohorts(schedule.sizes)
        direction, ended = np.zeros_like(theta), False
        for number in range(1, len(schedule.steps) + 1):
            cohort = cohorts[(number - 1) % len(cohorts)]
            model = with_parameters(initial, walk.position, trained.names)
            message = self._message(number, model, run.arguments)
            try:
                answer = yield Ask(cohort, question, reporting.randomizer, content=message)
            except TooFewReports:
                if number == 1:
                    raise
                if self.sparsity:
                    estimate = keep_largest(walk.estimate, self.sparsity)
                    run.estimate = with_parameters(initial, estimate, trained.names)
                break
            update = answer.mean
            deviation = reporting.radius * math.sqrt(reporting.noise / answer.count)
            chance = signal.add(update, deviation)
            logger.info("\t└──> noise alone would be as long with probability %.2g", chance)
            # Clipped updates may be far shorter than the clip: what to expect is not known.
            if ended := self.clip is None and signal.missing:  # before the others pay
                walk.go_back()
                run.estimate = initial
                break
            if moved:
                direction = moved(number, walk.position, update) - walk.position
            else:
                direction = self.momentum * direction + (1 - self.momentum) * update
            walk.follow(update, deviation, direction)
            estimate = walk.estimate
            if self.sparsity and self.threshold == "each":
                walk.position = keep_largest(walk.position, self.sparsity)
            if self.sparsity and (self.threshold == "each" or number == len(schedule.steps)):
                estimate = keep_largest(estimate, self.sparsity)
            run.estimate = with_parameters(initial, estimate, trained.names)
        assert run.estimate is not None
        return FedAvgResult(
            model=run.estimate,
            noise_to_signal=schedule.noise_to_signal,
            path_length=math.nan if moved else sum(walk.steps) * reporting.radius,
            noise=math.nan if moved else walk.noise,
            notes=[
                *trained.notes,
                *notes,
                *signal.notes(sum(schedule.sizes[number:]) if ended else 0),
            ],
        )

    @staticmethod
    def _config(number: int, arguments: Arguments) -> ConfigRecord:
        return ConfigRecord({**arguments.train_config, "server-round": number})

    def _census_content(self, arguments: Arguments) -> RecordDict:
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
