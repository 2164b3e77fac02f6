"""The users of one node, as a ragged batch of records."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import PlainFields, check_integer
from .entries import Column, columns_of
from .items import item_numbers
from .names import MissingIds, as_names, check_missing_ids, check_names, missing_rows
from .numbers import as_numbers, as_table, without_numbers


@dataclass(frozen=True, eq=False, repr=False)
class Users(PlainFields):
    """The users of one Flower node, each with its rows.

    A phone holds one user. A gateway, a hospital or a simulated node holds many. User ``i`` owns
    the rows from ``offsets[i]`` up to, not including, ``offsets[i + 1]``. It may have no rows.

    Parameters
    ----------
    features : array_like, shape (rows, num_features)
        One row per record.
    targets : array_like, shape (rows,)
        One number per record.
    offsets : ndarray of int64, shape (users + 1,)
        Index of each user's first row and, last, the number of rows.
    ids : ndarray of str, shape (users,), optional
        Stable names of the users, which are their accounts on the privacy ledger. A deployment
        needs them.
    first : int, optional
        Index of this node's first user among all users of a simulation. It makes results
        independent of the distribution of users over nodes.
    has_targets : bool (default: True)
        True if the users have targets. Otherwise the client refuses questions about targets.
    missing : ndarray of bool, shape (rows, num_features), optional
        Mask of the entries that were missing in the table of the features. By default none.
    columns : sequence of str, optional
        Names of the columns of ``features`` and, last, of the targets, if there are targets. They
        appear in messages and in the ledger on the node.
    schema_digests : mapping of str to int, optional
        Digests of the public schema that made the features. A strategy with another schema asks no
        user.

    Raises
    ------
    ValueError
        If shapes disagree, if offsets are not integers or decrease, or if ids are empty, repeated
        or not valid as names for a ledger; see :meth:`from_rows`.

    Notes
    -----
    Features and targets are stored as float64, row after row. An entry's number depends on that
    entry alone. True is 1, ``"7"`` is 7, and an entry that is not a number (``None``, a date,
    an integer beyond all floats) is NaN. A record with a non-finite number affects its own user
    only. The record is left out. If the user has no other records, the user reports the centre; see
    :meth:`finite`.

    The representation shows the numbers of users and features, and no data.
    """

    features: NDArray[np.float64]
    targets: NDArray[np.float64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.str_] | None = None
    first: int | None = None
    has_targets: bool = True
    missing: NDArray[np.bool_] | None = None
    columns: Sequence[str] | None = None
    schema_digests: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first is not None:
            check_integer("first", self.first, 0)
        features, targets = as_table(self.features), as_numbers(self.targets)
        if features.ndim != 2:
            raise ValueError(
                "Expected features to be floats of shape (rows, num_features), "
                f"got shape {features.shape}."
            )
        rows = len(features)
        if targets.shape != (rows,):
            raise ValueError(
                f"Expected targets to be floats of shape ({rows},), got shape {targets.shape}."
            )
        _check_missing(self.missing, features.shape)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "offsets", _checked_offsets(self.offsets, rows))
        if self.ids is not None:
            _check_ids(self.ids, len(self))

    def __repr__(self) -> str:
        """Return the numbers of users and features, which are public."""
        return f"{type(self).__name__}(users={len(self)}, num_features={self.num_features})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_features(self) -> int:
        """Number of columns of ``features``, which is public."""
        return int(self.features.shape[1])

    @property
    def num_rows(self) -> NDArray[np.int64]:
        """Number of rows of each user, shape (users,), which is private."""
        return np.diff(self.offsets)

    @classmethod
    def from_rows(
        cls,
        features: Any,
        targets: Column | None = None,
        groups: Column | None = None,
        ids: Column | None = None,
        *,
        num_features: int | None = None,
        missing: NDArray[np.bool_] | None = None,
        missing_ids: MissingIds = "raise",
    ) -> Self:
        """Return users made of rows.

        Parameters
        ----------
        features : array_like, shape (rows, num_features), or sequence of array_like
            One row per record; it may be a sparse matrix of SciPy. In a list of rows, a row of the
            wrong length counts as a row of NaN. If columns of a table (pandas, polars or Arrow)
            hold entries that are not numbers, these columns are logged.
            :func:`~ldp_flower.simulate` refuses users without a usable row. A node lets such users
            answer at random, so that its data decide nothing that a server sees.
        targets : array_like, shape (rows,), optional
            One number per record, by default none. Questions for counts and means need no targets.
            Without targets, a client refuses questions about them.
        groups : array_like of str or int, shape (rows,), optional
            The user of each row, like ``groups`` in scikit-learn. The groups become the ids. By
            default each row is a separate user.
        ids : array_like of str or int, shape (users,), optional
            All users of the node, distinct, including users without rows. By default the users in
            ``groups``. A server then learns which users have rows, since it learns the number of
            users of a node.
        num_features : int, optional
            Number of features. The default is the number of an array's columns or, for a list of
            rows, the most frequent length. The number is public: declare it if rows come as lists.
        missing : ndarray of bool, shape (rows, num_features), optional
            Mask of the missing entries, as returned by :meth:`~ldp_flower.Schema.missing`.
        missing_ids : {"raise", "drop"} (default: "raise")
            Treatment of rows whose entry in ``groups`` is missing (None, NaN, an empty text):
            raise an error that names them, or leave them out and log them. With missing entries,
            whole floats count as integers, since pandas turns integers beside a missing entry into
            floats.

        Returns
        -------
        Users
            The users in the sorted order of their ids (of ``groups``, without ``ids``). Rows keep
            their order within a user.

        Raises
        ------
        ValueError
            If shapes disagree. If groups or ids are missing, or neither all strings nor all
            integers (7 and ``"7"``, or 7.0, would be two accounts of one person). If ids repeat, or
            a group is not among them. If a name has two spellings (spaces around it, or accents as
            NFC and NFD). If a ledger cannot store a name: it has more than 256 characters, a NUL or
            half a surrogate pair.
        """
        table = as_table(features, num_features)
        named = columns_of(features)
        columns = None if named is None else [name for name, _ in named]
        lost = 0 if columns is None else int((~np.isfinite(table).all(axis=1)).sum())
        if lost:
            logging.getLogger(__name__).warning(
                "%d of %d rows cannot be used: not all entries are numbers in column %s. A Schema "
                "makes numbers of texts.",
                *(lost, len(table), without_numbers(table, columns)),
            )
        numbers = None if targets is None else as_numbers(targets)
        return cls._collected(table, numbers, groups, ids, missing_ids, missing, columns)

    @classmethod
    def _collected(
        cls,
        table: NDArray[np.float64],
        targets: NDArray[np.float64] | None,
        groups: Column | None,
        ids: Column | None,
        missing_ids: MissingIds,
        missing: NDArray[np.bool_] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Return users made of rows of numbers; see :meth:`from_rows`."""
        check_missing_ids(missing_ids, groups)
        has_targets = targets is not None
        numbers = np.zeros(len(table)) if targets is None else targets
        each = np.arange(len(table) + 1)  # each row is one user
        users = cls(table, numbers, each, has_targets=has_targets, missing=missing, columns=columns)
        if groups is None:
            if ids is not None:
                raise ValueError("Expected groups (the user of each row) together with ids.")
            return users
        names, user = as_names("groups", groups, missing_ids)
        if len(user) != len(table):
            raise ValueError(f"Expected {len(table)} groups, one a row, got {len(user)}.")
        known = user >= 0
        if not known.all():
            logging.getLogger(__name__).warning(
                "Rows without the name of a user are left out: %s.", missing_rows(~known)
            )
            users, user = users._with_rows(known), user[known]
        if ids is not None:  # sorted as texts: the order depends on all ids, not on who has rows
            given, which = as_names("ids", ids, missing_ids)
            if len(given) < (number := int((which >= 0).sum())):
                raise ValueError(f"Expected distinct ids, got {len(given)} among {number}.")
            place = {name: i for i, name in enumerate(sorted(given))}
            if not set(names) <= set(place):
                raise ValueError("Expected ids to name the user of every row.")
            user = np.array([place[name] for name in names], np.int64)[user]
            names = list(place)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(names)))])
        order = np.argsort(user, kind="stable")
        return users._with_rows(order, offsets=offsets, ids=np.array(names, np.str_))

    @classmethod
    def from_items(
        cls,
        items: Column,
        groups: Column | None = None,
        ids: Column | None = None,
        *,
        num_bits: int = 40,
        missing_ids: MissingIds = "raise",
    ) -> Self:
        """Return users made of items, without targets: one item per row, in one column of features.

        Parameters
        ----------
        items : array_like of int or str, shape (rows,)
            The type of each entry decides how it counts, independently of the other entries. An
            integer in ``[0, 2**53)`` is its own item number. So is a whole float in this range (of
            four bytes below ``2**24``, of two bytes below ``2**11``). A string becomes a number
            below ``2**num_bits`` by :func:`~ldp_flower.hash_items`. So 7 and ``"7"`` are two items.
            Any other entry is not an item, and its row is skipped.
        groups, ids, missing_ids
            As in :meth:`from_rows`.
        num_bits : int (default: 40)
            Number of bits of the strings' numbers, 1 to 40.

        Raises
        ------
        ValueError
            If shapes disagree, or if :meth:`from_rows` would refuse the groups or ids.
        """
        numbers = item_numbers(items, num_bits)
        if lost := int(np.isnan(numbers).sum()):
            logging.getLogger(__name__).warning(
                "%d of %d rows hold no item (an integer from 0 to 2**53 - 1, or a text) and are "
                "skipped. Larger integers can be read as texts.",
                *(lost, len(numbers)),
            )
        return cls._collected(numbers[:, None], None, groups, ids, missing_ids)

    def __getitem__(self, users: slice) -> Self:
        """Return a contiguous range of users, without copying their rows."""
        start, stop, step = users.indices(len(self))
        if step != 1:
            raise ValueError(f"Expected a slice of step 1, got {step}.")
        stop = max(start, stop)
        return self._with_rows(
            slice(self.offsets[start], self.offsets[stop]),
            offsets=self.offsets[start : stop + 1] - self.offsets[start],
            ids=None if self.ids is None else self.ids[start:stop],
            first=None if self.first is None else self.first + start,
        )

    def _with_rows(self, rows: Any, **changed: Any) -> Self:
        missing = None if self.missing is None else self.missing[rows]
        features, targets = self.features[rows], self.targets[rows]
        return self._with(features=features, targets=targets, missing=missing, **changed)

    def _with(self, **changed: Any) -> Self:
        """Return a copy in which some fields are replaced; they are not checked again."""
        users = copy(self)
        for name, value in changed.items():
            object.__setattr__(users, name, value)
        return users

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Self:
        """Return some users, in the given order, each with its first ``max_rows`` rows.

        Raise ValueError if users have ids and one of them is selected twice: the user would be
        charged twice.
        """
        if self.ids is not None and (distinct := len(np.unique(users))) < len(users):
            raise ValueError(f"Expected {len(users)} distinct ids, got {distinct}.")
        counts = self.num_rows[users]
        if max_rows is not None:
            counts = np.minimum(counts, max_rows)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        rows = np.repeat(self.offsets[users], counts) + within
        ids = None if self.ids is None else self.ids[users]
        return self._with_rows(rows, offsets=offsets, ids=ids, first=None)

    def finite(self) -> Self:
        """Return the users without their records that have a non-finite number.

        A user without finite records keeps all its records, and reports a centre instead of a
        statistic of them. The records that a user keeps depend on its own records only.
        """
        kept = np.isfinite(self.features).all(axis=1) & np.isfinite(self.targets)
        if kept.all():
            return self
        kept |= np.repeat(np.diff(_counted(kept)[self.offsets]) == 0, self.num_rows)
        return self.only(kept)

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """Return the users with the rows in the mask ``kept`` only; some may have no rows left."""
        return self._with_rows(kept, offsets=_counted(kept)[self.offsets])

    def ordered(self, keys: NDArray[Any]) -> Self:
        """Return the users, each with its rows sorted by ``keys``, which has a number per row.

        With random keys, the first rows of a user are a random sample.
        """
        order = np.lexsort((keys, np.repeat(np.arange(len(self)), self.num_rows)))
        return self._with_rows(order)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return the users of a simulated node, if all users are split over the nodes in order.

        The parts are those of ``numpy.array_split``.
        """
        start, stop = partition_range(len(self), index, num_partitions)
        return self._with(first=self.first or 0)[start:stop]


def partition_range(num_users: int, index: int, num_partitions: int) -> tuple[int, int]:
    """Return the indices of the first user of node ``index`` and of the first one after its last.

    A simulation splits its users over nodes like this.
    """
    if not 0 <= index < num_partitions:
        raise ValueError(f"Expected 0 <= index < {num_partitions}, got {index}.")
    size, extra = divmod(num_users, num_partitions)
    start = index * size + min(index, extra)
    return start, start + size + (index < extra)


def _check_ids(ids: Any, num_users: int) -> None:
    texts = isinstance(ids, np.ndarray) and ids.dtype.kind == "U"
    if not texts or ids.shape != (num_users,) or len(np.unique(ids)) != num_users:
        raise ValueError(
            f"Expected {num_users} distinct ids of type str, "
            f"got {getattr(ids, 'dtype', type(ids).__name__)} of shape {np.shape(ids)}."
        )
    if (np.strings.strip(ids) == "").any():
        raise ValueError("Expected ids that are not empty, got an empty id.")
    check_names("ids", ids.tolist())


def _check_missing(missing: object, shape: tuple[int, ...]) -> None:
    if missing is None:
        return
    dtype, got = getattr(missing, "dtype", type(missing).__name__), np.shape(missing)  # type: ignore[call-overload]
    if dtype != np.bool_ or got != shape:
        raise ValueError(
            f"Expected missing to be an array of booleans of shape {shape}, like the features, "
            f"got {dtype} of shape {got}."
        )


def _counted(kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many rows of a mask are kept before each row and, last, in all."""
    return np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])


