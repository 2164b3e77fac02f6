"""Schema: public facts about a table, which define its features and targets."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

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
    log_mismatches,
    plain_of,
)
from .entries import Column
from .names import MissingIds, check_missing_ids
from .numbers import as_numbers
from .table_file import names_in, read_table
from .tables import Table, check_rows, collected, column_of
from .users import Users


@dataclass(frozen=True)
class Schema(PlainFields):
    """Public facts about a table, which define its features and targets.

    Facts that are declared here need not be estimated, which would cost privacy budget. A row's
    features depend only on that row and on the schema. They are finite and bounded for any row: a
    value that is missing or is not a number counts as the typical value. True is 1, ``"7"`` is 7,
    and dates and durations do not count as numbers. So a schema may be shared freely, and applying
    it on a client reveals nothing.

    Parameters
    ----------
    columns : mapping of str to Numeric or Categories
        The columns of the features, in their order.
    target : str, optional
        Name of the column to predict, by default none.
    bounds : Numeric or Categories, optional
        Public facts about the target: the bounds of a number, or the classes. Required if there is
        a target.

    Raises
    ------
    ValueError
        If there is no column, if a column is neither `Numeric` nor `Categories`, if a column's name
        is not a string, if the target is one of the columns, or if only one of target and bounds is
        given.

    Notes
    -----
    The first feature is 1, for the intercept. With an intercept, columns that are not centred make
    gradient steps diverge. So the middle of the bounds, or better a typical value, is subtracted.
    Indicators are centred by one over the number of categories, and not scaled.
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
            raise ValueError(f"Expected a target that is not in columns, got {self.target!r}.")

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
        """Classes of the target, in the order of their indices; empty if it is not categories."""
        return tuple(map(str, self.bounds.values)) if isinstance(self.bounds, Categories) else ()

    def kind(self, name: str, argument: str | None = None) -> Numeric | Categories:
        """Return the declaration of a column or the target.

        Raise ValueError, which names the ``argument`` that the name comes from, if it is unknown.
        """
        if not isinstance(name, str) or name not in self.columns_read:
            what = "one" if argument is None else f"{argument} to be one"
            raise ValueError(f"Expected {what} of the columns {self.columns_read}, got {name!r}.")
        if name == self.target and self.bounds is not None:
            return self.bounds
        return self.columns[name]

    def places(self, name: str) -> range:
        """Return the indices of a column's features; the target's index follows all features.

        Questions name features by these indices. Raise ValueError if there is no such column.
        """
        if name == self.target:
            return range(self.num_features, self.num_features + 1)
        self.kind(name)
        before = list(self.columns).index(name)
        start = 1 + sum(kind.width for kind in list(self.columns.values())[:before])
        return range(start, start + self.columns[name].width)

    @property
    def centred(self) -> NDArray[np.bool_]:
        """Mask of the features and, last, the target: True if its centre need not be estimated.

        Such a centre is declared, or the column has no centre: the intercept, indicators and
        classes have none. Protocols spend budget on the other centres only.
        """
        return self._known(lambda column: column.centre is not None)

    @property
    def scaled(self) -> NDArray[np.bool_]:
        """Mask of the features and, last, the target: True if its scale need not be estimated."""
        return self._known(lambda column: column.scale is not None)

    def _known(self, declared: Callable[[Numeric], bool]) -> NDArray[np.bool_]:
        kinds = [*self.columns.values(), self.bounds]
        known = [declared(kind) if isinstance(kind, Numeric) else True for kind in kinds]
        return np.repeat([True, *known], [1, *(kind.width for kind in self.columns.values()), 1])

    def features(self, table: Table) -> Floats:
        """Return the standardised features, shape (rows, num_features).

        Features of columns that declare only bounds are within [-2, 2]. The table is a mapping of
        names to columns, or a DataFrame, with all columns of the schema. Other columns are ignored.
        Raise ValueError if a column is missing or columns differ in length.
        """
        table = collected(table)
        blocks = [kind.standardise(self._read(table, name)) for name, kind in self.columns.items()]
        lengths = {name: len(block) for name, block in zip(self.columns, blocks, strict=True)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Expected columns of one length, got {lengths}.")
        return np.hstack([np.ones((len(blocks[0]), 1)), *blocks])

    def targets(self, table: Table) -> Floats:
        """Return the targets as standardised numbers or class indices, shape (rows,).

        An entry that is not a number, or not one of the classes, becomes NaN. Users leave out rows
        without a target. Raise ValueError if the schema has no target, or if the table lacks its
        column.
        """
        if self.target is None or self.bounds is None:
            raise ValueError("Expected a schema with a target, got one without.")
        return self.bounds.coded(self._read(collected(table), self.target))

    def missing(self, table: Table) -> NDArray[np.bool_]:
        """Return a mask of the missing entries, shape (rows, num_features).

        An entry is missing if it is not a number, or not one of the categories. All features of a
        column of categories are missing together. Raise ValueError if the table lacks a column.
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
        """Return users made of the rows of a table.

        Parameters
        ----------
        table : mapping of str to array_like, or DataFrame
            The table with all columns of the schema, including the target. It may be a table, a
            query or a data set of pandas, polars, pyarrow or DuckDB; queries are run. An entry that
            its library cannot return (a text that is not UTF-8, a year after 9999) is missing. A
            query that fails on one entry fails for all rows: use ``TRY_CAST``, or ``strict=False``.
        groups : str or array_like of str or int, optional
            The user of each row, or the name of the column with the users. By default each row is a
            separate user.
        ids : array_like of str or int, optional
            All users, including users without rows.
        missing_ids : {"raise", "drop"} (default: "raise")
            Treatment of rows without the name of a user, as in
            :meth:`~ldp_flower.Users.from_rows`.

        Returns
        -------
        Users
            The users, with a mask of the missing entries. Questions about the target ignore rows
            whose target is missing. Two counts are logged, on the machine with the table: numbers
            beyond their bounds, which count as the bound, and entries that are present but count as
            missing.

        Raises
        ------
        ValueError
            If a column is missing or occurs twice, if columns differ in length, if groups are a
            Series with another index than the table's, or if :meth:`~ldp_flower.Users.from_rows`
            would refuse the groups or ids.
        """
        table = collected(table)
        read = {name: self._read(table, name) for name in self.columns_read}
        log_mismatches({name: (self.kind(name), values) for name, values in read.items()})
        named: Any = groups
        if isinstance(groups, str):
            try:
                named = column_of(table, groups)
            except ValueError as error:
                alone = "Without groups each row is a separate user."
                raise ValueError(f"{error} {alone}") from None
        check_rows(table, named)
        for name, values in read.items():  # convert once, for the next three calls
            read[name] = as_numbers(values) if isinstance(self.kind(name), Numeric) else values
        targets = None if self.target is None else self.targets(read)
        features = self.features(read)  # called first, since it checks lengths of columns
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
        """Return the function ``load_users`` for a table on disk, for ``LdpClientApp``.

        In a deployment, the function loads the whole table of a node. In a simulation, it loads the
        node's part of one table.

        Parameters
        ----------
        table : str or Path, optional
            A CSV or Parquet file with all columns of the schema. By default each node's operator
            names the file in ``node_config``, as ``data-path``.
        user_column : str, optional
            The column with the user of each row. By default each row is a separate user. Only a
            simulation allows this, since a ledger needs names.
        ids : str or Path, optional
            A text file with the names of all users, one per line, including users without rows. The
            default is ``ids-path`` in ``node_config``, if it is set. Without a list of users, a
            server can find out how many users have rows.
        quoted : bool (default: True)
            True if fields of a CSV file may be in quotes; see :func:`~ldp_flower.read_table`.
        missing_ids : {"raise", "drop"} (default: "raise")
            Treatment of rows without the name of a user, as in
            :meth:`~ldp_flower.Users.from_rows`. With "raise", the file is refused, and its node
            answers no query until the file is corrected. With "drop", the rows are left out.

        Raises
        ------
        ValueError
            If the user column is one of the schema's columns, or if ids are given without a user
            column.
        """
        return TableLoader(self, table, user_column, ids, quoted, missing_ids)

    @property
    def columns_read(self) -> list[str]:
        """Names of all columns that a table needs, with the target last."""
        return [*self.columns, *([] if self.target is None else [self.target])]

    def digests(self) -> dict[str, int]:
        """Return the digests of the declarations of the columns and of the target, by name.

        Nodes send them with the census, and a run stops if they differ from the strategy's. A
        digest has 63 bits. Two schemas with equal digests are equal, unless an adversary has
        searched for a collision.
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
        """Return predictions of standardised targets, converted to the target's units.

        Raise ValueError if the target is not a number.
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
        """Return the schema from a result of :meth:`to_dict`; raise ValueError if it is invalid."""
        columns = plain.get("columns") if isinstance(plain, Mapping) else None
        if not isinstance(columns, Mapping):
            raise ValueError(f'Expected a schema as {{"columns": {{...}}}}, got {plain!r:.200}.')
        kinds = {name: kind_of(name, kind) for name, kind in columns.items()}
        bounds = kind_of("bounds", plain["bounds"]) if "bounds" in plain else None
        return cls(kinds, plain.get("target"), bounds)


@dataclass
class TableLoader:
    """Loader of a node's users from a file; see :meth:`Schema.loader <ldp_flower.Schema.loader>`.

    The default of ``table`` is ``data-path`` in ``node_config``, and the default of ``ids`` is
    ``ids-path``, if it is set. Without a user column, each row is a user. ``quoted`` is as in
    :func:`read_table`, and ``missing_ids`` as in :meth:`Users.from_rows`.
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
            raise ValueError("Expected user_column (the user of each row) together with ids.")
        check_missing_ids(self.missing_ids, self.user_column)

    @property
    def schema_digests(self) -> Mapping[str, int]:
        """Digests of the schema's columns, for the census."""
        return self.schema.digests()

    def __call__(self, context: Context) -> Users:
        """Return the users of a node: the whole table's or, in a simulation, the node's part.

        Raise ValueError if no file is named, or if it cannot be read as a table of the schema.
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
        """Return the users of a file, which a process reads again only if it has changed."""
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


__all__ = ["Categories", "Numeric", "Schema", "Table"]
