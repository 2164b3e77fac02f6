"""Steps of DP-SGD on one batch: on a network that comes as data, and Opacus' own on its module."""

import time
from collections.abc import Callable

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.nn import functional as F

from ldp_flower.clients.private_training.network_gradients import NetworkGradients, tensors_of
from ldp_flower.clients.private_training.steps import take_steps
from ldp_flower.models import Network
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import SystemRandom

_STEPS, _RATE = 2, 0.1
_LOSSES = {
    "cross_entropy": F.cross_entropy,
    "binary_cross_entropy": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
}


def steps_of(
    module: nn.Module, theirs: nn.Module, records: torch.Tensor, targets: torch.Tensor, loss: str
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that take some steps on a batch: ours, and Opacus'.

    Parameters
    ----------
    module, theirs : Module
        A network, and the same one of layers that Opacus knows.
    records, targets : Tensor, shape (batch, ...)
        The batch.
    loss : str
        The loss, as of :meth:`Network.export`.
    """
    batch = len(records)
    network = Network.export(module, records[0], loss)
    plan = DpSgdPlan(8.0, 1e-5, 1, _STEPS, 1.0, 1.0)
    kept = tensors_of(network, True)
    parameters = {name: nn.Parameter(tensor) for name, tensor in kept.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=_RATE)
    gradients = NetworkGradients(network, records, targets, batch, batch)

    def take() -> object:
        return take_steps(plan, parameters, optimizer, gradients, batch, batch, SystemRandom())

    wrapped = GradSampleModule(theirs)
    private = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=_RATE),
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=1.0,
        expected_batch_size=batch,
    )

    def take_theirs() -> None:
        for _ in range(_STEPS):
            private.zero_grad()
            output = wrapped(records)
            goals = targets if loss == "cross_entropy" else targets.reshape(output.shape)
            _LOSSES[loss](output, goals).backward()
            private.step()

    return take, take_theirs


def seconds(
    steps: tuple[Callable[[], object], Callable[[], object]], rounds: int
) -> tuple[float, float]:
    """Return what a step takes of the processor, ours and Opacus': the fastest, in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):  # the first warms up
        for take, times in zip(steps, taken, strict=True):
            started = time.process_time()
            take()
            times.append((time.process_time() - started) / _STEPS)
    return float(np.min(taken[0][1:])), float(np.min(taken[1][1:]))
