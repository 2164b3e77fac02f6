"""Rounds of RecordDpSgd: what comes back, and what is kept so that silos do not pay again."""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from ldp_flower.guarantee.training import ARRAYS, METRICS, NetworkRound
from ldp_flower.models import Graph, Network

from ..runtime.result import Step

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
        self._print = _print_of(network, asked)
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


def _print_of(network: Network, asked: NetworkRound) -> str:
    """Return what decides the run: a store of another one is refused."""
    config = {key: value for key, value in asked.to_config().items() if key != "salt"}
    whole = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name in sorted(network.arrays):
        whole.update(np.ascontiguousarray(network.arrays[name]).tobytes())
    return whole.hexdigest()
