"""What a client needs of whatever holds the people on its node."""

from collections.abc import Mapping
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .users import Users

#: Name of the record in a census that says which schema a node's tables have.
SCHEMA: Final = "schema"


@runtime_checkable
class KnowsSchema(Protocol):
    """A loader of users, or users, who know what is publicly declared about their columns."""

    @property
    def schema_digests(self) -> Mapping[str, int] | None:
        """A number for each column, which differs where what is declared does; public."""


@runtime_checkable
class UserSource(Protocol):
    """The users of a node: at hand as :class:`Users`, or made while they are asked."""

    @property
    def ids(self) -> NDArray[np.str_] | None:
        """Names that the privacy ledger knows users by; None: in a simulation only."""

    @property
    def first(self) -> int | None:
        """Index of the first user among those of a whole simulation, where it is one's share."""

    @property
    def has_targets(self) -> bool:
        """Whether the users have targets."""

    @property
    def num_features(self) -> int:
        """Number of columns of their features; public."""

    def __len__(self) -> int: ...

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Users:
        """Return some users, in the given order, each with its first ``max_rows`` rows."""

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return node ``index``'s share when users are split as by ``numpy.array_split``."""
