"""Gradients of single records with respect to a network's parameters, in blocks of one shape."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import grad, vmap

from ldp_flower.models.interpreter import RecordLoss
from ldp_flower.models.network import Network

from .gradients import Tensors

_MAX_KEPT = 1 << 30  # largest size of the encoders' outputs for all records, in bytes: 1 GiB


def tensors_of(network: Network, trainable: bool) -> Tensors:
    """Return tensors of a network's trainable parameters or, without ``trainable``, of the others.

    Their order is that of the graph.
    """
    return {
        name: torch.tensor(network.arrays[name])
        for name, tensor in network.graph.parameters.items()
        if tensor.trainable == trainable
    }


class NetworkGradients:
    """The gradients of single records with respect to a checked network's trainable parameters.

    ``count`` is the public number of records, and ``block`` is the public number of records per
    block.

    All blocks have one shape and run the same kernels for any contents of the records. A place
    without a record holds a public record of zeros. The output of an encoder that is not trained is
    computed once for each record and kept, if public numbers show that there is memory for it.
    """

    def __init__(
        self,
        network: Network,
        records: torch.Tensor,
        targets: torch.Tensor,
        count: int,
        block: int,
    ) -> None:
        self.block = block
        self._records, self._targets = records, targets
        self._loss = RecordLoss.of(network.graph, tensors_of(network, False))
        self._known: list[torch.Tensor] = []
        if self._loss.encoded:
            self._keep(count)

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return gradients by name, shape (block, *parameter's), and a mask of the records.

        The gradients of the records ``drawn`` come first, in this order; -1 stands for no record.
        ``kept`` are the trainable parameters.
        """
        places = torch.from_numpy(drawn)
        inputs = [self._rows(each, places) for each in (self._records, self._targets, *self._known)]
        each = vmap(grad(self._loss), in_dims=(None, *[0] * len(inputs)))(kept, *inputs)
        used = torch.zeros(self.block, dtype=torch.bool)
        used[: len(places)] = places >= 0
        return each, used

    def _rows(self, all_rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return a block that has some of ``all_rows`` at ``places``, and zeros elsewhere."""
        rows = all_rows.new_zeros((self.block, *all_rows.shape[1:]))
        held = torch.nonzero(places >= 0)[:, 0]
        rows[held] = all_rows[places[held]]
        return rows

    def _keep(self, count: int) -> None:
        """Compute and keep the frozen encoders' outputs for all records, in blocks."""
        with torch.no_grad():
            for start in range(0, max(len(self._records), 1), self.block):
                places = torch.arange(start, min(start + self.block, len(self._records)))
                found = vmap(self._loss.known)(self._rows(self._records, places))
                if not start:
                    if count * sum(each[0].nbytes for each in found) > _MAX_KEPT:
                        return
                    self._known = [e.new_zeros((len(self._records), *e.shape[1:])) for e in found]
                for all_rows, each in zip(self._known, found, strict=True):
                    all_rows[start : start + len(places)] = each[: len(places)]
