"""Runs a network's graph: on shapes alone, to check it, and on one record, up to its loss.

The part that depends on nothing that is trained need not be computed again in every step.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import flop_registry

from .graph import FLOATS, Dtype, Graph, Limits, NetworkError, Operation, Reference, Tensor

Tensors = Mapping[str, torch.Tensor]

_MAX_WINDOW = 1024  # of a convolution's or a pool's sizes: kernels, strides, padding
_WINDOWS = {
    "aten.convolution.default": range(3, 9),
    "aten.max_pool2d_with_indices.default": range(1, 5),
    "aten.avg_pool2d.default": range(1, 4),
}
_EMBEDDING = "aten.embedding.default"


@dataclass(frozen=True)
class Cost:
    """What a network takes of a machine for one record, and type and shape of its output.

    ``intermediates`` are the numbers in all intermediate values that depend on the record,
    ``flops`` the floating-point operations to evaluate it.
    """

    output: Tensor
    intermediates: int
    flops: int


@dataclass
class Values:
    """What operations take: parameters, the record, and the results of those before."""

    parameters: Tensors
    record: torch.Tensor
    results: list[Any] = field(default_factory=list)

    @classmethod
    def shapes(cls, graph: Graph) -> "Values":
        """Return parameters and a record without numbers."""
        parameters = {
            name: torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype), device="meta")
            for name, tensor in graph.parameters.items()
        }
        dtype = getattr(torch, graph.record.dtype)
        return cls(parameters, torch.empty((1, *graph.record.shape), dtype=dtype, device="meta"))

    def find(self, reference: Reference) -> torch.Tensor:
        """Return the value that a reference stands for."""
        if reference.source is None:
            found: torch.Tensor = self.record
        elif isinstance(reference.source, str):
            found = self.parameters[reference.source]
        else:
            found = self.results[reference.source]
            if reference.part is not None:
                found = found[reference.part]
        return found

    def resolve(self, value: Any) -> Any:
        """Return an argument as PyTorch takes it."""
        if isinstance(value, Reference):
            return self.find(value)
        if isinstance(value, Dtype):
            return getattr(torch, value.name)
        return [self.resolve(each) for each in value] if isinstance(value, tuple) else value

    def call(self, operation: Operation, device: str | None = None) -> Any:
        """Return what an operation makes of them; with a device, its arguments are checked."""
        arguments = [self.resolve(each) for each in operation.arguments]
        keywords = {key: self.resolve(each) for key, each in operation.keywords.items()}
        if device is not None:
            _check(operation, arguments, keywords)
            if operation.name in _MAKES:
                keywords["device"] = device
        function = _INSTEAD.get(operation.name) or _function(operation.name)
        return function(*arguments, **keywords)


def evaluate(
    graph: Graph,
    parameters: Tensors,
    record: torch.Tensor,
    given: Mapping[int, Any] | None = None,
) -> torch.Tensor:
    """Return a network's output for one record, as a batch of one.

    The graph has been checked. ``given`` are results of operations that are known already, as
    :meth:`Frozen.given` has them.
    """
    values, given = Values(parameters, record), given or {}
    for number, operation in enumerate(graph.operations):
        known = number in given
        values.results.append(given[number] if known else values.call(operation))
    return values.find(graph.output)


@dataclass(frozen=True)
class Frozen:
    """The part of a network that depends on the record and on nothing that is trained.

    ``numbers`` are its operations in the graph, ``frontier`` those of its results that the other
    operations take. ``trained`` are the operations that depend on what is trained.
    """

    graph: Graph
    numbers: frozenset[int]
    frontier: tuple[Reference, ...]
    trained: frozenset[int]

    @classmethod
    def of(cls, graph: Graph) -> Self | None:
        """Return the frozen part of a network; None if it has no parameters."""
        trainable = set(graph.trainable)
        trained: set[int] = set()
        of_record: set[int] = set()
        encodes = False
        for number, operation in enumerate(graph.operations):
            sources = [each.source for each in operation.references()]
            if any(s in trained if isinstance(s, int) else s in trainable for s in sources):
                trained.add(number)
            elif any(s is None or (isinstance(s, int) and s in of_record) for s in sources):
                of_record.add(number)
                encodes |= any(isinstance(s, str) for s in sources)
        if not encodes:
            return None
        taken = (r for number in sorted(trained) for r in graph.operations[number].references())
        frontier = dict.fromkeys(
            r for r in (*taken, graph.output) if isinstance(r.source, int) and r.source in of_record
        )
        return cls(graph, frozenset(of_record), tuple(frontier), frozenset(trained))

    def results(self, constants: Tensors, record: torch.Tensor) -> list[torch.Tensor]:
        """Return the results in the frontier's order, for a record as a batch of one."""
        values = Values(constants, record)
        for number, operation in enumerate(self.graph.operations):
            values.results.append(None if number in self.trained else values.call(operation))
        return [values.find(each) for each in self.frontier]

    def given(self, results: Sequence[torch.Tensor]) -> dict[int, Any]:
        """Return results for :func:`evaluate`, by operation."""
        found: dict[int, Any] = dict.fromkeys(self.numbers)
        for reference, result in zip(self.frontier, results, strict=True):
            assert isinstance(reference.source, int)
            if reference.part is None:
                found[reference.source] = result
            else:
                found[reference.source] = {
                    **(found[reference.source] or {}),
                    reference.part: result,
                }
        return found


