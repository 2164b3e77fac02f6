"""Simulated users that are generated when they are asked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..data.users import Users, partition_range
from ..validation import PlainFields, check_integer

#: Function from the indices of some users to these users.
Generate = Callable[[NDArray[np.int64]], Users]


@dataclass(frozen=True, eq=False)
class GeneratedUsers(PlainFields):
    """Simulated users that are generated a few at a time and dropped after their answer.

    They can be used in place of :class:`Users` in :func:`~ldp_flower.simulate` and in a
    ``load_users`` function. They have no ids, so a deployment's client refuses them.

    Parameters
    ----------
    num_users, num_features : int
        Number of users, and number of columns of their features.
    generate : callable
        Function from the indices of some users, an ndarray of int64, to the
        :class:`Users` with these indices, in this order. A user's rows must depend on its
        index alone; ``KeyedRandom(derive(seed, indices))`` draws such rows for all at once.
    first : int, optional
        Index of the first user, as in :class:`Users`. Indices start from it.

    Raises
    ------
    ValueError
        If a number is out of range, or ``generate`` returns another number of users or
        features than requested.
    """

    num_users: int
    num_features: int
    generate: Generate = field(repr=False)
    first: int | None = None

    ids = None
    has_targets = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_users", self.num_users, 0)
        check_integer("num_features", self.num_features, 1)
        if self.first is not None:
            check_integer("first", self.first, 0)

    def __len__(self) -> int:
        return self.num_users

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Users:
        """Return the users with these indices, in this order, each with its first rows.

        There are ``max_rows`` of them at most.
        """
        taken = self.generate((self.first or 0) + users)
        if len(taken) != len(users) or taken.num_features != self.num_features:
            raise ValueError(
                f"Expected generate to return {len(users)} users with {self.num_features} "
                f"features, got {len(taken)} with {taken.num_features}."
            )
        return taken if max_rows is None else taken.take(np.arange(len(taken)), max_rows)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return the share of node ``index`` if users are split as by ``numpy.array_split``."""
        start, stop = partition_range(self.num_users, index, num_partitions)
        first = (self.first or 0) + start
        return type(self)(stop - start, self.num_features, self.generate, first)
