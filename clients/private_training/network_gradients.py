"""Gradients of single records by a network's parameters, for blocks of one shape."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import grad, vmap

from ldp_flower.models.graph import Graph
from ldp_flower.models.interpreter import LOSSES, evaluate, outputs_of
from ldp_flower.models.shortcuts import Frozen, Repeated

from .gradients import Tensors

_MAX_KEPT = 1 << 28  # numbers of frozen parts' results, of all records: 1 GiB


class NetworkGradients:
    """The gradients of single records by the trainable parameters of a checked network.

    ``constants`` are the values of the other parameters, ``count`` is the public number of records,
    and ``block`` the public number of those that are computed at once.

    All blocks have one shape and run the same kernels, whatever records hold. In places without
    a record there is a public one of zeros. What an encoder that is not trained makes of a record
    is computed once and kept, if public numbers say that there is memory for it.
    """

    def __init__(
        self,
        graph: Graph,
        constants: Tensors,
        records: torch.Tensor,
        targets: torch.Tensor,
        count: int,
        block: int,
    ) -> None:
        self.block = block
        self._graph = graph
        self._constants = constants
        self._records, self._targets = records, targets
        self._loss = LOSSES[graph.loss]
        self._repeated = Repeated.of(graph)
        shapes = outputs_of(graph, [number for each in self._repeated for number in each.uses])
        self._added = {number: torch.zeros(t.shape, dtype=t.dtype) for number, t in shapes.items()}
        self._frozen: Frozen | None = None
        self._kept: list[torch.Tensor] = []
        if (frozen := Frozen.of(graph)) is not None:
            self._keep(frozen, count)

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return gradients by name, shape (block, *parameter's), and which are of records.

        Those of the records ``drawn`` come first, in this order. ``kept`` are the trainable
        parameters.
        """
        places = torch.from_numpy(drawn)
        inputs = [self._rows(each, places) for each in (self._records, self._targets, *self._kept)]
        apart = {each.name: kept[each.name] for each in self._repeated}
        rest = {name: value for name, value in kept.items() if name not in apart}

        def value(
            trained: tuple[Tensors, dict[int, torch.Tensor]], *of_record: torch.Tensor
        ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
            return self._value({**apart, **trained[0]}, trained[1], *of_record)

        each = vmap(grad(value, has_aux=True), in_dims=(None, *[0] * len(inputs)))
        (found, errors), taken = each((rest, self._added), *inputs)
        for weight in self._repeated:
            found[weight.name] = weight.gradient(
                [taken[number] for number in weight.uses],
                [errors[number] for number in weight.uses],
            )
        return {name: found[name] for name in kept}, torch.arange(self.block) < len(drawn)

    def _rows(self, all_rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return some records in a block of its own memory, with zeros behind them."""
        rows = all_rows.new_zeros((self.block, *all_rows.shape[1:]))
        rows[: len(places)] = all_rows[places]
        return rows

    def _value(
        self,
        kept: Tensors,
        added: dict[int, torch.Tensor],
        record: torch.Tensor,
        target: torch.Tensor,
        *known: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """Return the loss of a record, and what repeated weights are multiplied by."""
        parameters = {**self._constants, **kept}
        given = None if self._frozen is None else self._frozen.given(known)
        taken: dict[int, torch.Tensor] = {}
        output = evaluate(self._graph, parameters, record[None], given, added, taken)
        return self._loss(output, target), taken

    def _keep(self, frozen: Frozen, count: int) -> None:
        """Compute the frozen part of all records, in blocks."""

        def results(record: torch.Tensor) -> list[torch.Tensor]:
            return frozen.results(self._constants, record[None])

        with torch.no_grad():
            for start in range(0, max(len(self._records), 1), self.block):
                places = torch.arange(start, min(start + self.block, len(self._records)))
                found = vmap(results)(self._rows(self._records, places))
                if not start:
                    if count * sum(each[0].numel() for each in found) > _MAX_KEPT:
                        return
                    self._kept = [e.new_zeros((len(self._records), *e.shape[1:])) for e in found]
                for all_rows, each in zip(self._kept, found, strict=True):
                    all_rows[start : start + len(places)] = each[: len(places)]
        self._frozen = frozen
