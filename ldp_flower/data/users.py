"""The people on one node: a ragged batch of records."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
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
    """The users that live on one Flower node, each with its own rows.

    A phone holds one user; a gateway, a hospital or a simulated node holds many.
    User ``i`` owns rows ``offsets[i]`` to ``offsets[i + 1]``; it may own none.

    Parameters
    ----------
    features : array_like, shape (rows, num_features)
        One row per record.
    targets : array_like, shape (rows,)
        One number per record.
    offsets : ndarray of int64, shape (users + 1,)
        Where each user's rows begin.
    ids : ndarray of str, shape (users,), optional
        Stable names that the privacy ledger knows users by. A deployment needs them.
    first : int, optional
        Index of this node's first user among those of a whole simulation, which
        makes results independent of how users are spread over nodes.
    has_targets : bool (default: True)
        Whether the targets are any; questions about them are refused otherwise.
    missing : ndarray of bool, shape (rows, num_features), optional
        Which entries were missing in the table that features were made from. By default none.
    columns : sequence of str, optional
        Names of the columns of ``features`` and, where it has one, last of the targets: for
        messages and the ledger where the rows are.
    schema_digests : mapping of str to int, optional
        Of the public schema that made them: a strategy with another one asks nobody.

    Raises
    ------
    ValueError
        If shapes disagree, offsets are no integers or decrease, or ids are not unique or empty, or
        no names that a ledger keeps; see :meth:`from_rows`.

    Notes
    -----
    Features and targets are kept as float64, row after row, whatever they come as: an entry's
    number depends on that entry alone. True is 1, ``"7"`` is 7, and what is no number
    (``None``, a date, an integer beyond all floats) is NaN. A record in which anything is not
    finite costs its user the record's use, and nobody else anything: it is left out, or, if
    the user has no other, reported as the centre; see :meth:`finite`.

    The representation shows how many users and features there are, and nothing of what they hold.
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
        ids: Any = self.ids
        if ids is not None and (
            not isinstance(ids, np.ndarray)
            or ids.dtype.kind != "U"
            or ids.shape != (len(self),)
            or len(np.unique(ids)) != len(self)
        ):
            raise ValueError(
                f"Expected {len(self)} distinct ids of type str, "
                f"got {getattr(ids, 'dtype', type(ids).__name__)} of shape {np.shape(ids)}."
            )
        if ids is not None and (np.strings.strip(ids) == "").any():
            raise ValueError("Expected ids that are not empty, got one that is.")
        if ids is not None:
            check_names("ids", ids.tolist())

    def __repr__(self) -> str:
        """Return the numbers of users and features, which are public."""
        return f"{type(self).__name__}(users={len(self)}, num_features={self.num_features})"

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
        features: Any,
        targets: Column | None = None,
        groups: Column | None = None,
        ids: Column | None = None,
        *,
        num_features: int | None = None,
        missing: NDArray[np.bool_] | None = None,
        missing_ids: MissingIds = "raise",
    ) -> Self:
        """Collect rows into users.

        Parameters
        ----------
        features : array_like, shape (rows, num_features), or sequence of array_like
            One row per record. In a list of rows, one of another length is a row of NaN. Which
            columns of a table (of pandas, polars or Arrow) hold what is no number is logged;
            :func:`~ldp_flower.simulate` refuses users without a usable row, and a node, whose
            data decide nothing that a server sees, lets them answer at random.
        targets : array_like, shape (rows,), optional
            One number per record. By default there are none, which counts need none of and
            means neither; a client refuses what is asked about them.
        groups : array_like of str or int, shape (rows,), optional
            The user of each row, as ``groups`` in scikit-learn; becomes the ids.
            By default each row is a user of its own.
        ids : array_like of str or int, shape (users,), optional
            All users of the node, distinct, with those who have no rows. By default
            those in ``groups``: then a server learns who has rows, since it
            learns how many users a node has.
        num_features : int, optional
            Number of features. By default that of an array; of a list of rows, the length that
            most rows have. It is public: where rows come as lists, declare it.
        missing : ndarray of bool, shape (rows, num_features), optional
            Which entries were missing, as :meth:`~ldp_flower.Schema.missing` returns.
        missing_ids : {"raise", "drop"} (default: "raise")
            What becomes of rows whose entry in ``groups`` is missing (None, NaN, an empty text):
            an error that names them, or they are left out, which is logged. Whole floats, of which
            pandas makes integers beside a missing entry, are integers then.

        Returns
        -------
        Users
            In the sorted order of their ids (of ``groups``, without ``ids``); rows keep
            their order within a user.

        Raises
        ------
        ValueError
            If shapes disagree, groups or ids are neither all strings nor all integers (7 and
            ``"7"``, or 7.0, would be two accounts of one person) or missing, ids repeat, a group
            is not among them, a name has two spellings (spaces around it, or accents as NFC and
            NFD), or cannot be kept on a ledger: it has more than 256 characters, or NUL or half a
            surrogate pair among them.
        """
        table = as_table(features, num_features)
        named = columns_of(features)
        columns = None if named is None else [name for name, _ in named]
        lost = 0 if columns is None else int((~np.isfinite(table).all(axis=1)).sum())
        if lost:
            logging.getLogger(__name__).warning(
                "%d of %d rows cannot be used: no numbers in column %s. Text is coded by a Schema.",
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
        """Return users of rows of numbers; see :meth:`from_rows`."""
        check_missing_ids(missing_ids, groups)
        has_targets = targets is not None
        numbers = np.zeros(len(table)) if targets is None else targets
        each = np.arange(len(table) + 1)  # a row is a user
        users = cls(table, numbers, each, has_targets=has_targets, missing=missing, columns=columns)
        if groups is None:
            if ids is not None:
                raise ValueError("Expected groups, the user of each row, with ids.")
            return users
        names, user = as_names("groups", groups, missing_ids)
        if len(user) != len(table):
            raise ValueError(f"Expected {len(table)} groups, one a row, got {len(user)}.")
        known = user >= 0
        if not known.all():
            logging.getLogger(__name__).warning(
                "Rows without the name of a user are left out: %s.", missing_rows(user)
            )
            users, user = users._with_rows(known), user[known]
        if ids is not None:  # as texts: the order is the ids' own, whoever has rows
            given, which = as_names("ids", ids, missing_ids)
            if len(given) < (number := int((which >= 0).sum())):
                raise ValueError(f"Expected distinct ids, got {len(given)} among {number}.")
            place = {name: i for i, name in enumerate(sorted(given))}
            if not set(names) <= set(place):
                raise ValueError("Expected ids to name the user of every row.")
            user = np.array([place[name] for name in names], np.int64)[user]
            names = list(place)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(names)))])
        sorted_rows = users._with_rows(np.argsort(user, kind="stable"))
        return replace(sorted_rows, offsets=offsets, ids=np.array(names, np.str_))

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
        """Collect items into users: one item a row, in a single column of features; no targets.

        Parameters
        ----------
        items : array_like of int or str, shape (rows,)
            Each entry counts by its own type, whatever the others are: an integer (or a
            float that is one; of four bytes below ``2**24``, of two below ``2**11``) in
            ``[0, 2**53)`` is its own number, a string becomes a number
            below ``2**num_bits`` by :func:`~ldp_flower.hash_items`. So 7 and ``"7"`` are two items.
            Anything else is no item, and its row is passed over.
        groups, ids, missing_ids
            As in :meth:`from_rows`.
        num_bits : int (default: 40)
            Bits of the numbers of strings, 1 to 40.

        Raises
        ------
        ValueError
            If shapes disagree, or groups or ids are refused as by :meth:`from_rows`.
        """
        numbers = item_numbers(items, num_bits)
        if lost := int(np.isnan(numbers).sum()):
            logging.getLogger(__name__).warning(
                "%d of %d rows hold no item, an integer from 0 to 2**53 - 1 or a text, and are "
                "passed over. Larger integers can be read as texts.",
                *(lost, len(numbers)),
            )
        return cls._collected(numbers[:, None], None, groups, ids, missing_ids)

    def __getitem__(self, users: slice) -> Self:
        """Return a run of users, without copying their rows."""
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
        """Return the users with parts of their own arrays, which have been checked as a whole."""
        users = copy(self)
        for name, value in changed.items():
            object.__setattr__(users, name, value)
        return users

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Self:
        """Return some users, in the given order, each with its first ``max_rows`` rows.

        ValueError if one of users with ids is named twice: it would be charged twice.
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
        """Return the users without the records in which something is not finite.

        Who has no other records keeps them all, and reports a centre instead of whatever they
        make of a statistic. Which records a user keeps depends on its own ones alone.
        """
        kept = np.isfinite(self.features).all(axis=1) & np.isfinite(self.targets)
        if kept.all():
            return self
        kept |= np.repeat(np.diff(_counted(kept)[self.offsets]) == 0, self.num_rows)
        return self.only(kept)

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """Return the users with these of their rows, of which some may have none left."""
        return self._with_rows(kept, offsets=_counted(kept)[self.offsets])

    def ordered(self, keys: NDArray[Any]) -> Self:
        """Return the users with the rows of each in the order of these keys, one a row."""
        order = np.lexsort((keys, np.repeat(np.arange(len(self)), self.num_rows)))
        return self._with_rows(order)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return node ``index``'s share when users are split as by ``numpy.array_split``."""
        start, stop = share(len(self), index, num_partitions)
        return self._with(first=self.first or 0)[start:stop]


def share(num_users: int, index: int, num_partitions: int) -> tuple[int, int]:
    """Return the first user of part ``index``, and the one after its last."""
    if not 0 <= index < num_partitions:
        raise ValueError(f"Expected 0 <= index < {num_partitions}, got {index}.")
    size, extra = divmod(num_users, num_partitions)
    start = index * size + min(index, extra)
    return start, start + size + (index < extra)


def _check_missing(missing: object, shape: tuple[int, ...]) -> None:
    if missing is None:
        return
    dtype, got = getattr(missing, "dtype", type(missing).__name__), np.shape(missing)  # type: ignore[call-overload]
    if dtype != np.bool_ or got != shape:
        raise ValueError(
            f"Expected missing to be an array of booleans of shape {shape}, as the features, "
            f"got {dtype} of shape {got}."
        )


def _counted(kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many rows are kept before each one, and last how many in all."""
    return np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])


def _checked_offsets(offsets: ArrayLike, rows: int) -> NDArray[np.int64]:
    """Return where rows begin, as int64; an error says nothing about who has how many."""
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


#: Name of the record in a census that says which schema a node's tables have.
SCHEMA: Final = "schema"


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
