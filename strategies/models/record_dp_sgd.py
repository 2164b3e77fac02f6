"""RecordDpSgd: a strategy in which silos train a network that is sent as data, by DP-SGD."""

import logging
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord

from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.guarantee.budget import UNITS
from ldp_flower.guarantee.training import NetworkRound
from ldp_flower.models import Graph, Network
from ldp_flower.models.graph import Operation, Reference, Tensor
from ldp_flower.presentation.words import counted
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, check_choice, check_unused

from ..forecasts.populations import features_of
from ..runtime import Asked, Card, LdpStrategy, Run, TooFewReports, ask_on
from ..runtime.facts import PrivacySpent
from ..runtime.prints import LATER, Print, printed
from ..runtime.run import Arguments
from ..sums.networks import arrays_of, network_of
from .network_rounds import NetworkAsk, PlanEnd
from .record_noise import RecordNoise
from .record_result import RecordDpSgdResult

logger = logging.getLogger("flwr")

_USUAL_RATE_OF_ADAM = 0.1


def linear_network(parameters: int) -> Network:
    """Return a linear network with ``parameters`` parameters, which stands for any in a plan."""
    weight = Tensor("float32", (parameters, 1), True)
    product = Operation("aten.mm.default", (Reference(None), Reference("weight")), {})
    record = Tensor("float32", (parameters,))
    graph = Graph(record, {"weight": weight}, (product,), Reference(0), "mse")
    return Network(graph, {"weight": np.zeros((parameters, 1), np.float32)})


_USUAL_DELTA, _USUAL_ROUNDS = 1e-5, 20  # in a plan for which no strategy was constructed
_CHARGED = "The ledger of {} that has answered is charged the whole plan: epsilon {:g}, delta {:g}."
_NO_RECORDS = (
    "No node declares how many records it trains on: do nodes run NetworkClientApp or ldp-flower "
    "supernode --records, of this version?"
)
_NO_OWNERS = (
    "No node has users whose records it trains on: do the records have owners, and does each "
    'operator allow noise="node"?'
)
_STOPPED = (
    "Stopped after round {} of {}. {} of {} silos have confirmed the early end: their ledgers "
    "charge only the rounds so far. Other silos may still be charged for the whole plan."
)
_USUAL_RATE = {"record": 0.05, "user": 1.0}
_USUAL_RECORDS = {"record": None, "user": 10}  # of a user in a round


