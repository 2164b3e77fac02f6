"""What of a network need not be done in every step: its frozen part, and repeated products."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from .graph import Graph, Reference
from .interpreter import Tensors, Values


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


_FEWEST = 4  # uses from which on it is faster
_PRODUCTS = ("aten.mm.default", "aten.addmm.default")
_TRANSPOSE = ("aten.permute.default", (1, 0))


@dataclass(frozen=True)
class Repeated:
    """A trainable weight that is used by matrix products only, several times: of recurrent layers.

    The gradient by such a weight is a sum of outer products, one for each use. Automatic
    differentiation makes and adds them one after the other, each of the weight's size. Here the
    uses' inputs and the gradients by their outputs are kept, and one product of all is the sum.

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
