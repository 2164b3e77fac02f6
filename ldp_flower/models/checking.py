"""Check and cost of a network, by its shapes alone. It does not need PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .arguments import Held
from .graph import (
    CLASS_LOSSES,
    FLOATS,
    MAX_DIMS,
    RECORD,
    Graph,
    Limits,
    NetworkError,
    Operation,
    Reference,
    Tensor,
    need,
)
from .operations import row_of


@dataclass(frozen=True)
class NetworkCost:
    """Cost of a network for one record, with the type and shape of its output.

    ``intermediates`` is the count of numbers in all intermediate values that depend on the record.
    ``flops`` is the number of floating-point operations to evaluate the record.
    """

    output: Tensor
    intermediates: int
    flops: int


class Shapes:
    """Types and shapes of a graph's values, which grow while its operations are checked in order.

    ``record`` is one record, ``parameters`` are the graph's by name, and ``limits`` bound the size
    of each value.
    """

    def __init__(self, record: Tensor, parameters: Mapping[str, Tensor], limits: Limits) -> None:
        self._limits, self._count = limits, 0
        self._known = {Reference(name): Held(tensor, False) for name, tensor in parameters.items()}
        self._known[RECORD] = Held(Tensor(record.dtype, (1, *record.shape)), True)

    def add(self, operation: Operation) -> tuple[tuple[Tensor, ...], bool, int]:
        """Check an operation, and add its results to the known values.

        Return three things: the types and shapes of the results; True if they depend on the
        record, or else False; the number of floating-point operations. Raise NetworkError if the
        arguments do not fit, or if a result is empty or too large.
        """
        row = row_of(operation.name)
        found, flops = row.results(*operation.mapped(self._argument))
        results = found if isinstance(found, tuple) else (found,)
        for each in results:
            shape = list(each.shape)
            need(
                min(shape, default=1) >= 1 and len(shape) <= MAX_DIMS,
                f"sizes above 0 of at most {MAX_DIMS} dimensions, got {shape[:16]}",
            )
            self._limits.require("tensor", each.size, f"numbers in a value of shape {shape}")
        of_record = any(self.find(each).of_record for each in operation.references())
        for part, each in enumerate(results[: row.usable]):
            reference = Reference(self._count, part if isinstance(found, tuple) else None)
            self._known[reference] = Held(each, of_record)
        self._count += 1
        return results, of_record, flops

    def find(self, reference: Reference) -> Held:
        """Return the value that a reference names; raise NetworkError if it is not one tensor."""
        need(
            reference in self._known,
            f"an existing part of operation {reference.source} that may be used, got "
            f"{reference.part}",
        )
        return self._known[reference]

    def _argument(self, value: Any) -> Any:
        return self.find(value) if isinstance(value, Reference) else value


def measure(graph: Graph, limits: Limits) -> NetworkCost:
    """Return the cost of a network from its shapes, without computing any values.

    Raises NetworkError if an operation's arguments do not fit, or a bound is exceeded.
    """
    values = Shapes(graph.record, graph.parameters, limits)
    intermediates = shared = flops = 0
    for number, operation in enumerate(graph.operations):
        try:
            results, of_record, cost = values.add(operation)
            size = sum(each.size for each in results)
            if of_record:
                intermediates += size
            else:  # depends on parameters and constants alone, so it is computed once
                shared += size
            flops += cost
            limits.require("intermediates", max(intermediates, shared), "intermediate numbers")
            limits.require("flops", flops, "floating-point operations")
        except NetworkError as error:
            text = f"Operation {number} ({operation.name}): {error}"
            raise NetworkError(text, number) from None
    return NetworkCost(values.find(graph.output).tensor, intermediates, flops)


def target_of(graph: Graph, output: Tensor) -> Tensor:
    """Return the type and shape that a record's target must have, for a graph's loss and output.

    Raises NetworkError if the loss or its weights of classes do not fit the output.
    """
    batch, shape = output.shape[:1], output.shape[1:]
    need(
        output.dtype in FLOATS and batch == (1,),
        f"an output of floats with a first dimension of 1, got {output.dtype} of shape "
        f"{list(output.shape)}",
    )
    of_classes = graph.loss in CLASS_LOSSES
    need(
        not of_classes or (len(shape) > 0 and shape[0] >= 2),
        "an output of shape [1, classes, ...] with at least 2 classes for "
        f"{graph.loss}, got {list(output.shape)}",
    )
    classes, given = shape[0] if of_classes else 0, len(graph.class_weights)
    need(given in (0, classes), f"class_weights of {classes} classes for {graph.loss}, got {given}")
    if of_classes:
        return Tensor("int64", shape[1:])
    return Tensor("float32", () if shape == (1,) else shape)