def measure(graph: Graph, limits: Limits) -> Cost:
    """Return what a network costs, by its shapes: nothing is computed.

    Raises NetworkError if an operation's arguments do not fit, or a bound is exceeded; before
    anything of that size exists.
    """
    values = Values.shapes(graph)
    intermediates = shared = flops = 0
    of_record: set[int | str | None] = {None}
    for number, operation in enumerate(graph.operations):
        try:
            value = values.call(operation, device="meta")
        except NetworkError:
            raise
        except Exception as error:  # PyTorch's own, about shapes and types: nothing else is there
            text = str(error).partition("\n")[0][:200]
            raise NetworkError(f"Operation {number} ({operation.name}): {text}") from None
        results = value if isinstance(value, tuple | list) else (value,)
        sizes = [math.prod(each.shape) for each in results if isinstance(each, torch.Tensor)]
        if not sizes or min(sizes) < 1 or max(sizes) > limits.tensor:
            raise NetworkError(
                f"Operation {number} ({operation.name}): Expected values of 1 to {limits.tensor} "
                f"numbers, got {max(sizes, default=0)}."
            )
        if any(each.source in of_record for each in operation.references()):
            of_record.add(number)
            intermediates += sum(sizes)
        else:  # of parameters and constants alone: once for all records
            shared += sum(sizes)
        flops += _flops(operation, values, value, sum(sizes))
        if max(intermediates, shared) > limits.intermediates:
            raise NetworkError(f"Expected at most {limits.intermediates} intermediate numbers.")
        if flops > limits.flops:
            raise NetworkError(f"Expected at most {limits.flops} floating-point operations.")
        values.results.append(value)
    output = values.find(graph.output)
    return Cost(
        Tensor(str(output.dtype).removeprefix("torch."), tuple(output.shape)), intermediates, flops
    )


def _flops(operation: Operation, values: Values, value: Any, size: int) -> int:
    """Return PyTorch's own count for products, and one operation a number for all else."""
    counted = flop_registry.get(_function(operation.name).overloadpacket)
    if counted is not None:
        arguments = [values.resolve(each) for each in operation.arguments]
        return int(counted(*arguments, out_val=value))
    if operation.name in _WINDOWS:
        return size * int(max(1, math.prod(operation.arguments[1])))
    inputs = (values.find(each) for each in operation.references())
    return size + sum(math.prod(each.shape) for each in inputs)


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


# A view of a record's own layout need not be one under vmap.
_INSTEAD: Mapping[str, Callable[..., Any]] = {
    "aten.view.default": torch.reshape,
    _EMBEDDING: _embedding,
}
_MAKES = frozenset({"aten.full.default", "aten.scalar_tensor.default", "aten.arange.start_step"})


def _check(operation: Operation, arguments: list[Any], keywords: Mapping[str, Any]) -> None:
    """Raise NetworkError for arguments that shapes alone do not show to be wrong."""
    name = operation.name
    if set(keywords) - {"dtype", "approximate", "correction", "keepdim"}:
        raise NetworkError(f"Operation {name}: Expected no keywords but dtype and the like.")
    for place in _WINDOWS.get(name, ()):
        if place >= len(arguments):
            break
        numbers = arguments[place]
        for each in numbers if isinstance(numbers, list) else [numbers]:
            if not 0 <= (each or 0) <= _MAX_WINDOW:
                raise NetworkError(f"Operation {name}: Expected sizes of 0 to {_MAX_WINDOW}.")
    if name == _EMBEDDING and any(arguments[3:]):
        raise NetworkError(f"Operation {name}: Expected neither scaled nor sparse gradients.")
    if name == "aten.native_group_norm.default":
        values, _, _, batch, channels, area, groups, *_ = arguments
        fits = tuple(values.shape[:2]) == (batch, channels) and values.numel() == (
            batch * channels * area
        )
        if not fits or groups < 1 or channels % groups:
            raise NetworkError(f"Operation {name}: Expected groups that fit the values.")


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


def _of_numbers(loss: Loss, *within: float) -> Loss:
    """Return a loss of targets that have the output's shape, and are brought within bounds."""

    def clamped(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        goal = target.clamp(*within) if within else target
        return loss(output, goal.reshape(output.shape).to(output.dtype))

    return clamped


#: The closed list of losses: from an output, for a batch of one, and a target to a number.
LOSSES: Mapping[str, Loss] = {
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": _of_numbers(F.binary_cross_entropy_with_logits, 0, 1),
    "mse": _of_numbers(F.mse_loss),
    "huber": _of_numbers(F.huber_loss),
    "poisson": _of_numbers(F.poisson_nll_loss, 0),
}


@dataclass(frozen=True)
class RecordLoss:
    """The loss of a checked network on one record, by the parameters that are trained.

    ``constants`` are the other parameters.
    """

    graph: Graph
    constants: Tensors
    frozen: Frozen | None

    @classmethod
    def of(cls, graph: Graph, constants: Tensors) -> Self:
        """Return the loss, with the network's frozen part."""
        return cls(graph, constants, Frozen.of(graph))

    def known(self, record: torch.Tensor) -> list[torch.Tensor]:
        """Return what the frozen part makes of a record, whatever is trained; nothing without."""
        return [] if self.frozen is None else self.frozen.results(self.constants, record[None])

    def __call__(
        self,
        trained: Tensors,
        record: torch.Tensor,
        target: torch.Tensor,
        *known: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss; with what is ``known`` the frozen part is not computed again."""
        given = self.frozen.given(known) if self.frozen is not None and known else None
        output = evaluate(self.graph, {**self.constants, **trained}, record[None], given)
        return LOSSES[self.graph.loss](output, target)
