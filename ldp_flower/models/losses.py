"""Closed list of the losses between a record's output and its target."""

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch.nn import functional as F

from . import steady
from .graph import CLASS_LOSSES

_SMOOTHING: Final = 1e-5  # in the Dice loss, which is then 0 for a class without any positions

#: A loss maps an output (for a batch of one), a target and, for classes, their weights to a number.
Loss = Callable[..., torch.Tensor]


def _of_classes(loss: Loss) -> Loss:
    """Return a loss whose targets are classes, one at each position of the record.

    Positions with a class out of range are ignored.
    """

    def known(
        output: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        known = (target >= 0) & (target < output.shape[1])
        classes = torch.where(known, target, torch.zeros_like(target))
        return loss(output, classes, known, weights)

    return known


def _cross_entropies(
    output: torch.Tensor, classes: torch.Tensor, weights: torch.Tensor | None
) -> torch.Tensor:
    return F.cross_entropy(output, classes[None], weights, reduction="none")[0]


def _mean(each: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    return torch.where(known, each, torch.zeros_like(each)).sum() / known.sum().clamp(min=1)


def _cross_entropy(
    output: torch.Tensor, classes: torch.Tensor, known: torch.Tensor, weights: torch.Tensor | None
) -> torch.Tensor:
    """Return the mean cross-entropy. A position's loss is multiplied by the weight of its class."""
    return _mean(_cross_entropies(output, classes, weights), known)


def _focal(
    output: torch.Tensor, classes: torch.Tensor, known: torch.Tensor, weights: torch.Tensor | None
) -> torch.Tensor:
    """Return the mean focal loss with gamma 2 (Lin et al. 2017), with weights of classes."""
    missed = 1 - steady.exp(-_cross_entropies(output, classes, None))
    return _mean(missed.square() * _cross_entropies(output, classes, weights), known)


def _dice(
    output: torch.Tensor, classes: torch.Tensor, known: torch.Tensor, weights: torch.Tensor | None
) -> torch.Tensor:
    """Return the mean over classes of the soft Dice loss, as MONAI's DiceLoss(softmax=True)."""
    number = output.shape[1]
    places = known.reshape(-1)
    predicted = output.softmax(1).reshape(number, -1) * places
    true = (classes.reshape(-1) == torch.arange(number)[:, None]) & places
    both, all_of_them = (predicted * true).sum(1), predicted.sum(1) + true.sum(1)
    each = 1 - (2 * both + _SMOOTHING) / (all_of_them + _SMOOTHING)
    return (each if weights is None else each * weights).mean()


def _of_numbers(loss: Loss, *within: float) -> Loss:
    """Return a loss whose targets are numbers, which are clipped to bounds if any are given."""

    def clamped(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        goal = target.clamp(*within) if within else target
        return loss(output, goal.reshape(output.shape).to(output.dtype))

    return clamped


LOSSES: Final[Mapping[str, Loss]] = {
    "cross_entropy": _of_classes(_cross_entropy),
    "focal": _of_classes(_focal),
    "dice": _of_classes(_dice),
    "binary_cross_entropy": _of_numbers(steady.binary_cross_entropy, 0, 1),
    "mse": _of_numbers(F.mse_loss),
    "huber": _of_numbers(F.huber_loss),
    "poisson": _of_numbers(steady.poisson, 0),
}


def accuracy(loss: str, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the share of a record's positions that are predicted rightly; NaN if none counts.

    ``loss`` is one of ``LABEL_LOSSES``. Positions with a class out of range do not count.
    """
    if loss in CLASS_LOSSES:
        known = (target >= 0) & (target < output.shape[1])
        right = output.argmax(1)[0] == target
    else:
        known = target.isfinite()
        right = (output.reshape(target.shape) > 0) == (target > 0.5)
    return (right & known).sum() / known.sum()
