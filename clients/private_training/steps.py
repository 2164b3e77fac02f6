"""The steps of DP-SGD, which keep only noisy sums of the records' clipped gradients."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomizers.real_valued.records import with_noise
from ldp_flower.randomness import RandomSource

from .gradients import Gradients, Loss, Tensors
from .round import Arrays, RecordTraining

Parameters = dict[str, torch.nn.Parameter]

_LARGEST_BLOCK = 1 << 24  # numbers of per-record gradients in memory at a time: 192 MiB
_PIECE = 1 << 17  # numbers held as doubles at a time: 1 MiB, which stays in a cache
_MARGIN = 1e-9  # share of the bound, far above the rounding of doubles
_SPARE = 2.0  # standard deviations above the mean; one step in 44 draws more than fits a block


@torch.enable_grad()
def train(
    training: RecordTraining,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    loss: Loss,
) -> tuple["Arrays", int]:
    """Take all steps of a round; return the trained arrays, and the number of records.

    The function keeps copies of the parameters. If the app's code writes into its model before or
    between the steps, this is overwritten. Raise ValueError if the arguments do not fit together,
    independently of the data.
    """
    parameters = _parameters(training.sent, model, optimizer)
    present = _length(dataset)
    count = training.num_records or max(present, 1)
    present = 0 if training.blind else min(present, count)
    block = block_size(training.plan, count, sum(p.numel() for p in parameters.values()))
    with seeded_generators(training.randomness) as seeds:
        gradients = Gradients(model, loss, dataset, parameters, block, seeds)
        kept = take_steps(
            training.plan, parameters, optimizer, gradients, count, present, training.randomness
        )
    results = {id(p): kept[name].cpu().numpy() for name, p in parameters.items()}
    every = dict(model.named_parameters(remove_duplicate=False))
    names = [name for name in training.sent if name in every and id(every[name]) in results]
    return {name: results[id(every[name])] for name in names}, count


class RecordGradients(Protocol):
    """The gradients of single records, in blocks of one public size."""

    block: int

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return gradients by parameter, shape (block, *parameter's), and a mask of the records.

        The gradients of the records ``drawn``, at most ``block``, come first, in this order.
        ``kept`` are the parameters' values.
        """


