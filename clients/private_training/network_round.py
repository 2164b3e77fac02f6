"""One round of DP-SGD on a network sent as data, as a child process or a simulation computes it."""

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.models.graph import Limits
from ldp_flower.models.network import Network
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource

from .records import Data, Form

if TYPE_CHECKING:
    from .steps import RecordGradients

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Round:
    """A network and the settings with which a node trains it in one round.

    ``optimizer`` is created again in each round, and sees noisy means only. ``count`` is the public
    number of the plan's units (records or users), by which sums are divided.
    """

    network: Network
    plan: DpSgdPlan
    optimizer: str
    learning_rate: float
    count: int
    limits: Limits

    def trained(self, data: Data, randomness: RandomSource) -> Arrays:
        """Return the trainable parameters after the steps of a round.

        Records and targets have the types and shapes of the network's inputs. They may be empty.
        """
        present = self.count if self.plan.unit == "user" else min(len(data.records), self.count)
        return self._after(self._gradients(data), present, randomness)

    def without_records(self, randomness: RandomSource) -> Arrays:
        """Return the trainable parameters after a round without records: only noise moves them."""
        from .steps import NoGradients

        return self._after(NoGradients(), 0, randomness)

    def seconds(self, form: Form) -> float:
        """Return an estimate of the seconds that :meth:`trained` takes.

        It is the time of one block of zeros, multiplied by the number of blocks.
        """
        from .network_gradients import tensors_of

        nothing = form.nothing(0, self.plan.records_per_user)
        parameters = tensors_of(self.network, True)
        for _ in range(2):  # the first round includes imports, the second one is timed
            started = time.monotonic()
            gradients = self._gradients(nothing)
            frozen = time.monotonic()
            gradients.of(parameters, np.zeros(0, np.intp))
            ended = time.monotonic()
        drawn = self.plan.sampling_rate * self.count
        blocks = self.plan.steps * math.ceil(drawn / gradients.block)
        of_all = math.ceil(self.count / gradients.block)
        return (ended - frozen) * blocks + (frozen - started) * of_all

    def _gradients(self, data: Data) -> "RecordGradients":
        import torch

        from .network_gradients import NetworkGradients
        from .steps import block_size
        from .user_gradients import UserGradients

        # Each intermediate has a value and a gradient; each trainable parameter has a gradient.
        held = self.network.num_trainable + 2 * self.network.check(self.limits).intermediates
        each = self.plan.records_per_user or 1
        block = each * block_size(self.plan, self.count, each * held)
        tensors = torch.from_numpy(data.records), torch.from_numpy(data.targets)
        gradients = NetworkGradients(self.network, *tensors, each * self.count, block)
        return gradients if data.held is None else UserGradients(gradients, data.held)

    def _after(
        self, gradients: "RecordGradients", present: int, randomness: RandomSource
    ) -> Arrays:
        import torch

        from .network_gradients import tensors_of
        from .steps import take_steps

        start = tensors_of(self.network, True)
        parameters = {name: torch.nn.Parameter(tensor) for name, tensor in start.items()}
        of = torch.optim
        kind = {"sgd": of.SGD, "adam": of.Adam, "adamw": of.AdamW}[self.optimizer]
        optimizer = kind(parameters.values(), lr=self.learning_rate)
        kept = take_steps(
            self.plan, parameters, optimizer, gradients, self.count, present, randomness
        )
        return {name: value.numpy() for name, value in kept.items()}
