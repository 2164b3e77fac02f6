"""One round of DP-SGD on a network that came as data, and the process that computes it.

The network's kernels see no ledger there, and have limits.

The parent writes a description, which holds no data, and reads one line: that the network is
accepted, or why not. Then it writes the data and reads as many bytes as the parameters have.
"""

import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from threading import Timer
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.models.graph import Limits, NetworkError, Tensor
from ldp_flower.models.network import Network
from ldp_flower.models.parsing import parsed
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource, SystemRandom
from ldp_flower.validation import PlainFields, check_integer

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Round:
    """What a node trains in one round, with a checked network.

    ``optimizer`` is new in every round, and sees noisy means only. ``count`` is the public number
    of records, by which sums are divided. The node's records and targets have the types and shapes
    that the network takes; there are none in a rehearsal.
    """

    network: Network
    plan: DpSgdPlan
    optimizer: str
    learning_rate: float
    count: int
    limits: Limits
    records: NDArray[Any] = field(repr=False)
    targets: NDArray[Any] = field(repr=False)

    def trained(self, randomness: RandomSource) -> Arrays:
        """Return the trainable parameters after the steps of a round."""
        import torch

        from .network_gradients import NetworkGradients
        from .steps import block_size, take_steps

        graph = self.network.graph
        values = {name: torch.tensor(array) for name, array in self.network.arrays.items()}
        parameters = {name: torch.nn.Parameter(values.pop(name)) for name in graph.trainable}
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[self.optimizer]
        optimizer = kind(parameters.values(), lr=self.learning_rate)
        # A value, and the gradient by it, of each intermediate; and the gradient that is kept.
        held = self.network.num_trainable + 2 * self.network.check(self.limits).intermediates
        gradients = NetworkGradients(
            graph,
            values,
            torch.from_numpy(self.records),
            torch.from_numpy(self.targets),
            self.count,
            block_size(self.plan, self.count, held),
        )
        present = min(len(self.records), self.count)
        kept = take_steps(
            self.plan, parameters, optimizer, gradients, self.count, present, randomness
        )
        return {name: value.numpy() for name, value in kept.items()}


def as_rows(
    values: Any, targets: Any, record: Tensor, target: Tensor, most: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a node's records and targets as the network takes them, the first ``most``.

    Each record becomes numbers by itself. One that is not of the network's shape, or holds anything
    but numbers, keeps its place and counts nothing. ValueError if targets are not as many as
    records.
    """
    number = min(len(values), most)
    if len(values) != len(targets):
        raise ValueError(f"Expected a target for each of {len(values)} records.")
    rows, usable = _converted(values, record, number)
    goals, known = _converted(targets, target, number)
    goals[~(usable & known)] = -1 if target.dtype == "int64" else np.nan
    return rows, goals


def _converted(values: Any, tensor: Tensor, number: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    found = np.zeros((number, *tensor.shape), tensor.dtype)
    usable = np.zeros(number, bool)
    with np.errstate(all="ignore"):
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            if values.shape[1:] == tensor.shape:
                found[:], usable[:] = values[:number], True
            return found, usable
        for i in range(number):
            try:
                row = np.asarray(values[i])
                if row.shape == tensor.shape and row.dtype.kind in "biuf":
                    found[i], usable[i] = row, True
            except Exception:  # a record may be anything, and fail in any way
                continue
    return found, usable


_LONGEST_LINE = 2000  # characters of a refusal


class ChildError(Exception):
    """The process gave no answer of the form that was asked for."""


@dataclass(frozen=True)
class ChildLimits(PlainFields):
    """What one message's training may use: seconds, and mebibytes of address space."""

    seconds: int = 600
    memory: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("seconds", self.seconds, 1)
        check_integer("memory", self.memory, 1)


class Child:
    """A process that checks a network, and trains it. It is ended on leaving the ``with``."""

    def __init__(self, limits: ChildLimits) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ldp-flower-network-")
        command = [sys.executable, "-P", "-m", __name__, str(limits.memory), str(limits.seconds)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._folder.name
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._timer = Timer(limits.seconds, self._process.kill)
        self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def check(self, text: str, limits: Limits) -> Tensor:
        """Return the type and shape of a target of a network; NetworkError if it is refused."""
        self._send({"text": text, "limits": asdict(limits)})
        line = self._output.readline(_LONGEST_LINE)
        try:
            answer = json.loads(line)
            if "refused" in answer:
                raise NetworkError(ascii(str(answer["refused"]))[1:-1])
            return Tensor(str(answer["dtype"]), tuple(int(n) for n in answer["shape"]))
        except NetworkError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise ChildError("The process ended while it checked the network.") from error

    def train(self, task: Round) -> Arrays:
        """Return what a round trains; ChildError if it took too much time or memory, or failed."""
        self._send(task)
        tensors = {
            name: task.network.graph.parameters[name] for name in task.network.graph.trainable
        }
        sizes = [t.size * np.dtype(t.dtype).itemsize for t in tensors.values()]
        answer = self._output.read(sum(sizes))
        if len(answer) != sum(sizes):
            raise ChildError("The process that trains ended, for lack of time or memory perhaps.")
        parts, at = {}, 0
        for (name, tensor), size in zip(tensors.items(), sizes, strict=True):
            flat = np.frombuffer(answer[at : at + size], tensor.dtype)
            parts[name], at = flat.reshape(tensor.shape).copy(), at + size
        return parts

    def _send(self, value: Any) -> None:
        try:
            pickle.dump(value, self._input)  # to the child; nothing that comes back is unpickled
            self._input.flush()
        except BrokenPipeError as error:
            raise ChildError(
                "The process that checks and trains the network ended before it had received "
                "everything."
            ) from error


def main() -> None:
    """Check a network, and train it."""
    memory, seconds = (int(each) for each in sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (64 * seconds, 64 * seconds))  # of all its threads
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is for the log
    asked = pickle.load(sys.stdin.buffer)
    try:
        graph = parsed(asked["text"], limits := Limits(**asked["limits"]))
        zeros = {name: np.zeros(t.shape, t.dtype) for name, t in graph.parameters.items()}
        network = Network(graph, zeros)
        target = network.target(limits)
        line = {"dtype": target.dtype, "shape": list(target.shape)}
    except NetworkError as error:
        line = {"refused": str(error)}
    answer.write(json.dumps(line).encode() + b"\n")
    answer.flush()
    if "refused" in line:
        return
    task: Round = pickle.load(sys.stdin.buffer)
    trained = task.trained(SystemRandom())
    with answer:
        for name in task.network.graph.trainable:
            answer.write(np.ascontiguousarray(trained[name]).tobytes())


if __name__ == "__main__":
    main()