class NoGradients:
    """Source of gradients for steps in which no record is drawn. It returns no gradients."""

    block = 1

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return an empty dict, and a mask by which the block's only row is not a record.

        The step's sum is then noise alone.
        """
        return {}, torch.zeros(1, dtype=torch.bool)


def take_steps(
    plan: DpSgdPlan,
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    gradients: RecordGradients,
    count: int,
    present: int,
    randomness: RandomSource,
) -> Tensors:
    """Take the steps of one round, and return the parameters' values.

    Parameters
    ----------
    parameters : dict of str to Parameter
        The parameters to train. Other changes to them between the steps are overwritten.
    optimizer : torch.optim.Optimizer
        An optimiser of these parameters, which sees noisy means only.
    count : int
        Public number of records. Sums are divided by this number times the sampling rate.
    present : int
        Number of records that may be drawn, at most ``count``.
    randomness : RandomSource
        Source of the noise and of the draws of records.

    Notes
    -----
    Source: Abadi et al. (2016), with Poisson sampling. Each step draws records, clips each record's
    gradient, sums the gradients, adds noise, and divides by the expected number of records.
    """
    expected = plan.sampling_rate * count
    sigma = plan.noise_multiplier * plan.max_grad_norm
    kept = _copies(parameters)
    dropped = False
    for _ in range(plan.steps):
        uniforms = randomness.uniforms((1, count))[0, :present]
        drawn = np.flatnonzero(uniforms < plan.sampling_rate)
        sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in kept.items()}
        for start in range(0, max(len(drawn), 1), gradients.block):
            each, used = gradients.of(kept, drawn[start : start + gradients.block])
            found, counted = clipped_sums(each, used, plan.max_grad_norm)
            dropped |= bool((used & ~counted).any())
            for name, total in found.items():
                sums[name] += total
        with torch.no_grad():
            for name, parameter in parameters.items():
                flat = sums[name].cpu().numpy().reshape(1, -1)
                noisy = torch.from_numpy(with_noise(flat, sigma, randomness))
                parameter.copy_(kept[name])
                # The optimiser may be the app's: it gets noisy means only.
                parameter.grad = (noisy.reshape(parameter.shape) / expected).to(parameter)
        optimizer.step()
        kept = _copies(parameters)
    optimizer.zero_grad()
    if dropped:
        log = logging.getLogger(__name__)
        log.warning("Gradients of some records are not finite and count as 0.")
    return kept


def clipped_sums(each: Tensors, used: torch.Tensor, bound: float) -> tuple[Tensors, torch.Tensor]:
    """Return the sums over records of clipped gradients, and a mask of the records that count.

    Parameters
    ----------
    each : dict of str to Tensor
        Gradients by parameter, shape (records, *parameter's).
    used : Tensor of bool, shape (records,)
        Mask of the rows that hold a record.
    bound : float
        Largest Euclidean length of a record's gradient, over all parameters together.

    Returns
    -------
    dict of str to Tensor
        Sums in doubles. In four bytes, the rounding errors of the length of a gradient with many
        entries, and of a sum of many gradients, would let one record move a sum by more than twice
        the bound. The operations are the same for all gradients, and their order follows from
        shapes alone.
    Tensor of bool, shape (records,)
        Mask of the records that count. A gradient that is not finite counts as 0.
    """
    rows = {name: gradient.reshape(len(used), -1) for name, gradient in each.items()}
    squares = torch.zeros(len(used), dtype=torch.float64, device=used.device)
    for gradient in rows.values():
        for piece in _pieces(gradient):
            squares += piece.square().sum(1)
    counted = used & squares.isfinite()
    # A gradient of 0 gives an infinite factor, which is clamped to 1.
    factors = (bound * (1 - _MARGIN) / squares.sqrt()).clamp(max=1.0)
    factors = torch.where(counted, factors, torch.zeros_like(factors))
    dropped = ~counted[:, None]  # masked, not multiplied by 0: NaN times 0 is NaN
    sums = {
        name: torch.cat([factors @ piece.masked_fill_(dropped, 0.0) for piece in _pieces(gradient)])
        for name, gradient in rows.items()
    }
    return {name: total.view(each[name].shape[1:]) for name, total in sums.items()}, counted


def _pieces(gradient: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a gradient as double-precision pieces of some columns each, to limit memory."""
    for piece in torch.split(gradient, max(1, _PIECE // len(gradient)), dim=1):
        yield piece.to(torch.float64, copy=True)


def _parameters(
    sent: "Arrays", model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Parameters:
    """Load the server's arrays into the model; return the parameters to train, by name.

    Raise ValueError if the arguments do not fit together.
    """
    for name, module in model.named_modules():
        if module.training and getattr(module, "running_mean", None) is not None:
            raise ValueError(
                f"Expected no {type(module).__name__} in training, got {name!r}: its running "
                "statistics mix records. opacus.validators.ModuleValidator.fix(model) returns a "
                "model with GroupNorm instead; a frozen one can stay, in eval()."
            )
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in sent.items()}
    try:
        unknown = model.load_state_dict(tensors, strict=False).unexpected_keys
    except RuntimeError as error:
        raise ValueError(f"Expected a model of the message's shapes: {error}") from error
    if unknown:
        raise ValueError(f"Expected the message's names in the model's state_dict, got {unknown}.")
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    trained: Parameters = {}
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if not parameter.requires_grad:
            continue
        name = names.get(id(parameter))
        if name is None or name not in sent:
            raise ValueError(
                "Expected an optimizer of parameters of the model that the message holds, "
                f"got one of {name or 'another model'!r} as well."
            )
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"Expected {name!r} of float32 or float64, got {parameter.dtype}.")
        trained[name] = parameter
    if not trained:
        raise ValueError("Expected an optimizer of parameters with requires_grad, got none.")
    # Some optimisers, such as Adagrad, have a state from the beginning, with 0 steps.
    if any(state and state.get("step", 1) != 0 for state in optimizer.state.values()):
        raise ValueError(
            "Expected a new optimizer, got one that has taken steps: what it remembers of them "
            "is not private."
        )
    return trained


def _length(dataset: Any) -> int:
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        kind = type(dataset).__name__
        raise ValueError(f"Expected a dataset with a length and items, not batches, got {kind}.")
    return len(dataset)


def block_size(plan: DpSgdPlan, count: int, numbers: int) -> int:
    """Return the number of records per block, from public numbers alone.

    ``numbers`` is the count of numbers in memory per record. The drawn records of most steps fit
    into the smallest number of equal blocks that memory allows.
    """
    rate, mean = plan.sampling_rate, plan.sampling_rate * count
    most = max(1, min(count, math.ceil(mean + _SPARE * math.sqrt(mean * (1 - rate)))))
    blocks = math.ceil(most / max(1, _LARGEST_BLOCK // numbers))
    return math.ceil(most / blocks)


def _copies(parameters: Parameters) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


@contextmanager
def seeded_generators(randomness: RandomSource) -> Iterator[torch.Generator]:
    """Seed PyTorch's generator, from which an optimiser may draw, and restore it afterwards.

    Yield a second generator, which seeds the random parts of records.
    """
    (seed,) = randomness.words((1, 1))[0].tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)
