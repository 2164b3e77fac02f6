"""Rounds of RecordDpSgd: messages to silos, their answers, and the result of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import MessageError, NodeKeys, Report, Slots
from ldp_flower.guarantee.training import ARRAYS, METRICS, NETWORK, NetworkRound
from ldp_flower.models import Graph, Network
from ldp_flower.models.graph import Tensor
from ldp_flower.presentation import charts

from ..runtime import Asked, Cohort
from ..runtime.facts import SPENT
from ..runtime.result import Result
from ..sums.networks import network_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_WEIGHT = "num-examples"
_ARRAY = "array "  # prefix of the parameters' names in the store
_MOST_UNITS = float(1 << 53)  # limit on the number of records or users that a silo may declare


@dataclass(frozen=True)
class Models:
    """Trained parameters of one silo, or the mean over silos, weighted by their ``units``."""

    arrays: Mapping[str, NDArray[Any]]
    units: float  # declared number of records or users on which the parameters were trained
    count: int = 1  # number of silos


@dataclass(frozen=True)
class NetworkAsk(Asked):
    """A query that asks silos for one round of training.

    Attributes
    ----------
    graph : Graph
        The network, which ``asked`` contains as text.
    arrays : ArrayRecord
        All parameters of the network.
    asked : NetworkRound
        The round's settings, without the run's salt.
    """

    cohort: Cohort
    graph: Graph
    arrays: ArrayRecord
    asked: NetworkRound
    min_reports: int

    name = "training round"
    condensed = True

    @property
    def mechanism(self) -> str:
        """Description of the mechanism that adds the noise."""
        return f"DP-SGD, noise multiplier {self.asked.plan.noise_multiplier:.4g}"

    @property
    def report_bytes(self) -> int:
        """Size of the trained parameters in bytes."""
        return sum(t.size * np.dtype(t.dtype).itemsize for t in self._wanted.values())

    @property
    def _wanted(self) -> dict[str, Tensor]:
        return {name: self.graph.parameters[name] for name in self.graph.trainable}

    def for_coin(self, coin: int) -> Self:
        """Return this query unchanged, since it uses no public random numbers."""
        return self

    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return the message to a silo, with the parameters and the round's settings."""
        asked = replace(self.asked, salt=salt).to_config()
        return RecordDict({ARRAYS: self.arrays, NETWORK: asked})

    def read(self, content: RecordDict) -> bytes:
        """Return a silo's trained parameters and number of records as bytes for the store."""
        record, records = content.array_records[ARRAYS], content.metric_records[METRICS][_WEIGHT]
        if not isinstance(records, int | float):
            raise MessageError("Expected a number of records.")
        arrays = {name: _read(record[name], tensor) for name, tensor in self._wanted.items()}
        return self.to_bytes(Models(arrays, float(records)))

    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Models | None:
        """Return a silo's trained parameters, or None if they are invalid or not finite."""
        try:
            found = self.from_bytes(content)
        except (MessageError, KeyError):
            return None
        finite = all(np.isfinite(array).all() for array in found.arrays.values())
        return found if finite and 0 < found.units < _MOST_UNITS else None

    def together(self, parts: Mapping[int, Models]) -> Models:
        """Return the mean over silos, weighted by their declared numbers of units.

        The order of summation does not depend on the order in which silos answered.
        """
        sums = {name: np.zeros(tensor.shape) for name, tensor in self._wanted.items()}
        for part in parts.values():
            for name, array in part.arrays.items():
                sums[name] += part.units * array
        units = sum(part.units for part in parts.values())
        mean = {
            name: (sums[name] / (units or 1.0)).astype(tensor.dtype)
            for name, tensor in self._wanted.items()
        }
        return Models(mean, units, len(parts))

    def metrics(self, answer: Models) -> dict[str, int | float]:
        """Return two metrics of a round: silos that answered, and the units that they declared."""
        return {"nodes": answer.count, f"{self.asked.plan.unit}s": answer.units}

    def to_bytes(self, answer: Models) -> bytes:
        """Return parameters and numbers as bytes for the store."""
        arrays = {f"{_ARRAY}{name}": array for name, array in answer.arrays.items()}
        facts = np.array([answer.units, answer.count], np.float64)
        return Report({"facts": facts, **arrays}).to_bytes()

    def from_bytes(self, kept: bytes) -> Models:
        """Return the parameters and numbers from the bytes of :meth:`to_bytes`."""
        arrays = Report.from_bytes(kept).arrays
        units, count = arrays["facts"]
        trained = {name: arrays[f"{_ARRAY}{name}"] for name in self._wanted}
        return Models(trained, float(units), int(count))


@dataclass(frozen=True)
class Ended:
    """Number of silos that have ended a plan."""

    count: int


@dataclass(frozen=True)
class PlanEnd(Asked):
    """A message that ends a training plan, so that silos give back the cost of other rounds."""

    cohort: Cohort
    asked: NetworkRound  # round 0
    min_reports = 0

    name, mechanism, report_bytes = "end of the plan", "", 0

    def for_coin(self, coin: int) -> Self:
        """Return this message unchanged, since it uses no public random numbers."""
        return self

    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return the message to a silo."""
        return RecordDict({NETWORK: replace(self.asked, salt=salt).to_config()})

    def read(self, content: RecordDict) -> bytes:
        """Return a silo's reply as bytes for the store: empty if it has not ended the plan."""
        return b"ended" if content.metric_records[METRICS]["ended"] else b""

    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Ended | None:
        """Return a count of 1 for a silo that has ended the plan, or None."""
        return Ended(1) if content else None

    def together(self, parts: Mapping[int, Ended]) -> Ended:
        """Return the number of silos that have ended the plan."""
        return Ended(len(parts))


def _read(array: Array, wanted: Tensor) -> NDArray[Any]:
    """Return a silo's array; raise MessageError if its type or shape is not that of ``wanted``.

    The header is checked before memory for an array of its shape would be allocated.
    """
    stream = BytesIO(array.data)
    try:
        if array.stype != "numpy.ndarray" or npy.read_magic(stream) != (1, 0):
            raise ValueError
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
        found = np.frombuffer(array.data, dtype.newbyteorder("="), offset=stream.tell())
        if shape != wanted.shape or dtype != np.dtype(wanted.dtype):
            raise ValueError
        return found.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # NumPy's reader fails in many ways on forged headers
        raise MessageError("Expected the trained parameters of this network.") from error


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
