"""Rounds of RecordDpSgd: messages to silos, and their answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import MessageError, NodeKeys, Report, Slots
from ldp_flower.guarantee.training import ARRAYS, METRICS, NETWORK, NetworkRound
from ldp_flower.models import Graph
from ldp_flower.models.graph import Tensor

from ..runtime import Asked, Cohort

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
        """Description of the mechanism that adds the noise, for the steps of a result."""
        return f"DP-SGD, noise multiplier {self.asked.plan.noise_multiplier:.4g}"

    @property
    def report_bytes(self) -> int:
        """Size of a silo's answer in bytes: its trained parameters."""
        return sum(t.size * np.dtype(t.dtype).itemsize for t in self._wanted.values())

    @property
    def _wanted(self) -> dict[str, Tensor]:
        return {name: self.graph.parameters[name] for name in self.graph.trainable}

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
        units = sum(part.units for part in parts.values())
        mean: dict[str, NDArray[Any]] = {}
        for name, tensor in self._wanted.items():
            each = (part.units * part.arrays[name] for part in parts.values())
            mean[name] = (sum(each, np.zeros(tensor.shape)) / (units or 1.0)).astype(tensor.dtype)
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
    """Answer of silos to :class:`PlanEnd`: the number of silos that have confirmed the end."""

    count: int


@dataclass(frozen=True)
class PlanEnd(Asked):
    """A message that ends a training plan, so that silos give back the cost of other rounds."""

    cohort: Cohort
    asked: NetworkRound  # round 0
    min_reports = 0

    name, mechanism, report_bytes = "end of the plan", "", 0

    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return the message to a silo."""
        return RecordDict({NETWORK: replace(self.asked, salt=salt).to_config()})

    def read(self, content: RecordDict) -> bytes:
        """Return a silo's reply as bytes for the store: empty if it has not confirmed the end."""
        return b"ended" if content.metric_records[METRICS]["ended"] else b""

    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Ended | None:
        """Return a count of 1 for a silo that has confirmed the early end, or None."""
        return Ended(1) if content else None

    def together(self, parts: Mapping[int, Ended]) -> Ended:
        """Return the number of silos that have confirmed the early end."""
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
