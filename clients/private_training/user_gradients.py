"""Gradients of users, each of whom has one or more of a silo's records."""

import numpy as np
import torch
from numpy.typing import NDArray

from .gradients import Tensors
from .network_gradients import NetworkGradients


class UserGradients:
    """The gradients of single users: the mean of the gradients of a user's records.

    ``held``, shape (users, places of a user), says which places have a record in this round. A
    record's gradient that is not finite counts as 0.

    A user has the same places whatever its records are. So no user's number of records moves
    another user's records.
    """

    def __init__(self, each: NetworkGradients, held: NDArray[np.bool_]) -> None:
        self._each = each
        self._places = np.where(held, np.arange(held.size).reshape(held.shape), -1)
        self.block = each.block // held.shape[1]

    def of(self, kept: Tensors, drawn: NDArray[np.intp]) -> tuple[Tensors, torch.Tensor]:
        """Return gradients by name, shape (block, *parameter's), and a mask of users with records.

        The gradients of the users ``drawn`` come first, in this order. ``kept`` are the trainable
        parameters.
        """
        records = np.full((self.block, self._places.shape[1]), -1)
        records[: len(drawn)] = self._places[drawn]
        each, used = self._each.of(kept, records.ravel())
        rows = {name: gradient.reshape(len(used), -1) for name, gradient in each.items()}
        finite = torch.stack([row.isfinite().all(1) for row in rows.values()]).all(0)
        numbers = used.view(records.shape).sum(1)
        means = {
            name: row.masked_fill_(~(used & finite)[:, None], 0.0)
            .view(*records.shape, -1)
            .sum(1)
            .div_(numbers.clamp(min=1)[:, None])
            .view(self.block, *each[name].shape[1:])
            for name, row in rows.items()
        }
        return means, numbers > 0
