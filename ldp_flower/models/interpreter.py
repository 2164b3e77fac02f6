"""Runs a checked network's graph with PyTorch, up to the loss of a record."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.nn import functional as F

from . import steady
from .graph import RECORD, Dtype, Graph, Operation, Reference

Tensors = Mapping[str, torch.Tensor]
Values = Mapping[Reference, torch.Tensor]


def evaluate(graph: Graph, known: Values, wanted: Iterable[Reference]) -> list[torch.Tensor]:
    """Return the values that are wanted, from those that are known.

    The graph has been checked. Only operations are evaluated that something wanted needs and that
    are not known already.
    """
    wanted, values = list(wanted), dict(known)
    for number in _needed(graph, values, wanted):
        found = call(graph.operations[number], values)
        if isinstance(found, torch.Tensor):
            values[Reference(number)] = found
        else:
            values.update((Reference(number, part), each) for part, each in enumerate(found))
    return [values[each] for each in wanted]


def _needed(graph: Graph, known: Values, wanted: Iterable[Reference]) -> list[int]:
    needed: set[int] = set()
    open_ones = list(wanted)
    while open_ones:
        reference = open_ones.pop()
        if reference not in known and reference.source not in needed:
            assert isinstance(reference.source, int)
            needed.add(reference.source)
            open_ones.extend(graph.operations[reference.source].references())
    return sorted(needed)


def call(operation: Operation, values: Values) -> Any:
    """Return what an operation makes of values: one tensor, or several."""

    def resolved(value: Any) -> Any:
        if isinstance(value, Reference):
            return values[value]
        if isinstance(value, Dtype):
            return getattr(torch, value.name)
        return [resolved(each) for each in value] if isinstance(value, tuple) else value

    arguments = [resolved(each) for each in operation.arguments]
    keywords = {key: resolved(each) for key, each in operation.keywords.items()}
    function = _INSTEAD.get(operation.name) or _function(operation.name)
    return function(*arguments, **keywords)


def _function(name: str) -> Any:
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _embedding(
    table: torch.Tensor, indices: torch.Tensor, padding: int = -1, *_: object
) -> torch.Tensor:
    """Look up rows; an index out of range takes the nearest one, or it would be another's memory.

    ``padding`` is the row that training leaves as it is.
    """
    indices = indices.clamp(0, table.shape[0] - 1)
    found: torch.Tensor = torch.ops.aten.embedding.default(table, indices, padding)
    return found


def _batch_norm(
    values: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    eps: float,
) -> list[torch.Tensor]:
    """Scale and move each channel, by operations that know how long their arguments are."""
    scale = (variance + eps).rsqrt() * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    shape = (-1, *[1] * (values.dim() - 2))
    return [values * scale.reshape(shape) + shift.reshape(shape)]


def _group_norm(
    values: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, *others: Any
) -> Any:
    """Norm groups of channels, whose kernel takes no other layout than the plain one.

    Values are copied in any case: a record's own layout may be plain where that of all is not.
    """
    learnt = (None if each is None else each.contiguous() for each in (weight, bias))
    plain = values.clone(memory_format=torch.contiguous_format)
    return torch.ops.aten.native_group_norm.default(plain, *learnt, *others)


_INSTEAD: Mapping[str, Callable[..., Any]] = {
    "aten.view.default": torch.reshape,  # a record's own layout need not have a view under vmap
    "aten.embedding.default": _embedding,
    "aten.native_group_norm.default": _group_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten.exp.default": steady.exp,
    "aten.log.default": steady.log,
    "aten.sqrt.default": steady.sqrt,
    "aten.sin.default": steady.sin,
    "aten.cos.default": steady.cos,
    "aten.erf.default": steady.erf,
    "aten.tanh.default": steady.tanh,
    "aten.elu.default": steady.elu,
    "aten.pow.Tensor_Scalar": steady.power,
}


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean over all places with a class; of those out of range none counts."""
    known = (target >= 0) & (target < output.shape[1])
    classes = torch.where(known, target, torch.zeros_like(target))
    each = F.cross_entropy(output, classes[None], reduction="none")[0]
    return torch.where(known, each, torch.zeros_like(each)).sum() / known.sum().clamp(min=1)


def _of_numbers(loss: Loss, *within: float) -> Loss:
    """Return a loss of targets that have the output's shape, and are brought within bounds."""

    def clamped(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        goal = target.clamp(*within) if within else target
        return loss(output, goal.reshape(output.shape).to(output.dtype))

    return clamped


#: The closed list of losses: from an output, for a batch of one, and a target to a number.
LOSSES: Mapping[str, Loss] = {
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": _of_numbers(steady.binary_cross_entropy, 0, 1),
    "mse": _of_numbers(F.mse_loss),
    "huber": _of_numbers(F.huber_loss),
    "poisson": _of_numbers(steady.poisson, 0),
}


@dataclass(frozen=True)
class RecordLoss:
    """The loss of a checked network on one record, by the parameters that are trained.

    ``constants`` are the other parameters. ``encoded`` are the values that what is trained is
    applied to, if they take more than the record to compute.
    """

    graph: Graph
    constants: Values
    encoded: Sequence[Reference]

    @classmethod
    def of(cls, graph: Graph, constants: Tensors) -> Self:
        """Return the loss."""
        return cls(graph, _by_reference(constants), _encoded(graph))

    def known(self, record: torch.Tensor) -> list[torch.Tensor]:
        """Return what the part that is not trained makes of a record; nothing without one."""
        return evaluate(self.graph, {**self.constants, RECORD: record[None]}, self.encoded)

    def __call__(
        self,
        trained: Tensors,
        record: torch.Tensor,
        target: torch.Tensor,
        *known: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss; with what is ``known`` only the part that is trained is computed."""
        values = {**self.constants, **_by_reference(trained), RECORD: record[None]}
        values |= zip(self.encoded, known, strict=bool(known))
        (output,) = evaluate(self.graph, values, [self.graph.output])
        return LOSSES[self.graph.loss](output, target)


def _by_reference(tensors: Tensors) -> dict[Reference, torch.Tensor]:
    return {Reference(name): tensor for name, tensor in tensors.items()}


def _encoded(graph: Graph) -> list[Reference]:
    """Return the values of the record that nothing trained has changed and something trained takes.

    None, if no parameter was used to compute them: then they are cheap.
    """
    trained: set[int | str | None] = set(graph.trainable)
    of_record: set[int | str | None] = set()
    taken = [graph.output]
    uses_parameters = False
    for number, operation in enumerate(graph.operations):
        references = list(operation.references())
        sources = {each.source for each in references}
        if sources & trained:
            trained.add(number)
            taken += references
        elif None in sources or sources & of_record:
            of_record.add(number)
            uses_parameters |= any(isinstance(each, str) for each in sources)
    if not uses_parameters:
        return []
    return list(dict.fromkeys(each for each in taken if each.source in of_record))
