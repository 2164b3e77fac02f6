"""RecordDpSgd: silos train a network that comes as data; each of their records is protected."""

import hashlib
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from ldp_flower.guarantee.network_round import ARRAYS, METRICS, NETWORK, NetworkRound
from ldp_flower.models import Network
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.validation import check_integer

from ..runtime.base import TooFewReports
from ..runtime.census import wait_for_nodes
from .model_result import RecordDpSgdResult

logger = logging.getLogger("flwr")

_WEIGHT = "num-examples"
_SPENT = "epsilon-spent"


class RecordDpSgd(FedAvg):
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
        Probability of a record to be drawn for a step.
    max_grad_norm : float (default: 1.0)
        Length that the gradient of a record's loss is shortened to.
    optimizer : {"sgd", "adam"} (default: "sgd")
        The optimiser on the nodes, new in every round.
    learning_rate : float (default: 0.1)
        Its learning rate.
    min_nodes : int (default: 1)
        Fewest silos with which a round goes on.

    Raises
    ------
    ValueError
        If an argument is not as it should be.

    Notes
    -----
    Source: Abadi et al. (2016) on the nodes, McMahan et al. (2017) between them.

    Guarantee
    ---------
    1. Protected: every record of every silo, against any other record in its place, at
       (``epsilon``, ``delta``) for the whole run, against everybody but its own silo.
    2. The rounds are one plan of the silo's ledger, paid as a whole with the first. A round's
       ``epsilon-spent`` is what a record's answers cost up to it, by the same accountant.
    3. No matter what the strategy sends, the nodes enforce this: see
       :class:`ldp_flower.clients.NetworkClientApp`.
    """

    def __init__(
        self,
        network: Network,
        *,
        epsilon: float,
        delta: float,
        num_rounds: int,
        steps: int = 10,
        sampling_rate: float = 0.05,
        max_grad_norm: float = 1.0,
        optimizer: str = "sgd",
        learning_rate: float = 0.1,
        min_nodes: int = 1,
    ) -> None:
        if not isinstance(network, Network):
            raise ValueError(f"Expected a Network, got {type(network).__name__}.")
        check_integer("min_nodes", min_nodes, 1)
        super().__init__(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
        plan = DpSgdPlan(epsilon, delta, num_rounds, steps, sampling_rate, max_grad_norm)
        text = network.graph.to_text()
        self.network = network
        self.plan = plan
        self.min_nodes = min_nodes
        self._first = NetworkRound(text, plan, optimizer, float(learning_rate), 0, 1)
        self._salt = 0
        self._nodes: list[int] = []
        self._notes: list[str] = []

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
        first = self._first
        asked = NetworkRound(
            *(first.text, self.plan, first.optimizer, first.learning_rate),
            *(self._salt, server_round),
        )
        content = RecordDict({ARRAYS: arrays, NETWORK: asked.to_config()})
        nodes = self._nodes or sorted(grid.get_node_ids())
        return [Message(content, node, "train", group_id=str(server_round)) for node in nodes]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the mean of the models that came back, by declared numbers of records."""
        wanted = {n: self.network.graph.parameters[n] for n in self.network.graph.trainable}
        sums = {name: np.zeros(tensor.shape) for name, tensor in wanted.items()}
        total, answered = 0.0, 0
        reasons: Counter[str] = Counter()
        for reply in sorted(replies, key=lambda r: r.metadata.src_node_id):
            if reply.has_error():
                reasons[f"error {reply.error.code}: {reply.error.reason}"[:200]] += 1
                continue
            try:
                found = {name: reply.content.array_records[ARRAYS][name].numpy() for name in wanted}
                weight = float(reply.content.metric_records[METRICS][_WEIGHT])  # type: ignore[arg-type]
                fits = weight > 0 and all(
                    found[n].shape == t.shape and np.isfinite(found[n]).all()
                    for n, t in wanted.items()
                )
            except Exception:  # of a node that sends anything
                fits = False
            if not fits:
                reasons["no trained parameters of this network"] += 1
                continue
            for name, array in found.items():
                sums[name] += weight * array
            total, answered = total + weight, answered + 1
        for reason, count in reasons.items():
            logger.warning("\t├── %d nodes: %s", count, reason)
        if answered < self.min_nodes:
            why = "; ".join(reasons) or "nobody answered in time"
            raise TooFewReports(
                f"Round {server_round} got {answered} answers, and {self.min_nodes} are needed: "
                f"{why}."
            )
        if reasons:
            self._notes.append(f"Round {server_round}: {dict(reasons)} left out.")
        mean = {n: Array((sums[n] / total).astype(t.dtype)) for n, t in wanted.items()}
        spent = self.plan.epsilon_after(server_round)
        logger.info("\t└──> %d nodes, epsilon spent so far %.3g", answered, spent)
        return ArrayRecord(mean), MetricRecord({"nodes": answered, "records": total, _SPENT: spent})

    def start(  # type: ignore[override]
        self,
        grid: Grid,
        *,
        timeout: float = 3600,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
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
        file = None if store is None else Path(store)
        arrays, done = self._resumed(file)
        self.summary()
        self._nodes = wait_for_nodes(grid, num_nodes, roster_timeout, self.min_nodes)
        self._notes = []
        result = RecordDpSgdResult(delta=self.plan.delta, notes=self._notes)
        if done:
            result.epsilon = self.plan.epsilon_after(done)
        self._evaluated(0, evaluate_fn, arrays, result)
        for number in range(done + 1, self.plan.num_rounds + 1):
            logger.info("[ROUND %d/%d]", number, self.plan.num_rounds)
            messages = self.configure_train(number, arrays, ConfigRecord(), grid)
            replies = list(grid.send_and_receive(messages, timeout=timeout))
            try:
                mean, metrics = self.aggregate_train(number, replies)
            except TooFewReports as few:
                if number == 1:
                    raise
                self._notes.append(
                    f"The run ended early, with the model of round {number - 1}. {few}"
                )
                logger.warning("%s", self._notes[-1])
                break
            assert mean is not None and metrics is not None
            arrays = ArrayRecord({**arrays, **mean})
            result.train_metrics_clientapp[number] = metrics
            result.epsilon = float(metrics[_SPENT])  # type: ignore[arg-type]
            self._keep(file, number, arrays)
            self._evaluated(number, evaluate_fn, arrays, result)
        else:
            logger.info("The budget is spent: epsilon %g, delta %g", result.epsilon, result.delta)
        result.arrays = arrays
        result.network = self.network.with_arrays({n: a.numpy() for n, a in arrays.items()})
        return result

    def _evaluated(
        self,
        number: int,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
        arrays: ArrayRecord,
        result: RecordDpSgdResult,
    ) -> None:
        if evaluate_fn is not None and (found := evaluate_fn(number, arrays)) is not None:
            result.evaluate_metrics_serverapp[number] = found

    @property
    def _print(self) -> str:
        """What decides the run: a store of another one is refused."""
        config = {key: value for key, value in self._first.to_config().items() if key != "salt"}
        whole = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
        for name in sorted(self.network.arrays):
            whole.update(np.ascontiguousarray(self.network.arrays[name]).tobytes())
        return whole.hexdigest()

    def _resumed(self, file: Path | None) -> tuple[ArrayRecord, int]:
        """Return the parameters, and the number of rounds that are done."""
        if file is not None and file.exists():
            with np.load(file, allow_pickle=False) as kept:
                if str(kept["print"]) != self._print:
                    raise ValueError(f"Expected a store of this run, got {file} of another one.")
                self._salt = int(kept["salt"])
                names = self.network.arrays
                arrays = {name: Array(kept[f"array:{name}"]) for name in names}
                return ArrayRecord(arrays), int(kept["round"])
        self._salt = secrets.randbits(63)
        arrays = {n: Array(np.asarray(a)) for n, a in self.network.arrays.items()}
        self._keep(file, 0, record := ArrayRecord(arrays))
        return record, 0

    def _keep(self, file: Path | None, number: int, arrays: ArrayRecord) -> None:
        """Write what is needed to go on, whole or not at all."""
        if file is None:
            return
        new = file.with_name(f"{file.name}.new")
        with new.open("wb") as opened:
            held: dict[str, Any] = {"print": self._print, "salt": self._salt, "round": number}
            held |= {f"array:{name}": array.numpy() for name, array in arrays.items()}
            np.savez(opened, allow_pickle=False, **held)
        new.replace(file)
