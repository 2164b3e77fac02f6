"""Schema: what is publicly known about a table, and the features and targets that follow."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from flwr.app import Context
from numpy.typing import ArrayLike, NDArray

from ..guarantee.budget import in_simulation
from ..validation import Floats, PlainFields
from .columns import (
    Categories,
    Numeric,
    check_kind,
    exact_of,
    kind_of,
    plain_of,
    tell_beyond,
)
from .entries import Column, has
from .names import MissingIds, check_missing_ids
from .numbers import as_column, as_numbers
from .table_file import names_in, read_table
from .users import Users


class Table(Protocol):
    """A mapping of column names to columns, or a pandas DataFrame."""

    def __getitem__(self, name: str, /) -> Any:
        """Return one column, one value a row."""


@dataclass(frozen=True)
class Schema(PlainFields):
    """What is publicly known about a table, and the features and targets that follow.

    What is declared here need not be estimated with privacy budget. A row's features depend on that
    row and on the schema alone, and are finite and bounded whatever the row holds: a value that is
    missing or no number counts as typical. True is 1, ``"7"`` is 7, and dates and durations are no
    numbers. So a schema may be shared freely, and applying it on a client reveals nothing.

    Parameters
    ----------
    columns : mapping of str to Numeric or Categories
        The columns that features are made of, in their order.
    target : str, optional
        Name of the column to predict; none where nothing is predicted.
    bounds : Numeric or Categories, optional
        What is known about the target, given with it: the bounds of a number, or the classes.

    Raises
    ------
    ValueError
        If there is no column, one is neither a `Numeric` nor `Categories` or has a name that is no
        text, the target is one of them, or only one of target and bounds is given.

    Notes
    -----
    The first feature is 1, for the intercept. Together with it, columns that are not centred make
    gradient steps diverge; so the middle of the bounds, or better a typical value, is taken off.
    Indicators are centred by one over the number of categories, and not divided by anything.
    """

    columns: Mapping[str, Numeric | Categories]
    target: str | None = None
    bounds: Numeric | Categories | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.columns, Mapping):
            raise ValueError(
                "Expected columns as a mapping of names to Numeric(low, high) or "
                f"Categories([...]), got {self.columns!r}."
            )
        if not self.columns:
            raise ValueError("Expected at least one column, got none.")
        for name in self.columns_read:
            if not isinstance(name, str):
                raise ValueError(
                    f"Expected texts as names of columns, got {name!r}. In a DataFrame: "
                    "table.columns = table.columns.map(str)."
                )
        for name, kind in self.columns.items():
            check_kind(f"column {name!r}", kind)
        if (self.target is None) != (self.bounds is None):
            raise ValueError(
                "Expected a target together with its bounds, "
                f"got target={self.target!r} and bounds={self.bounds!r}."
            )
        if self.bounds is not None:
            check_kind(f"the target {self.target!r}", self.bounds)
        if self.target in self.columns:
            raise ValueError(f"Expected a target that is no feature, got {self.target!r}.")

    @property
    def names(self) -> list[str]:
        """Names of the features, ``intercept`` first."""
        own = (name for column, kind in self.columns.items() for name in kind.names(column))
        return ["intercept", *own]

    @property
    def num_features(self) -> int:
        """Number of features, with the intercept."""
        return 1 + sum(kind.width for kind in self.columns.values())

    @property
    def classes(self) -> tuple[str, ...]:
        """Categories of the target, in their order; empty where it is none or a number."""
        return tuple(map(str, self.bounds.values)) if isinstance(self.bounds, Categories) else ()

    def kind(self, name: str) -> Numeric | Categories:
        """Return what is known about a column, the target included; ValueError if there is none."""
        if name == self.target and self.bounds is not None:
            return self.bounds
        if name not in self.columns:
            raise ValueError(f"Expected one of the columns {self.columns_read}, got {name!r}.")
        return self.columns[name]

    def places(self, name: str) -> range:
        """Return which features a column is; the target comes after all of them.

        Raises ValueError if there is no such column.
        """
        if name == self.target:
            return range(self.num_features, self.num_features + 1)
        self.kind(name)
        before = list(self.columns).index(name)
        start = 1 + sum(kind.width for kind in list(self.columns.values())[:before])
        return range(start, start + self.columns[name].width)

    @property
    def centred(self) -> NDArray[np.bool_]:
        """Which features, and last the target, need no centre: it is declared, or they are none.

        The intercept, indicators and classes have none.
        """
        return self._known(lambda column: column.centre is not None)

    @property
    def scaled(self) -> NDArray[np.bool_]:
        """Which features, and last the target, need no scale, likewise."""
        return self._known(lambda column: column.scale is not None)

    def _known(self, declared: Callable[[Numeric], bool]) -> NDArray[np.bool_]:
        kinds = [*self.columns.values(), self.bounds]
        known = [declared(kind) if isinstance(kind, Numeric) else True for kind in kinds]
        return np.repeat([True, *known], [1, *(kind.width for kind in self.columns.values()), 1])

    def features(self, table: Table) -> Floats:
        """Return the standardised features, shape (rows, num_features).

        They are within [-2, 2] where columns declare bounds only. The table is a mapping of names
        to columns, or a DataFrame, with all columns of the schema; others are not looked at. Raises
        ValueError if a column is missing or columns differ in length.
        """
        table = collected(table)
        blocks = [kind.standardise(self._read(table, name)) for name, kind in self.columns.items()]
        lengths = {name: len(block) for name, block in zip(self.columns, blocks, strict=True)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Expected columns of one length, got {lengths}.")
        return np.hstack([np.ones((len(blocks[0]), 1)), *blocks])

    def targets(self, table: Table) -> Floats:
        """Return the targets, standardised or the places of their classes, shape (rows,).

        What is no number or none of the classes is NaN: a row without a target is no example of
        anything, and users leave it out. Raises ValueError if the schema has no target or the table
        lacks its column.
        """
        if self.target is None or self.bounds is None:
            raise ValueError("Expected a schema with a target, got one without.")
        return self.bounds.coded(self._read(collected(table), self.target))

    def missing(self, table: Table) -> NDArray[np.bool_]:
        """Return which entries count as missing, shape (rows, num_features).

        These are no numbers, or none of the categories: all features of a column of categories are
        missing together. Raises ValueError if the table lacks a column.
        """
        table = collected(table)
        codes = [kind.coded(self._read(table, name)) for name, kind in self.columns.items()]
        absent = np.isnan([np.zeros(len(codes[0])), *codes])
        return np.repeat(absent.T, [1, *(kind.width for kind in self.columns.values())], axis=1)

    def _read(self, table: Table, name: str) -> Any:
        return column_of(table, name, numbers=isinstance(self.kind(name), Numeric))

    def users(
        self,
        table: Table,
        groups: str | Column | None = None,
        ids: Column | None = None,
        *,
        missing_ids: MissingIds = "raise",
    ) -> Users:
        """Collect the rows of a table into users.

        Parameters
        ----------
        table : mapping of str to array_like, or DataFrame
            Has all columns of the schema, the target included. Tables of pandas, polars, pyarrow
            and DuckDB are taken, and queries and data sets of theirs, which are run. An entry that
            its library cannot give (no UTF-8, a year after 9999) is missing. A query that fails
            on an entry fails for all rows: cast by ``TRY_CAST``, or with ``strict=False``.
        groups : str or array_like of str or int, optional
            The user of each row, or the name of the column with it. By default each
            row is a user of its own.
        ids : array_like of str or int, optional
            All users, with those who have no rows.
        missing_ids : {"raise", "drop"} (default: "raise")
            What becomes of rows without the name of a user, as of
            :meth:`~ldp_flower.Users.from_rows`.

        Returns
        -------
        Users
            They know which entries are missing. A row whose target is missing counts in nothing
            that is about the target. How many numbers are beyond their bounds, and count as these,
            is logged where the table is, and how many entries that are there count as missing.

        Raises
        ------
        ValueError
            If a column is missing or there twice, columns differ in length, groups are a Series
            whose index is not the table's, or groups or ids are refused as by
            :meth:`~ldp_flower.Users.from_rows`.
        """
        table = collected(table)
        read = {name: self._read(table, name) for name in self.columns_read}
        tell_beyond({name: (self.kind(name), values) for name, values in read.items()})
        named: Any = groups
        if isinstance(groups, str):
            try:
                named = column_of(table, groups)
            except ValueError as error:
                alone = "Without groups each row is a user of its own."
                raise ValueError(f"{error} {alone}") from None
        check_rows(table, named)
        for name, values in read.items():  # once for what follows
            read[name] = as_numbers(values) if isinstance(self.kind(name), Numeric) else values
        targets = None if self.target is None else self.targets(read)
        features = self.features(read)  # first: it says if columns differ in length
        users = Users.from_rows(
            features, targets, named, ids, missing=self.missing(read), missing_ids=missing_ids
        )
        own = [name for name, kind in self.columns.items() for _ in range(kind.width)]
        columns = ["intercept", *own, *([] if self.target is None else [self.target])]
        return replace(users, schema_digests=self.digests(), columns=columns)

    def loader(
        self,
        table: str | Path | None = None,
        *,
        user_column: str | None = None,
        ids: str | Path | None = None,
        quoted: bool = True,
        missing_ids: MissingIds = "raise",
    ) -> "TableLoader":
        """Return the ``load_users`` of a table on disk, for ``LdpClientApp``.

        In a deployment it loads the whole table of a node, in a simulation the node's share of
        one table.

        Parameters
        ----------
        table : str or Path, optional
            A CSV or Parquet file with all columns of the schema. By default each node's operator
            names it in ``node_config``, as ``data-path``.
        user_column : str, optional
            The column with the user of each row. By default each row is a user of its own, which
            only a simulation takes: a ledger needs names.
        ids : str or Path, optional
            A text file with the names of all users, one a line, with those who have no rows. By
            default ``ids-path`` in ``node_config``, if it is set; without either a server can
            reveal how many users have rows.
        quoted : bool (default: True)
            Whether fields of a CSV file may be in quotes; see :func:`~ldp_flower.read_table`.
        missing_ids : {"raise", "drop"} (default: "raise")
            What becomes of rows without the name of a user: the file is refused, so that its node
            answers nobody until it is mended, or they are left out, as of
            :meth:`~ldp_flower.Users.from_rows`.

        Raises
        ------
        ValueError
            If the user column is one of the schema's, or ids are given without one.
        """
        return TableLoader(self, table, user_column, ids, quoted, missing_ids)

    @property
    def columns_read(self) -> list[str]:
        """Names of all columns that a table needs, the target last."""
        return [*self.columns, *([] if self.target is None else [self.target])]

    def digests(self) -> dict[str, int]:
        """Return a number for each column and the target that differs where what is declared does.

        Of 63 bits each: two schemas with the same numbers are the same, unless somebody has
        searched for two that agree.
        """
        parts = {
            f"column {name}": [place, exact_of(kind)]
            for place, (name, kind) in enumerate(self.columns.items())
        }
        if self.bounds is not None:
            parts[f"target {self.target}"] = [exact_of(self.bounds)]
        texts = {name: json.dumps([name, *part], sort_keys=True) for name, part in parts.items()}
        hashes = {name: hashlib.sha256(text.encode()).digest() for name, text in texts.items()}
        return {name: int.from_bytes(found[:8], "big") >> 1 for name, found in hashes.items()}

    def in_units(self, predictions: ArrayLike) -> Floats:
        """Return predictions of standardised targets in the target's units.

        Raises ValueError if the target is no number.
        """
        if not isinstance(self.bounds, Numeric):
            raise ValueError("Expected a schema whose target is a number, got another.")
        return self.bounds.restore(predictions)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values, for JSON; see :meth:`from_dict`."""
        plain: dict[str, Any] = {
            "columns": {name: plain_of(kind) for name, kind in self.columns.items()}
        }
        if self.bounds is not None:
            plain |= {"target": self.target, "bounds": plain_of(self.bounds)}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the schema that :meth:`to_dict` gave; ValueError for anything else."""
        try:
            kinds = {name: kind_of(kind) for name, kind in plain["columns"].items()}
            bounds = kind_of(plain["bounds"]) if "bounds" in plain else None
            return cls(kinds, plain.get("target"), bounds)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Expected a schema as to_dict gives it, got {error!r}.") from None


@dataclass
class TableLoader:
    """Loads a node's users from a file; made by :meth:`Schema.loader <ldp_flower.Schema.loader>`.

    Without a table or ids their files are ``data-path`` and, if it is set, ``ids-path`` in
    ``node_config``. Without a user column each row is a user. ``quoted`` is as of
    :func:`read_table`, ``missing_ids`` as of :meth:`Users.from_rows`.
    """

    schema: Schema
    table: str | Path | None = None
    user_column: str | None = None
    ids: str | Path | None = None
    quoted: bool = True
    missing_ids: MissingIds = "raise"
    _kept: dict[tuple[object, ...], Users] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.user_column in self.schema.columns_read:
            raise ValueError(
                f"Expected a user column that is none of the schema's, got {self.user_column!r}."
            )
        if self.ids is not None and self.user_column is None:
            raise ValueError("Expected user_column, with the user of each row, with ids.")
        check_missing_ids(self.missing_ids, self.user_column)

    @property
    def schema_digests(self) -> Mapping[str, int]:
        """A number for each column, for the census."""
        return self.schema.digests()

    def __call__(self, context: Context) -> Users:
        """Return the users of a node: all of the table's or, in a simulation, the node's share.

        Raises ValueError if no file is named, or it cannot be read as a table of the schema.
        """
        config = context.node_config
        table = config.get("data-path") if self.table is None else self.table
        if not isinstance(table, str | Path):
            raise ValueError(
                "Expected the table's file: data-path in node_config, or loader(table=...)."
            )
        ids = config.get("ids-path") if self.ids is None else self.ids
        users = self._users(Path(table).expanduser(), None if ids is None else Path(str(ids)))
        if in_simulation() and "partition-id" in config:
            return users.partition(int(config["partition-id"]), int(config["num-partitions"]))
        return users

    def _users(self, table: Path, ids: Path | None) -> Users:
        """Return the users of a file; it is read once in a process, and when it has changed."""
        files = [table] if ids is None else [table, ids.expanduser()]
        try:
            key = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        except OSError as error:
            raise ValueError(
                f"The file {error.filename} cannot be read: {error.strerror}."
            ) from error
        if key not in self._kept:
            self._kept.clear()
            named = None if ids is None else names_in(files[1])
            columns = [*self.schema.columns_read, *filter(None, [self.user_column])]
            read = read_table(table, columns, quoted=self.quoted)
            self._kept[key] = self.schema.users(
                read, self.user_column, named, missing_ids=self.missing_ids
            )
        return self._kept[key]


def check_rows(table: object, groups: object) -> None:
    """Raise ValueError for groups of other rows: a Series whose index is not the table's."""
    rows: Any = getattr(table, "index", None)
    named: Any = getattr(groups, "index", None)
    if not (hasattr(rows, "equals") and hasattr(named, "equals")) or rows.equals(named):
        return
    if len(rows) == len(named):  # other lengths are refused with both numbers
        raise ValueError(
            "Expected groups with the index of the table, got another: whose row is whose? Name a "
            "column of the table, or give groups.to_numpy() if they are in its order."
        )


