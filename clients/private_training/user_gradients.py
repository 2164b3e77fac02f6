"""Gradients of users, each of whom has one or more of a silo's records."""

import numpy as np
import torch
from numpy.typing import NDArray

from ldp_flower.randomness import RandomSource

from .gradients import Tensors
from .network_gradients import NetworkGradients


class UserGradients:
    """The gradients of single users: the mean of the gradients of a user's records.

    ``places``, shape (users, records of a user), has the records of each user in this round, and
    -1 where a user has fewer. A record's gradient that is not finite counts as 0.

    A user has the same number of places in a block whatever its records are. So no user's number
    of records moves another user's records to other places.
    """

    def __init__(self, each: NetworkGradients, places: NDArray[np.intp]) -> None:
        self._each, self._places = each, places
        self.block = each.block // places.shape[1]

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


def records_of_users(
    owners: NDArray[np.intp], num_users: int, most: int, randomness: RandomSource
) -> NDArray[np.intp]:
    """Return the places of each user's records in a round, shape (num_users, most), or -1.

    ``owners`` has the number of the user whom each record is about. Of a user with more than
    ``most`` records, ``most`` consecutive ones are drawn, beginning at a random one and continuing
    with the first after the last: each record is equally likely. The number of draws does not
    depend on the data.
    """
    counts = np.bincount(owners, minlength=num_users)[:, None]
    begins = np.cumsum(counts)[:, None] - counts
    first = (randomness.uniforms((1, num_users))[0][:, None] * counts).astype(np.intp)
    turns = np.arange(most)
    places = begins + (first + turns) % np.maximum(counts, 1)
    by_user = np.append(np.argsort(owners, kind="stable"), -1)
    return np.where(turns < counts, by_user[np.minimum(places, len(owners))], -1)
