"""Users whose rows exist only while they are asked: simulations larger than memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..guarantee.users import Users, share
from ..validation import check_integer

#: Function from the indices of some users to these users.
Generate = Callable[[NDArray[np.int64]], Users]


@dataclass(frozen=True, eq=False)
class GeneratedUsers:
    """Simulated users, generated a few at a time and forgotten after their answer.

    Takes the place of :class:`Users` in :func:`~ldp_flower.simulate` and in a
    ``load_users`` function. It has no ids, so a deployment's client refuses it.

    Parameters
    ----------
    num_users : int
        Number of users.
    num_features : int
        Number of columns of their features.
    generate : callable
        Function from the indices of some users, an ndarray of int64, to the
        :class:`Users` of these, in this order. A user's rows must depend on its index
        alone; ``KeyedRandom(derive(seed, indices))`` draws them so for all at once.
    first : int, optional
        Index of the first user, as in :class:`Users`; indices start from it.

    Raises
    ------
    ValueError
        If a number is out of range, or ``generate`` returns something else than it
        was asked for.
    """

    num_users: int
    num_features: int
    generate: Generate = field(repr=False)
    first: int | None = None

    ids = None
    has_targets = True

    def __post_init__(self) -> None:
        check_integer("num_users", self.num_users, 0)
        check_integer("num_features", self.num_features, 1)

    def __len__(self) -> int:
        return self.num_users

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Users:
        """Generate some users, in the given order, each with its first ``max_rows`` rows."""
        taken = self.generate((self.first or 0) + users)
        if len(taken) != len(users) or taken.num_features != self.num_features:
            raise ValueError(
                f"Expected generate to return {len(users)} users with {self.num_features} "
                f"features, got {len(taken)} with {taken.num_features}."
            )
        return taken if max_rows is None else taken.take(np.arange(len(taken)), max_rows)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return node ``index``'s share when users are split as by ``numpy.array_split``."""
        start, stop = share(self.num_users, index, num_partitions)
        first = (self.first or 0) + start
        return type(self)(stop - start, self.num_features, self.generate, first)
