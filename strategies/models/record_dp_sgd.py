"""RecordDpSgd: silos train a network that comes as data; what its noise amounts to."""

import logging
import math
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.expectation import Expectation, Plannable, Setting, WouldRefuse
from ldp_flower.guarantee.training import ARRAYS, NETWORK, NetworkRound
from ldp_flower.models import Graph, Network
from ldp_flower.models.graph import Operation, Reference, Tensor
from ldp_flower.presentation import words
from ldp_flower.presentation.words import counted
from ldp_flower.randomizers import RecordGaussian
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.validation import PlainFields, check_integer, plain_arguments

from ..runtime.base import Card, EvaluateFn, WithoutEvaluation, evaluate
from ..runtime.population import wait_for_nodes
from ..runtime.result import SPENT, PrivacySpent, Step
from ..runtime.run import TooFewReports
from .network_rounds import NetworkStore, RecordDpSgdResult, Replies

#: Of q. Linear models of digits (simulations/studies/silo_records, five splits) lost .02 of their
#: accuracy at most up to .1, .08 to .40 at .15 to .32, and reached .17 at .94 (a guess: .10).
#: On breast cancer means from .26 on are between .73 and .85, with standard deviations up to .20.
WARN_ABOVE, REFUSE_ABOVE = 0.1, 1.0
_RANGE = 1.2816  # standard normal, of 8 runs in 10


