"""The result of RecordDpSgd: a network, and what each record has spent for it."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flwr.app import MetricRecord

from ldp_flower.models import Limits, Network
from ldp_flower.models.parsing import parsed
from ldp_flower.presentation import charts
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

from ..runtime.result import SPENT, Result
from .network_rounds import Replies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

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