@dataclass(eq=False, repr=False)
class RecordDpSgd(LdpStrategy[RecordDpSgdResult]):
    """Strategy that trains a network on silos' records by DP-SGD. The network is sent as data.

    No silo runs code of other parties. Every silo answers in every round: it takes ``steps`` noisy
    steps from the current model. The server averages the silos' models, weighted by their declared
    numbers of records. Nodes run :class:`ldp_flower.clients.NetworkClientApp`, or are started with
    ``ldp-flower supernode --records``.

    Parameters
    ----------
    network : Network
        The network, with its initial parameters.
    epsilon, delta : float
        Privacy parameters of a record, or of a user, for all rounds together.
    num_rounds : int
        Number of rounds.
    steps : int (default: 10)
        Number of steps of the optimiser in a round.
    unit : {"record", "user"} (default: "record")
        Unit that is protected. With ``"user"``, it is a person (patient) with all records about
        this person. The nodes' records need owners, and their operators have to allow
        ``noise="node"``.
    sampling_rate : float, optional
        Probability that a record, or a user, is drawn for a step. By default 0.05 for records and 1
        for users: everybody is in every step. With few records use 1.
    max_grad_norm : float (default: 1.0)
        Norm at which the gradient of a record's loss, or a user's mean gradient, is clipped.
    records_per_user : int, optional
        Largest number of a user's records in one round, with ``unit="user"``; by default 10. If a
        user has more records, each round draws a new sample of them. Time and memory of a node
        grow with this number even if users have fewer records.
    optimizer : {"sgd", "adam", "adamw"} (default: "sgd")
        The optimiser on the nodes. It starts anew in every round.
    learning_rate : float, optional
        Learning rate of the optimiser. By default it follows from the noise for ``"sgd"`` (see
        Notes), and is 0.1 for the others.
    min_nodes : int (default: 1)
        Smallest number of silos with which a round continues. It replaces the ``min_reports`` of
        :class:`~..runtime.base.LdpStrategy`.
    force : bool (default: False)
        If True, train even if the noise is too large (q above 1).
    stop : callable, optional
        Function that gets the network after each round; the run ends if the function returns True.
        The function may use any data of the server. Silos then give back the epsilon of the rounds
        that are not asked any more. A plan with ``stop`` needs some more noise (3 to 5 %), and
        silos keep some more epsilon, because the end may depend on the answers. A run that
        continues from a store calls the function again, which must return the same value for the
        same network.

    Notes
    -----
    Source: Abadi et al. (2016) for the training on a node, McMahan et al. (2017) for the averaging.

    Rule of thumb: q = s sqrt(d K / T) / (r N) is the noise of the mean gradient over its largest
    norm, for noise multiplier s, d parameters, K silos with N records (or users) in all, T steps
    and sampling rate r. Silos declare their numbers of records, or of users, in a census, which
    costs no privacy. A run with q above 1 is refused before any silo spends budget;
    :func:`ldp_flower.plan` refuses it, too.

    By default, the steps of ``"sgd"`` add up to a length of 7 / q, and of 100 at most, if all
    gradients are clipped. So the accumulated noise has a length of 7 at most.

    Guarantee
    ---------
    1. Protected: every record of every silo, against any other record in its place, at
       (``epsilon``, ``delta``) for the whole run, against everybody but its own silo. With
       ``unit="user"``: every user of every silo, against any other records, and any number of
       them, in place of the user's. A person in several silos is a user of each.
    2. The rounds are one plan of the silo's ledger, which charges the whole plan with the first
       round. If ``stop`` ends the plan, the epsilon that the ledger keeps is a valid cost even if
       the answers decided the end. With ``unit="user"`` each user has an account, which is charged
       the same plan. A round's ``epsilon-spent`` is the cost of a record's answers up to this
       round, by the same accountant.
    3. No matter what the strategy sends, the nodes enforce this: see
       :class:`ldp_flower.clients.NetworkClientApp`.
    """

    protects = "record"
    carrier = "train"  # Flower's train messages
    instead_at_node = (
        "LdpFedAvg(network=...), or by RecordDpSgd without noise=, whose noise is at the node "
        'always (unit="user" protects users)'
    )
    plans_with = frozenset({"num_features", "rows_per_user"})
    sized = False
    card: ClassVar[Card] = Card(
        question="any network, exported as data, over silos",
        guarantee="(epsilon, delta)",
        rounds="5-50; every silo answers all",
        report="4 a parameter",
        use_when="silos hold many records each, and no code of a run may see them",
        fails_when="where the noise of the mean gradient is above 0.1 of its largest length "
        "(`ldp-flower plan` shows it)",
        page="silos",
    )

    network: Network
    _: KW_ONLY
    delta: float
    num_rounds: int
    steps: int = 10
    unit: str = "record"
    sampling_rate: float | None = None
    max_grad_norm: float = 1.0
    records_per_user: int | None = None
    optimizer: str = "sgd"
    learning_rate: float | None = None
    min_nodes: Count = 1
    force: bool = False
    stop: Callable[[Network], bool] | None = field(default=None, metadata={LATER: True})
    min_reports: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.network, Network):
            raise ValueError(f"Expected a Network, got {type(self.network).__name__}.")
        if not (self.stop is None or callable(self.stop)):
            raise ValueError(f"Expected stop to be a function, got {self.stop!r}.")
        check_choice("unit", self.unit, UNITS)
        if self.unit == "record":
            check_unused(self, "with unit='record'", "records_per_user")
        self.protects = self.unit
        rate, records = self.sampling_rate, self.records_per_user
        self.plan = DpSgdPlan(
            *(self.epsilon, self.delta, self.num_rounds, self.steps),
            _USUAL_RATE[self.unit] if rate is None else rate,
            self.max_grad_norm,
            _USUAL_RECORDS[self.unit] if records is None else records,
            self.stop is not None,
        )
        self._text = self.network.graph.to_text()
        rate = self.learning_rate
        self._round(1, 1.0 if rate is None else rate)  # raises an error now for invalid arguments

    def prints(self) -> dict[str, Print | str]:
        """Return a hash of each parameter; for ``stop`` it depends only on whether it is given."""
        own = super().prints()
        return own if self.stop is None else {**own, "stop": printed(True)}

    def _round(self, number: int, learning_rate: float) -> NetworkRound:
        """Return the settings that a message about a round has; the run adds its salt."""
        return NetworkRound(self._text, self.plan, self.optimizer, learning_rate, 0, number)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for a network of ``num_features`` parameters."""
        network = linear_network(features_of(setting, cls))
        return cls(network, epsilon=epsilon, delta=_USUAL_DELTA, num_rounds=_USUAL_ROUNDS)

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected noise-to-signal ratio q for silos with ``rows_per_user`` records."""
        silos, units = setting.num_users, setting.num_users * setting.rows_per_user
        if refusal := self._too_few(silos) or self._drowned(silos, units):
            raise WouldRefuse(refusal)
        return self._noise(silos, units).expectation()

    def _noise(self, silos: int, units: float) -> RecordNoise:
        return RecordNoise(self.plan, self.network.num_trainable, silos, units)

    def _units(self, run: Run) -> int:
        """Return how many records, or users, all silos declare together."""
        return (run.num_owners if self.unit == "user" else run.num_records) or 0

    def _too_few(self, num_users: int) -> TooFew | None:
        """Return a TooFew if there are fewer silos than ``min_nodes``, or None."""
        if num_users >= self.min_nodes:
            return None
        why = f"{counted(num_users, 'silo')} are too few."
        return TooFew(why, "cohorts", self.min_nodes, unit="silos")

    def _drowned(self, silos: int, units: float) -> TooFew | None:
        """Return a TooFew if the noise is too large and ``force`` is False, or None."""
        if not units:
            return TooFew(_NO_OWNERS if self.unit == "user" else _NO_RECORDS, "data")
        return None if self.force else self._noise(silos, units).refusal()

    def check_census(self, run: Run) -> None:
        """Raise TooFewReports if the silos, or the records that they declare, are too few."""
        silos = run.num_users
        if refusal := self._too_few(silos) or self._drowned(silos, self._units(run)):
            raise TooFewReports(refusal)

    def refusal(
        self, num_users: int, arguments: Arguments | None = None, num_nodes: int = 1
    ) -> TooFew | None:
        """Return a TooFew if there are too few silos, or None.

        The number of records is not considered: only the census declares it.
        """
        return self._too_few(num_users)

    @property
    def fewest_nodes(self) -> int:
        """Smallest number of nodes: ``min_nodes``."""
        return self.min_nodes

    def _arguments(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> Arguments:
        """Return the network's initial parameters; raise ValueError if ``start`` had arguments."""
        if initial_arrays or num_rounds or train_config:
            raise ValueError(
                "Expected no initial_arrays, num_rounds or train_config: the network has its "
                "arrays, and RecordDpSgd its num_rounds."
            )
        return Arguments(arrays_of(self.network))

    @property
    def charged(self) -> str:
        """Note on the cost: a silo's ledger charges the whole plan as soon as it answers."""
        of_users = "each user of a silo" if self.unit == "user" else "a silo"
        return _CHARGED.format(of_users, self.plan.epsilon, self.plan.delta)

    def cost(self, asked: Sequence[Any], seeded: bool) -> PrivacySpent:
        """Return the total privacy cost of a record or user (``unit``) for the rounds asked so far.

        The accountant composes the rounds.
        """
        rounds = sum(isinstance(each, NetworkAsk) for each in asked)
        spent = self.plan.epsilon_after(rounds) if rounds else 0.0
        noise = "node" if self.unit == "user" else "user"  # whom a user trusts, in the statement
        return PrivacySpent(spent, self.delta, self.protects, False, seeded, noise=noise)

    def protocol(self, run: Run) -> Generator[Asked, Any, RecordDpSgdResult]:
        """Ask all silos to train in each round, starting from the mean of their last models.

        Return the trained network.
        """
        plan, arrays = self.plan, run.arguments.initial_arrays
        assert arrays is not None
        run.planned_steps = self.num_rounds
        noise = self._noise(run.num_users, self._units(run) or math.nan)
        notes = noise.warning()
        for note in notes:
            logger.warning("\t├── %s", note)
        rate = self.learning_rate
        if rate is None:
            rate = noise.learning_rate if self.optimizer == "sgd" else _USUAL_RATE_OF_ADAM
        (silos,) = run.cohorts([run.num_users])
        for number in range(1, self.num_rounds + 1):
            asked = NetworkAsk(
                silos, self.network.graph, arrays, self._round(number, rate), self.min_nodes
            )
            mean = yield from ask_on(asked, number > 1)
            if mean is None:
                break
            trained = {name: Array(array) for name, array in mean.arrays.items()}
            arrays = run.estimate = ArrayRecord({**arrays, **trained})
            if number < self.num_rounds and self._stops(arrays):
                found = yield PlanEnd(silos, self._round(0, rate))
                notes.append(_STOPPED.format(number, plan.num_rounds, found.count, silos.size))
                break
        return RecordDpSgdResult(
            arrays=arrays,
            notes=notes,
            text=self._text,
            unit=self.unit,
            delta=plan.delta,
            planned_epsilon=plan.epsilon,
            planned_rounds=plan.num_rounds,
            steps_per_round=plan.steps,
            sampling_rate=plan.sampling_rate,
            noise_multiplier=plan.noise_multiplier,
            max_grad_norm=plan.max_grad_norm,
            noise_to_signal=noise.noise_to_signal,
        )

    def _stops(self, arrays: ArrayRecord) -> bool:
        return self.stop is not None and bool(self.stop(network_of(self._text, arrays)))

    def finished(self, run: Run, found: RecordDpSgdResult) -> RecordDpSgdResult:
        """Return the result, with the privacy cost of a record, or of a user."""
        assert found.privacy is not None
        found.epsilon = found.privacy.epsilon
        return found