@dataclass(frozen=True)
class RecordNoise:
    """What a plan's noise amounts to, for so many silos and records."""

    plan: DpSgdPlan  # noise, sampling rate, steps and rounds
    dim: int  # number of parameters that are trained
    silos: int  # number of silos
    records: float  # number of records of all silos

    @property
    def of_a_sum(self) -> float:
        """A parameter's signal to noise in a silo's sum of a step, if gradients point one way."""
        drawn = self.plan.sampling_rate * self.records / self.silos
        return drawn / (self.plan.noise_multiplier * math.sqrt(self.dim))

    @property
    def of_the_run(self) -> float:
        """Noise to signal q of the mean gradient over silos and steps, by Euclidean length."""
        steps = self.plan.num_rounds * self.plan.steps
        return 1 / (self.of_a_sum * math.sqrt(self.silos * steps))

    def told(self) -> str:
        """Return the rule of thumb in words."""
        return (
            f"Noise to signal q = {self.of_the_run:.2g} for {counted(self.dim, 'parameter')}, "
            f"{counted(self.silos, 'silo')} and {counted(round(self.records), 'record')} in all"
        )

    def refusal(self) -> str:
        """Return why the network would be noise, and what would do; nothing if it would not."""
        if (ratio := self.of_the_run) <= REFUSE_ABOVE:
            return ""
        enough = math.ceil(self.records * ratio / REFUSE_ABOVE)
        fewer = math.floor(self.dim * (REFUSE_ABOVE / ratio) ** 2)
        parameters = f", or {counted(fewer, 'parameter')} (trainable=)" if fewer else ""
        each = words.number(float(self.records / self.silos))
        return (
            f"The noise would drown the network: {self.told()}, above {REFUSE_ABOVE:g}. What would "
            f"do: {enough:,} records in all{parameters}, or a larger epsilon; got "
            f"{counted(self.silos, 'silo')} of {each} records."
        )

    def warning(self) -> list[str]:
        """Return a note if noise is to cost accuracy."""
        if self.of_the_run <= WARN_ABOVE:
            return []
        return [
            f"{self.told()}: above {WARN_ABOVE:g}, expect to lose accuracy, the more the larger q."
        ]

    def expectation(self) -> Expectation:
        """Return q, and the accountant's numbers."""
        plan, ratio = self.plan, self.of_the_run
        spread = _RANGE * math.sqrt(0.5 / self.dim)  # of the root of d squared normals, relative
        all_steps = plan.num_rounds * plan.steps
        rounds = sorted({1, -(-plan.num_rounds // 2), plan.num_rounds})
        spent = ", ".join(f"{plan.epsilon_after(each):.3g} after round {each}" for each in rounds)
        return Expectation(
            error="network's noise q, in lengths of the largest mean gradient",
            value=ratio,
            low=ratio * max(1 - spread, 0.0),
            high=ratio * (1 + spread),
            rounds=plan.num_rounds,
            randomizers=(
                RecordGaussian(
                    plan.epsilon, self.dim, plan.max_grad_norm, plan.delta, plan.num_rounds
                ),
            ),
            assumes=(
                f"{counted(self.dim, 'parameter')} are trained, in {all_steps} steps: "
                f"{counted(plan.num_rounds, 'round')} of {plan.steps}, sampling rate "
                f"{plan.sampling_rate:g}.",
                f"Every silo declares {words.number(float(self.records / self.silos))} records.",
            ),
            notes=(
                f"Noise multiplier {plan.noise_multiplier:.3g}; epsilon at delta {plan.delta:g}: "
                f"{spent}.",
                f"In one silo's sum of one step a parameter has a signal of {self.of_a_sum:.2g} "
                "standard deviations of the noise at most.",
                f"Above q = {WARN_ABOVE:g} expect to lose accuracy. How well it would do without "
                "privacy is not known to a plan.",
            ),
        )


def linear_network(parameters: int) -> Network:
    """Return a network with so many parameters, which is all that a plan reads of one."""
    weight = Tensor("float32", (parameters, 1), True)
    product = Operation("aten.mm.default", (Reference(None), Reference("weight")), {})
    record = Tensor("float32", (parameters,))
    graph = Graph(record, {"weight": weight}, (product,), Reference(0), "mse")
    return Network(graph, {"weight": np.zeros((parameters, 1), np.float32)})


logger = logging.getLogger("flwr")

_USUAL_DELTA, _USUAL_ROUNDS = 1e-5, 20  # of a plan that is asked for by the class
_CHARGED = "Ledgers of silos that answered hold the whole plan, epsilon {:g}."


@dataclass(eq=False)
class RecordDpSgd(PlainFields, WithoutEvaluation, Plannable):
    """Train a network on the records of silos by DP-SGD, without running anybody's code there.

    Every silo answers every round: it takes ``steps`` noisy steps from the model that it gets, and
    the server averages what comes back by the declared numbers of records. Nodes are
    :class:`ldp_flower.clients.NetworkClientApp`, or started with
    ``ldp-flower supernode --records``.

    Parameters
    ----------
    network : Network
        The network, with the parameters to start from.
    epsilon : float
        Privacy parameter of a record, for all rounds together.
    delta : float
        Privacy parameter of a record, for all rounds together.
    num_rounds : int
        Number of rounds.
    steps : int (default: 10)
        Number of steps of the optimiser in a round.
    sampling_rate : float (default: 0.05)
        Probability of a record to be drawn for a step. With few records take 1.
    max_grad_norm : float (default: 1.0)
        Length that the gradient of a record's loss is shortened to.
    optimizer : {"sgd", "adam"} (default: "sgd")
        The optimiser on the nodes, new in every round.
    learning_rate : float (default: 0.1)
        Its learning rate.
    min_nodes : int (default: 1)
        Fewest silos with which a round goes on.

    Notes
    -----
    Source: Abadi et al. (2016) on the nodes, McMahan et al. (2017) between them.

    Rule of thumb: q = s sqrt(d K / T) / (r N) is the noise of the mean gradient over its largest
    length, for noise multiplier s, d parameters, K silos with N records in all, T steps and
    sampling rate r. Declared numbers of records are known to the server after the first round
    only, which pays for all: :func:`ldp_flower.plan` gives q before, and refuses above 1.

    Guarantee
    ---------
    1. Protected: every record of every silo, against any other record in its place, at
       (``epsilon``, ``delta``) for the whole run, against everybody but its own silo.
    2. The rounds are one plan of the silo's ledger, paid as a whole with the first. A round's
       ``epsilon-spent`` is what a record's answers cost up to it, by the same accountant.
    3. No matter what the strategy sends, the nodes enforce this: see
       :class:`ldp_flower.clients.NetworkClientApp`.
    """

    protects: ClassVar[str] = "record"
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
    epsilon: float
    delta: float
    num_rounds: int
    steps: int = 10
    sampling_rate: float = 0.05
    max_grad_norm: float = 1.0
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    min_nodes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.network, Network):
            raise ValueError(f"Expected a Network, got {type(self.network).__name__}.")
        check_integer("min_nodes", self.min_nodes, 1)
        self.plan = DpSgdPlan(
            *(self.epsilon, self.delta, self.num_rounds, self.steps, self.sampling_rate),
            self.max_grad_norm,
        )
        self._text = self.network.graph.to_text()
        self._salt = 0
        self._asked(1)  # refuses bad arguments now
        self._nodes: list[int] = []
        self._replies = Replies(self.network.graph)
        self._steps: list[Step] = []

    def _asked(self, number: int) -> NetworkRound:
        how = self.optimizer, self.learning_rate
        return NetworkRound(self._text, self.plan, *how, self._salt, number)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy for ``num_features`` parameters, with its defaults."""
        if setting.num_features is None:
            raise ValueError("Expected num_features, the network's parameters, got None.")
        network = linear_network(setting.num_features)
        return cls(network, epsilon=epsilon, delta=_USUAL_DELTA, num_rounds=_USUAL_ROUNDS)

    def expect(self, setting: Setting) -> Expectation:
        """Return q, for ``num_users`` silos of ``rows_per_user`` records each."""
        noise = self._noise(setting.num_users, setting.num_users * setting.rows_per_user)
        if setting.num_users < self.min_nodes:
            raise WouldRefuse(
                f"At least {self.min_nodes} silos are needed, got {setting.num_users}."
            )
        if refusal := noise.refusal():
            raise WouldRefuse(refusal)
        return noise.expectation()

    def _noise(self, silos: int, records: float) -> RecordNoise:
        return RecordNoise(self.plan, self.network.num_trainable, silos, records)

    def summary(self) -> None:
        """Log the plan."""
        plan = self.plan
        logger.info(
            "\t├── RecordDpSgd: epsilon %g, delta %g, %d rounds of %d steps, sampling rate %g, "
            "noise multiplier %.3g; %d parameters are trained",
            *(plan.epsilon, plan.delta, plan.num_rounds, plan.steps, plan.sampling_rate),
            *(plan.noise_multiplier, self.network.num_trainable),
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return the messages of one round, to all nodes."""
        content = RecordDict({ARRAYS: arrays, NETWORK: self._asked(server_round).to_config()})
        nodes = self._nodes or sorted(grid.get_node_ids())
        return [Message(content, node, "train", group_id=str(server_round)) for node in nodes]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the mean of the models that came back, by declared numbers of records."""
        found = self._replies = Replies.of(self.network.graph, replies)
        mechanism = f"DP-SGD, noise multiplier {self.plan.noise_multiplier:.4g}"
        self._steps.append(found.step(server_round, len(self._nodes), mechanism))
        for reason, count in found.reasons.items():
            logger.warning("\t├── %d nodes: %s", count, reason)
        if found.answered < self.min_nodes:
            why = "; ".join(found.reasons) or "nobody answered in time"
            raise TooFewReports(
                f"Round {server_round} got {found.answered} answers, and {self.min_nodes} are "
                f"needed: {why}."
            )
        spent = self.plan.epsilon_after(server_round)
        logger.info("\t└──> %d nodes, epsilon spent so far %.3g", found.answered, spent)
        metrics = MetricRecord({"nodes": found.answered, "records": found.records, SPENT: spent})
        return found.mean(), metrics

    @plain_arguments
    def start(  # type: ignore[override]
        self,
        grid: Grid,
        *,
        timeout: float = 3600,
        evaluate_fn: EvaluateFn | None = None,
        num_nodes: int | None = None,
        roster_timeout: float = 120.0,
        store: str | Path | None = None,
    ) -> RecordDpSgdResult:
        """Run all rounds of the plan.

        Parameters
        ----------
        grid : Grid
            Flower's grid, or an :class:`~ldp_flower.InProcessGrid`.
        timeout : float (default: 3600)
            Seconds to wait for the answers of one round.
        evaluate_fn : callable, optional
            Called with the number of a round (0: before the first) and all parameters, on the
            server's own rows.
        num_nodes : int, optional
            Number of silos to wait for; by default until no new one comes.
        roster_timeout : float (default: 120.0)
            Seconds to wait for them.
        store : str or Path, optional
            File (.npz) that keeps the run. Started again with it, the run goes on after the last
            round that is in it: silos do not pay again.

        Returns
        -------
        RecordDpSgdResult
            The trained network, with every round's metrics.

        Raises
        ------
        TooFewReports
            If the first round has fewer answers than ``min_nodes``. Later the run ends, with the
            model of the rounds before and a note.
        """
        kept = NetworkStore(store, self.network, self._asked(1))
        self._salt, earlier = kept.salt, kept.done
        self.summary()
        self._nodes = wait_for_nodes(grid, num_nodes, roster_timeout, self.min_nodes)
        self._steps = []
        result = RecordDpSgdResult.of(self.plan, self._text, len(self._nodes), earlier)
        result.strategy, result.question = type(self).__name__, self.card.question
        result.steps = self._steps
        evaluate(result, earlier, kept.arrays, evaluate_fn)
        for number in range(earlier + 1, self.num_rounds + 1):
            logger.info("[ROUND %d/%d]", number, self.num_rounds)
            messages = self.configure_train(number, kept.arrays, ConfigRecord(), grid)
            replies = list(grid.send_and_receive(messages, timeout=timeout))
            try:
                mean, metrics = self.aggregate_train(number, replies)
            except TooFewReports as few:
                if number == 1:
                    raise
                result.ended_early = True
                last = f"The run ended early, with the model of round {number - 1}."
                result.notes.append(f"{last} {few} {_CHARGED.format(self.plan.epsilon)}")
                logger.warning("%s", result.notes[-1])
                break
            assert mean is not None and metrics is not None
            found = self._replies
            noise = self._noise(found.answered, found.records)
            result.add(number, metrics, found, [] if result.noise_to_signal else noise.warning())
            result.noise_to_signal = result.noise_to_signal or noise.of_the_run
            kept.keep(number, ArrayRecord({**kept.arrays, **mean}))
            evaluate(result, number, kept.arrays, evaluate_fn)
        else:
            logger.info("The budget is spent: epsilon %g, delta %g", result.epsilon, result.delta)
        result.arrays = kept.arrays
        result.privacy = PrivacySpent(
            result.epsilon, self.delta, self.protects, False, self._replies.seeded > 0
        )
        return result
