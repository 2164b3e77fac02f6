"""Rounds of RecordDpSgd: what comes back, what is kept, and the result."""

import hashlib
import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord

from ldp_flower.guarantee.training import ARRAYS, METRICS, NetworkRound
from ldp_flower.models import Graph, Limits, Network
from ldp_flower.models.parsing import parsed
from ldp_flower.presentation import charts
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

from ..runtime.result import SPENT, Result, Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_WEIGHT = "num-examples"
_UNUSABLE = "no trained parameters of this network"


@dataclass
class Replies:
    """The sum of the models of one round, by declared numbers of records."""

    graph: Graph
    answered: int = 0  # nodes whose model is in it
    records: float = 0.0  # number of their records
    # Of these nodes, those with a known seed, and those that show no data
    seeded: int = 0
    rehearsing: int = 0
    _replied: int = 0
    _errors: Counter[str] = field(default_factory=Counter)
    _rejected: int = 0

    def __post_init__(self) -> None:
        self._wanted = {name: self.graph.parameters[name] for name in self.graph.trainable}
        self._sums = {name: np.zeros(tensor.shape) for name, tensor in self._wanted.items()}

    @classmethod
    def of(cls, graph: Graph, replies: Iterable[Message]) -> "Replies":
        """Take all replies, in an order that does not depend on when they came."""
        found = cls(graph)
        for reply in sorted(replies, key=lambda r: r.metadata.src_node_id):
            found._replied += 1
            if reply.has_error():
                found._errors[f"error {reply.error.code}: {reply.error.reason}"[:200]] += 1
            elif not found._take(reply):
                found._rejected += 1
        return found

    def _take(self, reply: Message) -> bool:
        """Add a model; return whether it is one of this network."""
        try:
            metrics = reply.content.metric_records[METRICS]
            weight = float(metrics[_WEIGHT])  # type: ignore[arg-type]
            record = reply.content.array_records[ARRAYS]
            found = {name: record[name].numpy() for name in self._wanted}
            fits = 0 < weight < np.inf and all(
                found[name].shape == tensor.shape and np.isfinite(found[name]).all()
                for name, tensor in self._wanted.items()
            )
        except Exception:  # of a node that sends anything
            return False
        if fits:
            for name, array in found.items():
                self._sums[name] += weight * array
            self.records += weight
            self.answered += 1
            self.seeded += bool(metrics.get("seeded", 0))
            self.rehearsing += bool(metrics.get("rehearsing", 0))
        return fits

    @property
    def reasons(self) -> Counter[str]:
        """Why replies were left out."""
        return self._errors + Counter({_UNUSABLE: self._rejected})  # without those that are 0

    def mean(self) -> ArrayRecord:
        """Return the mean of the trained parameters."""
        return ArrayRecord(
            {
                name: Array((self._sums[name] / self.records).astype(tensor.dtype))
                for name, tensor in self._wanted.items()
            }
        )

    def step(self, number: int, asked: int, mechanism: str) -> Step:
        """Return what became of a round."""
        size = sum(t.size * np.dtype(t.dtype).itemsize for t in self._wanted.values())
        return Step(
            number=number,
            statistic="training round",
            mechanism=mechanism,
            report_bytes=size,
            asked=asked,
            reports=self.answered,
            errors=self._errors.total(),
            rejected=self._rejected,
            silent=max(asked - self._replied, 0),
            reasons=self._errors,
        )


