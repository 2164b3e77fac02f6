"""Interpreter: it evaluates a checked network's graph with PyTorch, up to the loss of a record."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from . import steady
from .graph import RECORD, Dtype, Graph, Operation, Reference
from .losses import LOSSES

Tensors = Mapping[str, torch.Tensor]
Values = Mapping[Reference, torch.Tensor]


def evaluate(graph: Graph, known: Values, wanted: Iterable[Reference]) -> list[torch.Tensor]:
    """Return the wanted values of a graph, given known ones.

    The graph must have been checked. Only operations that the wanted values need, and whose values
    are not known, are evaluated.
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
    """Return the result of one operation on values: one tensor, or several."""

    def resolved(value: Any) -> Any:
        if isinstance(value, Reference):
            return values[value]
        return getattr(torch, value.name) if isinstance(value, Dtype) else value

    arguments, keywords = operation.mapped(resolved)
    function = _INSTEAD.get(operation.name) or _function(operation.name)
    return function(*arguments, **keywords)


def _function(name: str) -> Any:
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _embedding(
    table: torch.Tensor, indices: torch.Tensor, padding: int = -1, *_: object
) -> torch.Tensor:
    """Return rows of a table; an index out of range is replaced by the nearest valid index.

    Otherwise, PyTorch would read memory outside the table. ``padding`` is the row that training
    does not change.
    """
    indices = indices.clamp(0, table.shape[0] - 1)
    found: torch.Tensor = torch.ops.aten.embedding.default(table, indices, padding)
    return found


def _index(values: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """Return the values at given indices along adjacent dimensions.

    Negative indices count from the end, and an index out of range is replaced by the nearest valid
    one. PyTorch's own kernel sums gradients in an order that depends on its threads.
    """
    at = [dim for dim, index in enumerate(indices) if index is not None]
    first, behind = at[0], at[-1] + 1
    places = torch.zeros((), dtype=torch.int64)
    for size, index in zip(values.shape[first:behind], indices[first:behind], strict=True):
        assert index is not None
        from_start = torch.where(index < 0, index + size, index)
        places = places * size + from_start.clamp(0, size - 1)
    found = values.flatten(first, behind - 1).index_select(first, places.flatten())
    return found.reshape((*values.shape[:first], *places.shape, *values.shape[behind:]))


def _batch_norm(
    values: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    eps: float,
) -> list[torch.Tensor]:
    """Return batch norm with fixed statistics: each channel is scaled and shifted.

    The operations used here check the lengths of their arguments.
    """
    scale = (variance + eps).rsqrt() * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    shape = (-1, *[1] * (values.dim() - 2))
    return [values * scale.reshape(shape) + shift.reshape(shape)]


def _group_norm(
    values: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, *others: Any
) -> Any:
    """Return group norm. Its kernel accepts only contiguous memory.

    Values are always copied, since the layout of one record may be contiguous although the layout
    of all records together is not.
    """
    learnt = (None if each is None else each.contiguous() for each in (weight, bias))
    plain = values.clone(memory_format=torch.contiguous_format)
    return torch.ops.aten.native_group_norm.default(plain, *learnt, *others)


_INSTEAD: Mapping[str, Callable[..., Any]] = {
    "aten.view.default": torch.reshape,  # under vmap, a record's layout may not allow a view
    "aten.embedding.default": _embedding,
    "aten.index.Tensor": _index,
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


@dataclass(frozen=True)
class RecordLoss:
    """Loss of a checked network on one record, as a function of the trainable parameters.

    DP-SGD differentiates it by the trainable parameters. ``constants`` are the other parameters.
    ``encoded`` refers to the values of a record that the trainable part takes from the frozen part
    (an encoder), so that they are computed once and not in every step. It is empty if the frozen
    part has no parameters and is cheap.
    """

    graph: Graph
    constants: Values
    encoded: Sequence[Reference]

    @classmethod
    def of(cls, graph: Graph, constants: Tensors) -> Self:
        """Return the function that computes the loss of a graph with the given constants."""
        return cls(graph, _by_reference(constants), _encoded(graph))

    def known(self, record: torch.Tensor) -> list[torch.Tensor]:
        """Return a record's ``encoded`` values, which every step of a training can reuse."""
        return evaluate(self.graph, {**self.constants, RECORD: record[None]}, self.encoded)

    def __call__(
        self, trained: Tensors, record: torch.Tensor, target: torch.Tensor, *known: torch.Tensor
    ) -> torch.Tensor:
        """Return the loss on one record; ``known`` are its values from :meth:`known`, if given."""
        output = self.output(trained, record, *known)
        weights = self.graph.class_weights
        given = [torch.tensor(weights, dtype=output.dtype)] if weights else []
        return LOSSES[self.graph.loss](output, target, *given)

    def output(self, trained: Tensors, record: torch.Tensor, *known: torch.Tensor) -> torch.Tensor:
        """Return the network's output for a record, as a batch of one."""
        values = {**self.constants, **_by_reference(trained), RECORD: record[None]}
        values |= zip(self.encoded, known, strict=bool(known))
        (output,) = evaluate(self.graph, values, [self.graph.output])
        return output


def _by_reference(tensors: Tensors) -> dict[Reference, torch.Tensor]:
    return {Reference(name): tensor for name, tensor in tensors.items()}


def _encoded(graph: Graph) -> list[Reference]:
    """Return the values that the trainable part of a graph takes from its frozen part.

    They depend on the record and not on trained parameters. The list is empty if they are computed
    without parameters, since they are then cheap.
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
