"""Graph of a network as data, and bounds on it."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from ..validation import Count, PlainFields

FORMAT: Final = "ldp-flower network 1"
FLOATS: Final = ("float32", "float64")
DTYPES: Final = (*FLOATS, "int64", "bool")
MAX_DIMS: Final = 8
MAX_INTEGER: Final = 1 << 53  # JSON readers differ on larger integers
CLASS_LOSSES: Final = ("cross_entropy", "focal", "dice")
LABEL_LOSSES: Final = (*CLASS_LOSSES, "binary_cross_entropy")  # a prediction is right or wrong
LOSSES: Final = (*LABEL_LOSSES, "mse", "huber", "poisson")


class NetworkError(ValueError):
    """Error for a refused network; its message gives the reason and depends on the network only.

    ``operation`` is the number of the refused operation, or None if the error has another cause.
    """

    def __init__(self, text: str, operation: int | None = None) -> None:
        super().__init__(text)
        self.operation = operation


def need(holds: bool, words: str) -> None:
    """Raise NetworkError with the text "Expected" and ``words`` if ``holds`` is False."""
    if not holds:
        raise NetworkError(f"Expected {words}.")


@dataclass(frozen=True)
class Tensor:
    """Type and shape of a value; every dimension has at least one entry.

    ``dtype`` is ``"float32"``, ``"float64"``, ``"int64"`` or ``"bool"``. ``trainable`` is True for
    a parameter that training changes.
    """

    dtype: str
    shape: tuple[int, ...]
    trainable: bool = False

    @property
    def size(self) -> int:
        """Number of entries of the value: the product of its shape."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Reference:
    """Reference to a value that was given or computed before.

    ``source`` is the number of an operation, the name of a parameter, or None for the record.
    ``part`` is the index of one result if the operation has several.
    """

    source: int | str | None
    part: int | None = None


RECORD: Final = Reference(None)


@dataclass(frozen=True)
class Dtype:
    """Element type as an argument of an operation, such as the target type of a conversion."""

    name: str


def nested(change: Callable[[Any], Any], value: Any) -> Any:
    """Return ``change(value)``; for a tuple, return a tuple of its changed entries."""
    if isinstance(value, tuple):
        return tuple(nested(change, each) for each in value)
    return change(value)


@dataclass(frozen=True)
class Operation:
    """Call of one operation: its name on the closed list, and its arguments."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def mapped(self, change: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments and keywords with ``change`` applied to each, also within tuples."""
        keywords = {key: nested(change, value) for key, value in self.keywords.items()}
        return nested(change, self.arguments), keywords

    def references(self) -> Iterator[Reference]:
        """Yield the references to values among the arguments."""
        for value in (*self.arguments, *self.keywords.values()):
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Reference):
                    yield each


@dataclass(frozen=True)
class Graph:
    """Graph of a network for one record: inputs, operations in order, and output.

    ``record`` is the type and shape of one record; operations see it as a batch of one.
    ``parameters`` are parameters, buffers and constants by name. An operation takes the record,
    parameters and results of earlier operations. ``output`` refers to the network's output for a
    batch of one, and ``loss`` is the name of the loss between the output and the target.
    ``class_weights`` are factors by which the losses of the classes are multiplied, or empty.
    """

    record: Tensor
    parameters: Mapping[str, Tensor]
    operations: tuple[Operation, ...]
    output: Reference
    loss: str
    class_weights: tuple[float, ...] = ()

    @property
    def trainable(self) -> list[str]:
        """Names of the parameters that training changes."""
        return [name for name, tensor in self.parameters.items() if tensor.trainable]

    def to_text(self) -> str:
        """Return the graph as JSON; the same graph gives the same text."""
        plain = {
            "format": FORMAT,
            "loss": self.loss,
            "record": {"dtype": self.record.dtype, "shape": list(self.record.shape)},
            "parameters": {
                name: {"dtype": t.dtype, "shape": list(t.shape), "trainable": t.trainable}
                for name, t in self.parameters.items()
            },
            "operations": [[each.name, *each.mapped(_plain)] for each in self.operations],
            "output": _plain(self.output),
        }
        if self.class_weights:
            plain["class_weights"] = list(self.class_weights)
        return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        if value.source is None:
            return {"record": 0}
        if isinstance(value.source, str):
            return {"parameter": value.source}
        part = {} if value.part is None else {"part": value.part}
        return {"operation": value.source, **part}
    return {"dtype": value.name} if isinstance(value, Dtype) else value


@dataclass(frozen=True)
class Limits(PlainFields):
    """Upper limits on a network that a node accepts.

    A U-Net with 2 million parameters on 128 x 128 images is within the default limits.

    Attributes
    ----------
    text_bytes : int (default: 4,194,304)
        Bytes of the network's text. One operation takes some 100 bytes.
    operations : int (default: 20,000)
        Number of operations. A recurrent layer has some ten for each step of a sequence.
    parameters : int (default: 4,194,304)
        Count of numbers in all trained parameters together.
    tensor : int (default: 4,194,304)
        Count of numbers in one intermediate value of one record.
    intermediates : int (default: 67,108,864)
        Count of numbers in all intermediate values of one record together.
    flops : int (default: 50,000,000,000)
        Floating-point operations to evaluate one record. An operation that is slower than a sum,
        such as an exponential, counts as several sums, according to its duration.
    frozen : int (default: 33,554,432)
        Count of numbers in all parameters and constants that are not trained, such as a public
        encoder.
    """

    text_bytes: Count = 1 << 22
    operations: Count = 20_000
    parameters: Count = 1 << 22
    tensor: Count = 1 << 22
    intermediates: Count = 1 << 26
    flops: Count = 50_000_000_000
    frozen: Count = 1 << 25

    @classmethod
    def none(cls) -> Self:
        """Return limits that no network exceeds, for networks that were checked before."""
        return cls(*[1 << 62] * len(fields(cls)))

    def require(self, limit: str, size: int, what: str) -> None:
        """Raise NetworkError if a network's ``size`` exceeds one of these limits.

        ``limit`` is the name of the attribute, and ``what`` names in the error what ``size``
        counts: ``"floating-point operations"``.
        """
        most = getattr(self, limit)
        need(
            size <= most,
            f"at most {most} {what}, got {size}. Make records or layers smaller, or use nodes "
            f"whose operators raise Limits.{limit}",
        )