class NetworkStore:
    """The file (.npz) of a run, or none; raise ValueError if it is of another run.

    ``asked`` is a round of the run: what decides it, but for its salt. ``done`` rounds are over,
    and ``arrays`` are all parameters after them.
    """

    def __init__(self, path: str | Path | None, network: Network, asked: NetworkRound) -> None:
        self._file = None if path is None else Path(path)
        config = {key: value for key, value in asked.to_config().items() if key != "salt"}
        whole = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
        for name in sorted(network.arrays):
            whole.update(np.ascontiguousarray(network.arrays[name]).tobytes())
        self._print = whole.hexdigest()  # what decides the run: a store of another one is refused
        if self._file is not None and self._file.exists():
            with np.load(self._file, allow_pickle=False) as kept:
                if str(kept["print"]) != self._print:
                    raise ValueError(
                        f"Expected a store of this run, got {self._file} of another one."
                    )
                self.salt, self.done = int(kept["salt"]), int(kept["round"])
                arrays = {name: Array(kept[f"array:{name}"]) for name in network.arrays}
                self.arrays = ArrayRecord(arrays)
            return
        self.salt = secrets.randbits(63)
        arrays = {name: Array(np.asarray(array)) for name, array in network.arrays.items()}
        self.keep(0, ArrayRecord(arrays))

    def keep(self, number: int, arrays: ArrayRecord) -> None:
        """Write what is needed to go on after a round, whole or not at all."""
        self.done, self.arrays = number, arrays
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        with new.open("wb") as opened:
            held: dict[str, Any] = {"print": self._print, "salt": self.salt, "round": number}
            held |= {f"array:{name}": array.numpy() for name, array in arrays.items()}
            np.savez(opened, allow_pickle=False, **held)
        new.replace(self._file)


logger = logging.getLogger("flwr")

_REHEARSED = "{} of the nodes rehearsed: what they return says nothing about any data."
_EARLIER = "Rounds 1 to {} are of an earlier start of this run."
#: Of one's own network, which has been checked before the run.
_ANY = Limits(*[1 << 62] * 6)
_COLOURS = (charts.BLUE, charts.GREEN, charts.PURPLE, charts.RED)


