"""DP-SGD inside every client with Opacus: protects a record, not the user who has several.

Source: Abadi et al. (2016), by Opacus. Every step uses all of the client's records, so
there is no sampling to be charged less for.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer

from .calibration import DELTA, noise_multiplier

Arrays = list[NDArray[Any]]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CLIP = 1.0  # of a record's gradient: its length for a logistic loss and rows of length 1


def rate(
    epsilon: float, steps: int, rounds: int, clients: int, records: int, longest: float
) -> float:
    """Return the local learning rate at which the noise of a logit is about 1.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of a record in all its ``steps``.
    steps, rounds : int
        Local steps in a round, and rounds; each client takes part in one.
    clients, records : int
        Clients in a round, and records of each (a public number).
    longest : float
        The rate without noise.
    """
    noise = CLIP * noise_multiplier(epsilon, steps) / (records * math.sqrt(clients))
    return min(longest, 1 / (noise * math.sqrt(steps * rounds)))


def train(
    module: torch.nn.Module,
    loss: Loss,
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    epsilon: float,
    steps: int,
    learning_rate: float,
    seed: int,
) -> Arrays:
    """Return the parameters after a client's steps, at (epsilon, 1e-5) for each record."""
    inputs = torch.from_numpy(np.asarray(x, np.float32))
    labels = torch.from_numpy(np.asarray(y))
    wrapped = GradSampleModule(module)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=learning_rate),
        noise_multiplier=noise_multiplier(epsilon, steps, DELTA),
        max_grad_norm=CLIP,
        expected_batch_size=len(inputs),
        generator=torch.Generator().manual_seed(seed),
    )
    for _ in range(steps):
        optimizer.zero_grad()
        loss(wrapped(inputs), labels).backward()
        optimizer.step()
    return [parameter.detach().numpy() for parameter in module.parameters()]
