"""The people on one node: a ragged batch of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .items import hash_items


@dataclass(frozen=True, eq=False)
class Users:
    """The users that live on one Flower node, each with its own rows.

    A phone holds one user; a gateway, a hospital or a simulated node holds many.
    User ``i`` owns rows ``offsets[i]`` to ``offsets[i + 1]``; it may own none.

    Parameters
    ----------
    features : ndarray of float, shape (rows, num_features)
        One row per record. What is not finite costs its user the record's use, never
        the guarantee.
    targets : ndarray of float, shape (rows,)
        One number per record.
    offsets : ndarray of int64, shape (users + 1,)
        Where each user's rows begin.
    ids : ndarray of str, shape (users,), optional
        Stable names that the privacy ledger knows users by. A deployment needs them.
    first : int, optional
        Index of this node's first user among those of a whole simulation, which
        makes results independent of how users are spread over nodes.

    Raises
    ------
    ValueError
        If shapes disagree, offsets decrease, or ids are not unique.
    """

    features: NDArray[np.floating[Any]]
    targets: NDArray[np.floating[Any]]
    offsets: NDArray[np.int64]
    ids: NDArray[np.str_] | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype.kind != "f":
            raise ValueError(
                "Expected features to be floats of shape (rows, num_features), "
                f"got {self.features.dtype} of shape {self.features.shape}."
            )
        rows = len(self.features)
        if self.targets.shape != (rows,) or self.targets.dtype.kind != "f":
            raise ValueError(
                f"Expected targets to be floats of shape ({rows},), "
                f"got {self.targets.dtype} of shape {self.targets.shape}."
            )
        ends = self.offsets
        if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != rows:
            raise ValueError(f"Expected offsets from 0 to {rows}, got {ends!r}.")
        if (np.diff(ends) < 0).any():
            raise ValueError("Expected offsets that do not decrease.")
        if self.ids is not None and (
            self.ids.dtype.kind != "U"
            or self.ids.shape != (len(self),)
            or len(np.unique(self.ids)) != len(self)
        ):
            raise ValueError(
                f"Expected {len(self)} distinct ids of type str, "
                f"got {self.ids.dtype} of shape {self.ids.shape}."
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_features(self) -> int:
        """Number of columns of ``features``; public."""
        return int(self.features.shape[1])

    @property
    def num_rows(self) -> NDArray[np.int64]:
        """Number of rows of each user; private."""
        return np.diff(self.offsets)

    @classmethod
    def from_rows(
        cls,
        features: ArrayLike,
        targets: ArrayLike,
        groups: ArrayLike | Sequence[object] | None = None,
        ids: ArrayLike | Sequence[object] | None = None,
    ) -> Self:
        """Collect rows into users.

        Parameters
        ----------
        features : array_like, shape (rows, num_features)
            One row per record.
        targets : array_like, shape (rows,)
            One number per record.
        groups : array_like of str or int, shape (rows,), optional
            The user of each row, as ``groups`` in scikit-learn; becomes the ids.
            By default each row is a user of its own.
        ids : array_like of str or int, shape (users,), optional
            All users of the node, distinct, with those who have no rows. By default
            those in ``groups``: then a server can tell who has rows, since it
            learns how many users a node has.

        Returns
        -------
        Users
            In the sorted order of their ids (of ``groups``, without ``ids``); rows keep
            their order within a user.

        Raises
        ------
        ValueError
            If shapes disagree, groups or ids are neither strings nor integers, ids
            repeat, or a group is not among them.
        """
        features = _as_floats(features)
        targets = _as_floats(targets)
        if groups is None:
            if ids is not None:
                raise ValueError("Expected groups, the user of each row, with ids.")
            return cls(features, targets, np.arange(len(features) + 1))
        groups = _as_names("groups", groups)
        if groups.shape != (len(features),):
            raise ValueError(f"Expected {len(features)} groups, one a row, got {groups.shape}.")
        if ids is None:
            names = np.unique(groups)
        else:  # as texts: the order is the ids' own, whoever has rows
            given, groups = _as_names("ids", ids).astype(np.str_), groups.astype(np.str_)
            names = np.unique(given)
            if len(names) < given.size:
                raise ValueError(f"Expected distinct ids, got {len(names)} among {given.size}.")
            if not np.isin(groups, names).all():
                raise ValueError("Expected ids to name the user of every row.")
        user = np.searchsorted(names, groups)
        order = np.argsort(user, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(names)))])
        return cls(features[order], targets[order], offsets, names.astype(np.str_))

    @classmethod
    def from_items(
        cls,
        items: ArrayLike | Sequence[object],
        groups: ArrayLike | Sequence[object] | None = None,
        ids: ArrayLike | Sequence[object] | None = None,
        *,
        num_bits: int = 40,
    ) -> Self:
        """Collect items into users: one item a row, in a single column of features.

        Parameters
        ----------
        items : array_like of int or str, shape (rows,)
            Item numbers, exact below 2**53, or strings, which become numbers below
            ``2**num_bits`` by :func:`~ldp_flower.hash_items`.
        groups : array_like of str or int, shape (rows,), optional
            The user of each row, as in :meth:`from_rows`. By default each row is a
            user of its own.
        ids : array_like of str or int, shape (users,), optional
            All users of the node, as in :meth:`from_rows`.
        num_bits : int (default: 40)
            Bits of the numbers of strings, 1 to 40.

        Returns
        -------
        Users
            Their targets are zero.

        Raises
        ------
        ValueError
            If items are neither integers nor strings, or shapes disagree.
        """
        numbers = np.asarray(items)
        if numbers.dtype.kind == "O" and all(isinstance(name, str) for name in numbers.flat):
            numbers = numbers.astype(np.str_)
        if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iuU"):
            raise ValueError(
                "Expected items to be integers or strings of shape (rows,), "
                f"got {numbers.dtype} of shape {numbers.shape}."
            )
        if numbers.dtype.kind == "U":
            numbers = hash_items(numbers, num_bits)
        rows = numbers.astype(np.float64)[:, None]
        return cls.from_rows(rows, np.zeros(len(rows)), groups, ids)

    def __getitem__(self, users: slice) -> Self:
        """Return a run of users, without copying their rows."""
        start, stop, step = users.indices(len(self))
        if step != 1:
            raise ValueError(f"Expected a slice of step 1, got {step}.")
        stop = max(start, stop)
        rows = slice(self.offsets[start], self.offsets[stop])
        return type(self)(
            self.features[rows],
            self.targets[rows],
            self.offsets[start : stop + 1] - self.offsets[start],
            None if self.ids is None else self.ids[start:stop],
            None if self.first is None else self.first + start,
        )

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Self:
        """Return some users, in the given order, each with its first ``max_rows`` rows."""
        counts = self.num_rows[users]
        if max_rows is not None:
            counts = np.minimum(counts, max_rows)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        rows = np.repeat(self.offsets[users], counts) + within
        ids = None if self.ids is None else self.ids[users]
        return type(self)(self.features[rows], self.targets[rows], offsets, ids)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return node ``index``'s share when users are split as by ``numpy.array_split``."""
        start, stop = share(len(self), index, num_partitions)
        whole = type(self)(self.features, self.targets, self.offsets, self.ids, self.first or 0)
        return whole[start:stop]


def share(num_users: int, index: int, num_partitions: int) -> tuple[int, int]:
    """Return the first user of part ``index`` and the one after its last.

    Raises
    ------
    ValueError
        If there is no such part.
    """
    if not 0 <= index < num_partitions:
        raise ValueError(f"Expected 0 <= index < {num_partitions}, got {index}.")
    size, extra = divmod(num_users, num_partitions)
    start = index * size + min(index, extra)
    return start, start + size + (index < extra)


def _as_names(argument: str, names: ArrayLike | Sequence[object]) -> NDArray[Any]:
    array = np.asarray(names)
    texts = array.dtype.kind == "O" and all(isinstance(name, str) for name in array.flat)
    if texts or not array.size:
        array = array.astype(np.str_)
    if array.dtype.kind not in "iuU":
        # 7 and 7.0 would be two accounts of one person on the ledger.
        raise ValueError(f"Expected {argument} to be strings or integers, got {array.dtype}.")
    return array


def _as_floats(values: ArrayLike) -> NDArray[np.floating[Any]]:
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