@dataclass(repr=False, kw_only=True)
class RecordDpSgdResult(Result):
    """A result whose estimate is a network; ``arrays`` holds all of its parameters.

    Attributes
    ----------
    text : str
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    epsilon, delta : float
        What all rounds that were answered cost a record.
    planned_epsilon : float
        What all rounds of the plan cost a record, which nodes charge with the first.
    planned_rounds, steps_per_round : int
        Number of rounds of the plan, and of steps in each.
    sampling_rate, noise_multiplier, max_grad_norm : float
        Probability of a record to be drawn for a step; standard deviation of the noise on a sum,
        over the length that the gradient of a record is shortened to; that length.
    noise_to_signal : float
        The rule of thumb q, noise of the mean gradient over its largest length, for the
        declared numbers of records. Useful up to 0.1.
    """

    _answerers: ClassVar[str] = "silos"

    text: str = ""
    epsilon: float = 0.0
    delta: float = 0.0
    planned_epsilon: float = 0.0
    planned_rounds: int = 0
    steps_per_round: int = 0
    sampling_rate: float = 0.0
    noise_multiplier: float = 0.0
    max_grad_norm: float = 0.0
    noise_to_signal: float = 0.0

    @classmethod
    def of(cls, plan: DpSgdPlan, text: str, nodes: int, earlier: int) -> Self:
        """Return the result of a run that is about to go on after some rounds."""
        return cls(
            num_users=nodes,
            notes=[_EARLIER.format(earlier)] if earlier else [],
            text=text,
            epsilon=plan.epsilon_after(earlier) if earlier else 0.0,
            delta=plan.delta,
            planned_epsilon=plan.epsilon,
            planned_rounds=plan.num_rounds,
            steps_per_round=plan.steps,
            sampling_rate=plan.sampling_rate,
            noise_multiplier=plan.noise_multiplier,
            max_grad_norm=plan.max_grad_norm,
        )

    def add(
        self, number: int, metrics: MetricRecord, replies: Replies, warnings: list[str]
    ) -> None:
        """Take a round: what is spent, who was left out, and what is wrong with the others."""
        self.train_metrics_clientapp[number] = metrics
        self.epsilon = float(metrics[SPENT])  # type: ignore[arg-type]
        self.num_reports += replies.answered
        if replies.reasons:
            warnings = [*warnings, f"Round {number}: {dict(replies.reasons)} left out."]
        rehearsed = _REHEARSED.format(replies.rehearsing)
        if replies.rehearsing and rehearsed not in self.notes:
            warnings = [*warnings, rehearsed]
        for note in warnings:
            logger.warning("\t├── %s", note)
        self.notes += warnings

    @property
    def network(self) -> Network:
        """The trained network; ``network.to_torch(module)`` loads it into its author's module."""
        arrays = {name: array.numpy() for name, array in self.arrays.items()}
        return Network(parsed(self.text, _ANY), arrays)

    def table(self) -> "DataFrame":
        """Return the rounds.

        Returns
        -------
        DataFrame
            ``round``, ``silos`` that answered, their declared ``records``, ``epsilon spent`` so
            far, and what ``evaluate_fn`` has measured. Without a round, the arrays.
        """
        from pandas import DataFrame

        if not self.train_metrics_clientapp:
            return super().table()
        rows: list[dict[str, Any]] = []
        for number, metrics in self.train_metrics_clientapp.items():
            row = {"round": f"round {number}", "silos": metrics["nodes"]}
            row |= {"records": metrics["records"], "epsilon spent": metrics[SPENT]}
            measured = dict(self.evaluate_metrics_serverapp.get(number) or {})
            rows.append(row | {k: v for k, v in measured.items() if not isinstance(v, list)})
        return DataFrame(rows)

    def _draw(self, axes: "Axes") -> None:
        """Draw what was measured by the epsilon spent; without a measurement, that by round."""
        table = self.table()
        if "round" not in table:
            super()._draw(axes)
            return
        spent = table["epsilon spent"]
        for name, colour in zip(table.columns[4:], _COLOURS, strict=False):
            axes.plot(spent, table[name], "o-", ms=4, color=colour, label=name)
        if len(table.columns) > 4:
            axes.set_xlabel("epsilon of a record, spent so far")
            axes.legend()
        else:
            axes.plot(range(1, len(spent) + 1), spent, "o-", ms=4, color=charts.BLUE)
            axes.set_xlabel("rounds of this run")
            axes.set_ylabel("epsilon of a record, spent so far")

    def _findings(self) -> list[str]:
        ended = self.ended_early
        budget = f"epsilon {self.epsilon:.4g} of {self.planned_epsilon:g}" if ended else "all of it"
        return [
            f"A network trained in {len(self.steps)} of {self.planned_rounds} rounds; noise to "
            f"signal q = {self.noise_to_signal:.2g} (of use up to 0.1)",
            f"The run ended {'early' if ended else 'with its budget'}: {budget} is spent.",
        ]

    def _statement(self) -> list[str]:
        """Return the accountant's statement."""
        done = max(self.train_metrics_clientapp, default=0)
        rounds = (
            f"{done} of {self.planned_rounds} rounds"
            if done < self.planned_rounds
            else (f"all {self.planned_rounds} rounds")
        )
        return [
            "The accountant's statement: what is protected is one record of one silo, any two "
            f"values of it, absent ones included. Over {rounds} together the "
            f"answers of its silo cost it epsilon {self.epsilon:.4g} at delta {self.delta:g}: "
            f"{self.steps_per_round} steps a round, each on records drawn with probability "
            f"{self.sampling_rate:g}, the gradient of a record shortened to "
            f"{self.max_grad_norm:g}, normal noise of {self.noise_multiplier:.4g} times that on "
            "a sum. The steps are composed by privacy loss distributions (Google's "
            "dp-accounting), rounded up. The silo's ledger was charged with the whole plan, "
            f"epsilon {self.planned_epsilon:g}, before its first answer left.",
            "A person with several records is protected less: with k records, at k times "
            "the epsilon and a larger delta.",
        ]
