"""RecordDpSgdResult: a network trained by RecordDpSgd, its rounds and its privacy cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flwr.app import MetricRecord

from ldp_flower.models import Network
from ldp_flower.presentation import charts

from ..runtime.facts import SPENT
from ..runtime.result import Result
from ..sums.networks import network_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

#: Words of a statement on the privacy cost, by the protected unit: what is protected, what is
#: clipped, what is charged, and when a person is protected less.
_STATED = {
    "record": (
        "is one record of one silo, any two values of it, absent ones included",
        "a record's gradient",
        "The silo's ledger",
        "several records",
        "k records",
    ),
    "user": (
        "are all records of one user of one silo, against any others and any number of them",
        "the mean gradient of a user's records",
        "Each user's account",
        "records in several silos",
        "k silos",
    ),
}
_COLOURS = (charts.BLUE, charts.GREEN, charts.PURPLE, charts.RED)


@dataclass(repr=False, kw_only=True)
class RecordDpSgdResult(Result):
    """A trained network. The attribute ``arrays`` has all of its parameters.

    Attributes
    ----------
    text : str
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    unit : str
        Unit that is protected: "record" or "user".
    epsilon, delta : float
        Privacy cost of a unit for all rounds of this run.
    planned_epsilon : float
        Privacy cost of a unit for all planned rounds. Nodes charge it with the first round.
    planned_rounds, steps_per_round : int
        Number of planned rounds, and of steps in each.
    sampling_rate, noise_multiplier, max_grad_norm : float
        Probability that a unit is drawn for a step; standard deviation of the noise on a sum of
        gradients, over ``max_grad_norm``; norm at which the gradient of a unit is clipped.
    noise_to_signal : float
        The rule of thumb q: noise of the mean gradient over its largest norm, for the declared
        numbers of units. Networks are useful up to 0.1.
    """

    _answerers: ClassVar[str] = "silos"

    text: str = ""
    unit: str = "record"
    epsilon: float = 0.0
    delta: float = 0.0
    planned_epsilon: float = 0.0
    planned_rounds: int = 0
    steps_per_round: int = 0
    sampling_rate: float = 0.0
    noise_multiplier: float = 0.0
    max_grad_norm: float = 0.0
    noise_to_signal: float = 0.0

    @property
    def network(self) -> Network:
        """The trained network. ``network.to_torch(module)`` loads it into the original module."""
        return network_of(self.text, self.arrays)

    def table(self) -> "DataFrame":
        """Return one row for each round.

        Returns
        -------
        DataFrame
            ``round``; the number of ``silos`` that answered; the number of ``records`` that they
            declared, or of ``users`` if users are the privacy unit; the ``epsilon spent`` so far;
            the metrics that ``evaluate_fn`` returned. If no round was completed, the table
            describes the model's arrays instead (name, shape, size, root mean square).
        """
        from pandas import DataFrame

        if not self._rounds:
            return super().table()
        rows: list[dict[str, Any]] = []
        for number, metrics in self._rounds.items():
            row = {"round": f"round {number}", "silos": metrics["nodes"]}
            row |= {f"{self.unit}s": metrics[f"{self.unit}s"], "epsilon spent": metrics[SPENT]}
            measured = dict(self.evaluate_metrics_serverapp.get(number) or {})
            rows.append(row | {k: v for k, v in measured.items() if not isinstance(v, list)})
        return DataFrame(rows)

    @property
    def _rounds(self) -> dict[int, MetricRecord]:
        """Metrics of the training rounds, by number, without the message that ends a plan."""
        metrics = self.train_metrics_clientapp.items()
        return {number: each for number, each in metrics if f"{self.unit}s" in each}

    def _draw(self, axes: "Axes") -> None:
        """Draw the metrics against the epsilon spent, or the epsilon spent against the round."""
        table = self.table()
        if "round" not in table:
            super()._draw(axes)
            return
        spent = table["epsilon spent"]
        for name, colour in zip(table.columns[4:], _COLOURS, strict=False):
            axes.plot(spent, table[name], "o-", ms=4, color=colour, label=name)
        if len(table.columns) > 4:
            axes.set_xlabel(f"epsilon of a {self.unit}, spent so far")
            axes.legend()
        else:
            axes.plot(range(1, len(spent) + 1), spent, "o-", ms=4, color=charts.BLUE)
            axes.set_xlabel("rounds of this run")
            axes.set_ylabel(f"epsilon of a {self.unit}, spent so far")

    def _findings(self) -> list[str]:
        # if the run ended early, the last round had too few answers
        trained = len(self._rounds) - self.ended_early
        ended = trained < self.planned_rounds
        budget = f"epsilon {self.epsilon:.4g} of {self.planned_epsilon:g}" if ended else "all of it"
        return [
            f"A network trained in {trained} of {self.planned_rounds} rounds; noise to "
            f"signal q = {self.noise_to_signal:.2g} (of use up to 0.1)",
            f"The run ended {'early' if ended else 'with its budget'}: {budget} is spent.",
        ]

    def _statement(self) -> list[str]:
        """Return sentences on the privacy cost that the accountant computed."""
        done = max(self._rounds, default=0)
        part = f"{done} of" if done < self.planned_rounds else "all"
        rounds = f"{part} {self.planned_rounds} rounds"
        protected, gradient, account, several, number = _STATED[self.unit]
        return [
            f"The accountant's statement: protected {protected}. Over {rounds} together the "
            f"answers of a silo cost each of its {self.unit}s epsilon {self.epsilon:.4g} at delta "
            f"{self.delta:g}. There were {self.steps_per_round} steps a round, each on "
            f"{self.unit}s drawn with probability {self.sampling_rate:g}. Before the sum, "
            f"{gradient} was shortened to {self.max_grad_norm:g}, and normal noise of "
            f"{self.noise_multiplier:.4g} times this length was added to the sum. The steps are "
            "composed by privacy loss distributions (Google's dp-accounting), rounded up. "
            f"{account} was charged with the whole plan, epsilon {self.planned_epsilon:g}, before "
            "the first answer left.",
            f"A person with {several} is protected less: with {number}, at k times the epsilon and "
            "a larger delta.",
        ]
