"""The steps of DP-SGD: nothing is kept of records but noisy sums of their clipped gradients."""

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
from .round import Arrays, Training

Parameters = dict[str, torch.nn.Parameter]

_LARGEST_BLOCK = 1 << 24  # numbers of per-record gradients that are held at a time: 192 MiB
_PIECE = 1 << 17  # numbers that are held as doubles at a time: 1 MiB, which stays in a cache
_MARGIN = 1e-9  # of the bound, far above what doubles round
_SPARE = 2.0  # standard deviations: one step of 44 draws more records than there is room for


@torch.enable_grad()
def train(
    training: Training,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    loss: Loss,
) -> tuple["Arrays", int]:
    """Take all steps of a round; return what was trained, and the number of records.

    The parameters that count are kept here. Whatever else the app's code writes into its model,
    before or between the steps, is overwritten. ValueError if the arguments do not fit together,
    whatever the data.
    """
    parameters = _parameters(training.sent, model, optimizer)
    present = _length(dataset)
    count = training.num_records or max(present, 1)
    present = 0 if training.blind else min(present, count)
    block = block_size(training.plan, count, sum(p.numel() for p in parameters.values()))
    with random_state_of_its_own(training.randomness) as seeds:
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
        """Return gradients by parameter, shape (block, *parameter's), and which are records'.

        Those of the records ``drawn``, at most ``block``, come first, in this order. ``kept`` are
        the parameters' values.
        """


class NoGradients:
    """The gradients where no record is drawn: none."""

    block = 1

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return nothing."""
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
        What is trained. Whatever else writes into it between the steps is overwritten.
    optimizer : torch.optim.Optimizer
        An optimiser of these parameters; it sees noisy means only.
    count : int
        Public number of records, by which sums are divided, with the sampling rate.
    present : int
        Number of records that may be drawn, at most ``count``.
    randomness : RandomSource
        Source of noise and of the records that are drawn.

    Notes
    -----
    Source: Abadi et al. (2016), with Poisson sampling. For each step: draw records, shorten each
    one's gradient, add them up, add noise, divide by the expected number of records.
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
                # The optimiser, which may be the app's own, finds noisy means only.
                parameter.grad = (noisy.reshape(parameter.shape) / expected).to(parameter)
        optimizer.step()
        kept = _copies(parameters)
    optimizer.zero_grad()
    if dropped:
        log = logging.getLogger(__name__)
        log.warning("Gradients of some records are not finite and count as 0.")
    return kept


def clipped_sums(each: Tensors, used: torch.Tensor, bound: float) -> tuple[Tensors, torch.Tensor]:
    """Return sums of gradients, each shortened first, and which records count.

    Parameters
    ----------
    each : dict of str to Tensor
        Gradients by parameter, shape (records, *parameter's).
    used : Tensor of bool, shape (records,)
        Which places hold a record.
    bound : float
        Euclidean length, over all parameters together, that each is shortened to.

    Returns
    -------
    dict of str to Tensor
        Sums in doubles: in four bytes the length of a gradient with many entries, and a sum of
        many, are wrong by so much that one record moves a sum by more than twice its bound. They
        are the same operations whatever gradients hold, and their order follows from shapes alone.
    Tensor of bool, shape (records,)
        A gradient that is not finite counts as 0.
    """
    rows = {name: gradient.reshape(len(used), -1) for name, gradient in each.items()}
    squares = torch.zeros(len(used), dtype=torch.float64, device=used.device)
    for gradient in rows.values():
        for piece in _pieces(gradient):
            squares += piece.square().sum(1)
    counted = used & squares.isfinite()
    # A gradient of 0 is not divided by: the factor is at most 1.
    factors = (bound * (1 - _MARGIN) / squares.sqrt()).clamp(max=1.0)
    factors = torch.where(counted, factors, torch.zeros_like(factors))
    dropped = ~counted[:, None]  # not by a product: NaN times 0 is NaN
    sums = {
        name: torch.cat([factors @ piece.masked_fill_(dropped, 0.0) for piece in _pieces(gradient)])
        for name, gradient in rows.items()
    }
    return {name: total.view(each[name].shape[1:]) for name, total in sums.items()}, counted


def _pieces(gradient: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield its columns as doubles, some at a time."""
    for piece in torch.split(gradient, max(1, _PIECE // len(gradient)), dim=1):
        yield piece.to(torch.float64, copy=True)


def _parameters(
    sent: "Arrays", model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Parameters:
    """Load what the server sent; return what is to be trained of it, by name."""
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
    # Some, as Adagrad, have a state from the beginning, after 0 steps.
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
    """Return the number of records that are computed at once, from public numbers alone.

    ``numbers`` is how many are held for a record. Blocks of one size hold as many records as are
    drawn, mostly, in as few blocks as memory allows.
    """
    rate, mean = plan.sampling_rate, plan.sampling_rate * count
    most = max(1, min(count, math.ceil(mean + _SPARE * math.sqrt(mean * (1 - rate)))))
    blocks = math.ceil(most / max(1, _LARGEST_BLOCK // numbers))
    return math.ceil(most / blocks)


def _copies(parameters: Parameters) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


@contextmanager
def random_state_of_its_own(randomness: RandomSource) -> Iterator[torch.Generator]:
    """Seed PyTorch's generator, which an optimiser may draw from, and put it back afterwards.

    Yields a second one, which seeds what is random about records.
    """
    (seed,) = randomness.words((1, 1))[0].tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)
