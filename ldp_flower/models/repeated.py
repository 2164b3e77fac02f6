"""Weights that a network multiplies by many times, as a recurrent layer does at every step.

The gradient by such a weight is a sum of outer products, one for each use. Automatic
differentiation makes and adds them one after the other, each of the weight's size. Here the uses'
inputs and the gradients by their outputs are kept, and one product of all of them is the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from .graph import Graph, Reference

_FEWEST = 4  # uses from which on it is faster
_PRODUCTS = ("aten.mm.default", "aten.addmm.default")
_TRANSPOSE = ("aten.permute.default", (1, 0))


@dataclass(frozen=True)
class Repeated:
    """A trainable weight that is used by matrix products only, several times.

    ``uses`` are the products' numbers; ``transposed`` tells whether they take its transpose.
    """

    name: str
    uses: tuple[int, ...]
    transposed: bool

    @classmethod
    def of(cls, graph: Graph) -> tuple[Self, ...]:
        """Return all such weights of a network."""
        takers: dict[int | str | None, list[int]] = {graph.output.source: [-1]}
        for number, operation in enumerate(graph.operations):
            for each in operation.references():
                takers.setdefault(each.source, []).append(number)
        found = (cls._one(graph, takers, name) for name in graph.trainable)
        return tuple(each for each in found if each is not None)

    @classmethod
    def _one(
        cls, graph: Graph, takers: dict[int | str | None, list[int]], name: str
    ) -> Self | None:
        direct = takers.get(name, [])
        turned = [
            number
            for number in direct
            if number >= 0
            and (graph.operations[number].name, graph.operations[number].arguments[1:])
            == (_TRANSPOSE[0], _TRANSPOSE[1:])
        ]
        if turned and turned != direct:
            return None
        sources: list[int | str] = [*turned] or [name]
        uses = [number for source in sources for number in takers.get(source, [])]
        weights = {Reference(source) for source in sources}
        fits = len(set(uses)) == len(uses) >= _FEWEST and all(
            number >= 0
            and graph.operations[number].name in _PRODUCTS
            and graph.operations[number].arguments[-1] in weights
            for number in uses
        )
        return cls(name, tuple(sorted(uses)), bool(turned)) if fits else None

    def gradient(
        self, inputs: Sequence[torch.Tensor], errors: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """Return the gradient by the weight, for each record, shape (records, *weight's).

        ``inputs`` are what the products took beside the weight, and ``errors`` the gradients by
        what they returned, all of shape (records, rows, columns).
        """
        rows, columns = torch.cat([*errors], 1), torch.cat([*inputs], 1)
        first, second = (rows, columns) if self.transposed else (columns, rows)
        return torch.bmm(first.transpose(1, 2), second)
