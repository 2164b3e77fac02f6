"""A network's graph, as data."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

FORMAT: Final = "ldp-flower network 1"
FLOATS: Final = ("float32", "float64")
DTYPES: Final = (*FLOATS, "int64", "bool")
LOSSES: Final = ("cross_entropy", "binary_cross_entropy", "mse", "huber", "poisson")


class NetworkError(ValueError):
    """A network that is refused; the text says why, and is about the network alone."""


@dataclass(frozen=True)
class Tensor:
    """The type and shape of a value.

    Attributes
    ----------
    dtype : str
        ``"float32"``, ``"float64"``, ``"int64"`` or ``"bool"``.
    shape : tuple of int
        Number of entries along each dimension, all above 0.
    trainable : bool (default: False)
        Whether it is a parameter that training changes.
    """

    dtype: str
    shape: tuple[int, ...]
    trainable: bool = False

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Reference:
    """A value that has been computed, or given, before.

    Attributes
    ----------
    source : int or str or None
        Number of an operation, name of a parameter, or None: the record.
    part : int or None
        Which of several results of the operation.
    """

    source: int | str | None
    part: int | None = None


@dataclass(frozen=True)
class Dtype:
    """A type as an argument of an operation."""

    name: str


@dataclass(frozen=True)
class Operation:
    """One call: a name of the closed list, and its arguments."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def references(self) -> Iterator[Reference]:
        """Yield the values that it takes."""
        for value in (*self.arguments, *self.keywords.values()):
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Reference):
                    yield each


@dataclass(frozen=True)
class Graph:
    """A network on one record: what goes in, the operations in their order, what comes out.

    Attributes
    ----------
    record : Tensor
        Type and shape of one record. The first operation sees it as a batch of one.
    parameters : mapping of str to Tensor
        Parameters, buffers and constants by name.
    operations : tuple of Operation
        An operation takes the record, parameters and results of those before it.
    output : Reference
        The network's output, for a batch of one.
    loss : str
        The loss between output and target.
    """

    record: Tensor
    parameters: Mapping[str, Tensor]
    operations: tuple[Operation, ...]
    output: Reference
    loss: str

    @property
    def trainable(self) -> list[str]:
        """Names of the parameters that training changes."""
        return [name for name, tensor in self.parameters.items() if tensor.trainable]

    def to_text(self) -> str:
        """Return the graph as JSON, the same text for the same graph."""
        plain = {
            "format": FORMAT,
            "loss": self.loss,
            "record": {"dtype": self.record.dtype, "shape": list(self.record.shape)},
            "parameters": {
                name: {"dtype": t.dtype, "shape": list(t.shape), "trainable": t.trainable}
                for name, t in self.parameters.items()
            },
            "operations": [
                [o.name, _plain(o.arguments), {k: _plain(v) for k, v in o.keywords.items()}]
                for o in self.operations
            ],
            "output": _plain(self.output),
        }
        return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        if value.source is None:
            return {"record": 0}
        if isinstance(value.source, str):
            return {"parameter": value.source}
        part = {} if value.part is None else {"part": value.part}
        return {"operation": value.source, **part}
    if isinstance(value, Dtype):
        return {"dtype": value.name}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
