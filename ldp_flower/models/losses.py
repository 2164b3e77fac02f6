"""The closed list of losses, between a network's output and one record's target."""

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional as F

from .graph import FLOATS, NetworkError, Tensor

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def target_of(loss: str, output: Tensor) -> Tensor:
    """Return what a record's target has to be, for a network of this output.

    Raises NetworkError if the loss does not fit the output.
    """
    if output.dtype not in FLOATS or not output.shape or output.shape[0] != 1:
        raise NetworkError(
            f"Expected an output of floats with a first dimension of 1, got {output.dtype} of "
            f"shape {list(output.shape)}."
        )
    if loss == "cross_entropy":
        if len(output.shape) < 2 or output.shape[1] < 2:
            raise NetworkError(
                f"Expected an output of shape [1, classes, ...] for cross_entropy, got "
                f"{list(output.shape)}."
            )
        return Tensor("int64", output.shape[2:])
    shape = output.shape[1:]
    return Tensor("float32", () if shape == (1,) else shape)


def _cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean over all places with a class; of those out of range none counts."""
    known = (target >= 0) & (target < output.shape[1])
    classes = torch.where(known, target, torch.zeros_like(target))
    each = F.cross_entropy(output, classes[None], reduction="none")[0]
    return torch.where(known, each, torch.zeros_like(each)).sum() / known.sum().clamp(min=1)


def _binary_cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    goal = target.clamp(0, 1).reshape(output.shape).to(output.dtype)
    return F.binary_cross_entropy_with_logits(output, goal)


def _mse(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(output, target.reshape(output.shape).to(output.dtype))


def _huber(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(output, target.reshape(output.shape).to(output.dtype))


def _poisson(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    goal = target.clamp(min=0).reshape(output.shape).to(output.dtype)
    return F.poisson_nll_loss(output, goal)


#: From an output, for a batch of one, and a target to a number.
LOSSES: Mapping[str, Loss] = {
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": _binary_cross_entropy,
    "mse": _mse,
    "huber": _huber,
    "poisson": _poisson,
}
