"""Signatures: rows of the table of operations, with argument kinds, result rule and cost."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .arguments import Kind, bound
from .graph import Tensor

Results = Tensor | tuple[Tensor, ...]

# Costs of one number, forwards and backwards, in units of one addition (.1 ns), measured for the
# slowest values, including infinite and negative ones, with denormals flushed to 0. exp(-100)
# takes 105 ns in four bytes and 250 ns in eight. log, sqrt, sin, erf and powers take 10 to 35 ns,
# and operations with a special kernel .5 to 5 ns. A product of matrices takes .006 ns for each of
# its floating-point operations.
EXP: Final = 2500
SLOW: Final = 350
SMOOTH: Final = 50
_BRANCH: Final = 10  # cost for each number of each window of a pool


@dataclass(frozen=True)
class Signature:
    """Row of the table of operations: kinds of arguments, rule for results, and cost.

    ``takes`` holds the kinds of arguments in PyTorch's order, by their names in ``rule``. ``cost``
    is the cost of one number that is read or written, or a function of results and arguments. If
    there are several results, a graph may use the first ``usable`` ones; the others are for the
    gradient.
    """

    rule: Callable[..., Results]
    takes: Mapping[str, Kind]
    cost: int | Callable[..., int]
    usable: int

    def results(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[Results, int]:
        """Return types and shapes of the results, and the number of floating-point operations.

        Raises NetworkError if arguments are of the wrong kind, or do not fit together.
        """
        given = bound(self.takes, arguments, keywords)
        found = self.rule(**given)
        if callable(self.cost):
            return found, self.cost(found, **given)
        read = sum(_size(value) for value in given.values())
        return found, self.cost * (read + _size(found))


def _size(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.size
    return sum(map(_size, value)) if isinstance(value, tuple) else 0


def takes(
    rule: Callable[..., Results],
    cost: int | Callable[..., int] = 1,
    usable: int = 1,
    /,
    **kinds: Kind,
) -> Signature:
    """Return the table's row for an operation, see :class:`Signature` for the parameters.

    ``kinds`` are the kinds of the arguments, by the names that ``rule`` has for them.
    """
    return Signature(rule, kinds, cost, usable)


def of_product(found: Tensor, x: Tensor, **_: Any) -> int:
    """Return the cost of a product of matrices, in floating-point operations."""
    return 2 * found.size * x.shape[-1]


def of_convolution(found: Tensor, x: Tensor, weight: Tensor, transposed: bool, **_: Any) -> int:
    """Return the cost of a convolution, in floating-point operations."""
    return 2 * (x if transposed else found).size * math.prod(weight.shape[1:])


def of_windows(found: Results, x: Tensor, kernel: tuple[int, ...], **_: Any) -> int:
    """Return the cost of a pool over windows of the size ``kernel``, in additions."""
    return x.size + _BRANCH * _size(found) * math.prod(kernel)


def of_covering(found: Results, x: Tensor, size: tuple[int, ...]) -> int:
    """Return the cost of a pool to a given size, whose windows cover the image, in additions."""
    reach = (old // new + 2 for old, new in zip(x.shape[2:], size, strict=True))
    return x.size + _BRANCH * _size(found) * math.prod(reach)