def _checked_offsets(offsets: ArrayLike, rows: int) -> NDArray[np.int64]:
    """Return the offsets as int64; errors reveal no user's number of rows."""
    ends = np.asarray(offsets)
    if ends.dtype.kind not in "iu" or ends.ndim != 1 or not len(ends):
        raise ValueError(
            f"Expected offsets to be integers of shape (users + 1,), "
            f"got {ends.dtype} of shape {ends.shape}."
        )
    if (ends[1:] < ends[:-1]).any():
        raise ValueError("Expected offsets that do not decrease.")
    if ends[0] != 0 or ends[-1] != rows:
        raise ValueError(f"Expected offsets from 0 to {rows}, got {ends[0]} to {ends[-1]}.")
    return ends.astype(np.int64, copy=False)


#: Name of the record in the reply to a census that holds the digests of a node's schema.
SCHEMA: Final = "schema"


@runtime_checkable
class UserSource(Protocol):
    """The users of a node: in memory as :class:`Users`, or made when they are queried."""

    @property
    def ids(self) -> NDArray[np.str_] | None:
        """Names of the users on the privacy ledger; None is for a simulation only."""

    @property
    def first(self) -> int | None:
        """Index of the first user among all users of a simulation; None if it is not known."""

    @property
    def has_targets(self) -> bool:
        """True if the users have targets."""

    @property
    def num_features(self) -> int:
        """Number of columns of the users' features, which is public."""

    def __len__(self) -> int: ...

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Users:
        """Return the users with these indices, in this order, each with its first rows.

        There are ``max_rows`` of them at most.
        """

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return the users of node ``index`` if users are split as by ``numpy.array_split``."""


def users_instead_of(value: object) -> str:
    """Return advice on how to make Users of a value, for an error message."""
    is_table = hasattr(value, "columns") or isinstance(value, Mapping)
    return "make them by schema.users(table)" if is_table else "see Users.from_rows"