def collected(table: Any) -> Any:
    """Return the rows of a query or data set that are elsewhere yet; anything else as it is.

    That is a polars ``LazyFrame``, a pyarrow ``Dataset`` or a relation of DuckDB. It is run once.
    """
    if has(table, "collect") and not has(table, "__array__"):
        return table.collect()
    if has(table, "to_arrow_table"):
        return table.to_arrow_table()
    return table.to_table() if has(table, "scanner") else table


def column_of(table: Table, name: str, numbers: bool = False) -> Any:
    """Return a column of a table, one entry a row.

    ``numbers`` says whether nothing else counts in it; see :func:`~.values.numbers.as_column`.
    Raises ValueError if there is none of that name, or there are two.
    """
    try:
        values = table[name]
    except (IndexError, TypeError):  # an array's or a list's
        raise ValueError(
            "Expected a table with named columns, a DataFrame or a mapping of names to columns, "
            f"got {type(table).__name__}."
        ) from None
    except Exception:  # polars' own is no KeyError
        raise ValueError(f"Expected a column {name!r} in the table, got none.") from None
    if getattr(values, "ndim", 1) == 2 and hasattr(table, "columns"):
        raise ValueError(f"Expected one column {name!r} in the table, got {values.shape[1]}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"Expected one value a row in {name!r}, got {values.ndim} dimensions.")
    if isinstance(values, str | bytes):
        raise ValueError(f"Expected a column {name!r}, one entry a row, got {values!r:.40}.")
    return as_column(values, f"column {name!r}", numbers)


__all__ = ["Categories", "Numeric", "Schema", "Table"]
