"""One round of DP-SGD on a network that came as data."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.models.graph import Limits, Tensor
from ldp_flower.models.network import Network
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource

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
