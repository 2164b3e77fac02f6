"""The steps of DP-SGD: nothing is kept of records but noisy sums of their clipped gradients."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from opacus.optimizers import DPOptimizer

from ldp_flower.randomizers.real_valued.records import with_noise
from ldp_flower.randomness import RandomSource

from .gradients import Gradients, Loss, Tensors

if TYPE_CHECKING:
    from .training import Arrays, Training

Parameters = dict[str, torch.nn.Parameter]

_LARGEST_BLOCK = 1 << 24  # numbers of per-record gradients that are held at a time: 192 MiB
_SPARE = 2.0  # standard deviations: one step of 44 draws more records than there is room for


@torch.enable_grad()
def train(
    training: "Training",
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    loss: Loss,
) -> tuple["Arrays", int]:
    """Take all steps of a round; return what was trained, and the number of records.

    The parameters that count are kept here. Whatever else the app's code writes into its
    model, before or between the steps, is overwritten.

    Raises
    ------
    ValueError
        If the arguments do not fit together, whatever the data.
    """
    parameters = _parameters(training.sent, model, optimizer)
    present = _length(dataset)
    count = training.num_records or max(present, 1)
    present = 0 if training.blind else min(present, count)
    plan = training.plan
    block = _block(plan.sampling_rate, count, sum(p.numel() for p in parameters.values()))
    # Doubles: in four bytes a sum of many gradients, and the length of one with many entries, are
    # wrong by so much that one record moves a sum by more than twice its bound.
    sums = {name: torch.nn.Parameter(p.detach().double()) for name, p in parameters.items()}
    private = DPOptimizer(
        torch.optim.SGD(sums.values()),
        noise_multiplier=plan.noise_multiplier,
        max_grad_norm=plan.max_grad_norm,
        expected_batch_size=plan.sampling_rate * count,
    )
    kept = _copies(parameters)
    with _random_state_of_its_own(training.randomness) as seeds:
        gradients = Gradients(model, loss, dataset, parameters, block, seeds)
        for _ in range(plan.steps):
            uniforms = training.randomness.uniforms((1, count))[0, :present]
            drawn = np.flatnonzero(uniforms < plan.sampling_rate)
            private.zero_grad()
            for start in range(0, max(len(drawn), 1), block):
                each = gradients.of(kept, drawn[start : start + block])
                for name, parameter in sums.items():
                    parameter.grad_sample = each[name].double()  # type: ignore[attr-defined]
                private.clip_and_accumulate()
            _add_noise(private, training.randomness)
            private.scale_grad()
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(kept[name])
                    # The optimiser, which may be the app's own, finds noisy sums only.
                    parameter.grad = sums[name].grad.to(parameter)  # type: ignore[union-attr]
            optimizer.step()
            kept = _copies(parameters)
    optimizer.zero_grad()
    results = {id(p): kept[name].cpu().numpy() for name, p in parameters.items()}
    every = dict(model.named_parameters(remove_duplicate=False))
    names = [name for name in training.sent if name in every and id(every[name]) in results]
    return {name: results[id(every[name])] for name in names}, count


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


def _block(rate: float, count: int, num_parameters: int) -> int:
    """Return the number of records that are computed at once, from public numbers alone.

    Blocks of one size hold as many as are drawn, mostly, in as few blocks as memory allows.
    """
    mean = rate * count
    most = max(1, min(count, math.ceil(mean + _SPARE * math.sqrt(mean * (1 - rate)))))
    blocks = math.ceil(most / max(1, _LARGEST_BLOCK // num_parameters))
    return math.ceil(most / blocks)


def _copies(parameters: Parameters) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


def _add_noise(private: DPOptimizer, randomness: RandomSource) -> None:
    """Do as Opacus's ``add_noise`` does, with noise of the library's own source, on its grid."""
    sigma = private.noise_multiplier * private.max_grad_norm
    for parameter in private.params:
        sums = parameter.summed_grad.cpu().numpy().reshape(1, -1)
        noisy = torch.from_numpy(with_noise(sums, sigma, randomness))
        parameter.grad = noisy.reshape(parameter.shape).to(parameter)


@contextmanager
def _random_state_of_its_own(randomness: RandomSource) -> Iterator[torch.Generator]:
    """Seed PyTorch's generator, which an optimiser may draw from, and put it back afterwards.

    Yields a second one, which seeds what is random about records.
    """
    (seed,) = randomness.words((1, 1))[0].tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)
