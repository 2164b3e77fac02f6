"""The part of a network that is not trained, and runs once for each record."""

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
