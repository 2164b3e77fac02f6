"""Users from a table on disk, by a schema: what a node needs no code for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from unicodedata import normalize

from flwr.app import Context

from .guarantee.environment import in_simulation
from .guarantee.users import Users

if TYPE_CHECKING:
    import pandas


class Declared(Protocol):
    """What is publicly known about a table; see :class:`~ldp_flower.Schema`."""

    @property
    def columns_read(self) -> list[str]:
        """Names of all columns that a table needs."""

    def digests(self) -> dict[str, int]:
        """Return a number for each column, which differs where what is declared does."""

    def users(self, table: Any, groups: str | None = None, ids: Any = None) -> Users:
        """Collect the rows of a table into users."""


@dataclass
class TableLoader:
    """Loads a node's users from a file; made by :meth:`Schema.loader <ldp_flower.Schema.loader>`.

    Attributes
    ----------
    schema : Schema
        What is publicly known about the table.
    table : str, Path or None
        A CSV or Parquet file; None: ``data-path`` in ``node_config``.
    user_column : str or None
        The column that tells whose a row is; None: each row is a user.
    ids : str, Path or None
        A file of all users' names, one a line; None: ``ids-path`` in ``node_config``, if set.

    Notes
    -----
    A cell of a CSV file is what it is by itself: all are read as texts, since the types that
    pandas guesses for a column depend on everybody's rows in it.
    """

    schema: Declared
    table: str | Path | None = None
    user_column: str | None = None
    ids: str | Path | None = None
    _kept: dict[tuple[object, ...], Users] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.user_column in self.schema.columns_read:
            raise ValueError(
                f"Expected a user column that is none of the schema's, got {self.user_column!r}."
            )
        if self.ids is not None and self.user_column is None:
            raise ValueError("Expected user_column, which tells whose a row is, with ids.")

    @property
    def schema_digests(self) -> Mapping[str, int]:
        """A number for each column, for the census."""
        return self.schema.digests()

    def __call__(self, context: Context) -> Users:
        """Return the users of a node: all of the table's or, in a simulation, the node's share.

        Raises
        ------
        ValueError
            If no file is named, or it cannot be read as a table of the schema.
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
            versions = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        except OSError as error:
            raise ValueError(
                f"The file {error.filename} cannot be read: {error.strerror}."
            ) from error
        key = (*versions,)
        if key not in self._kept:
            self._kept.clear()
            named = None if ids is None else names_in(files[1])
            columns = [*self.schema.columns_read, *filter(None, [self.user_column])]
            frame = read_table(table, columns)
            if self.user_column is not None:
                _check_names(table, frame[self.user_column], self.user_column)
            self._kept[key] = self.schema.users(frame, self.user_column, named)
        return self._kept[key]


def read_table(path: Path, columns: list[str]) -> "pandas.DataFrame":
    """Return some columns of a CSV or Parquet file.

    Raises
    ------
    ValueError
        If the file is neither, cannot be read, or lacks columns.
    """
    # A client that needs no table starts without pandas.
    import pandas as pd

    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"Expected a table in a .csv or .parquet file, got {path}.")
    if kind == ".parquet" and find_spec("pyarrow") is None:
        raise ValueError('Parquet needs pyarrow: pip install "ldp-flower[parquet]"')
    try:
        if kind == ".parquet":
            from pyarrow import parquet

            found = parquet.read_schema(path).names
        else:  # as a row: of columns with the same name pandas makes others
            found = pd.read_csv(path, nrows=1, header=None, dtype=str).iloc[0].tolist()
        if lacking := [name for name in columns if name not in found]:
            raise ValueError(f"Expected the columns {lacking} in {path}, got {found}.")
        if several := [name for name in columns if found.count(name) > 1]:
            raise ValueError(f"Expected one column of each name in {path}, got more of {several}.")
        if kind == ".parquet":
            return parquet.read_table(path, columns=columns).to_pandas(ignore_metadata=True)
        return pd.read_csv(path, usecols=columns, dtype=str, keep_default_na=False)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"The table {path} cannot be read: {error}") from error


def names_in(path: Path) -> list[str]:
    """Return the names in a text file, one a line.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    try:
        return [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The file {path} cannot be read: {error}") from error


def _check_names(path: Path, names: Any, column: str) -> None:
    if nameless := int((names.isna() | (names.astype(str) == "")).sum()):
        raise ValueError(
            f"Expected a name in {column!r} for every row of {path}, got {nameless} rows without."
        )
    known: dict[str, str] = {}
    for name in names.astype(str).unique():
        other = known.setdefault(normalize("NFC", name).strip(), name)
        if other != name:
            raise ValueError(
                f"Expected one spelling of each name in {column!r} of {path}, got {other!a} and "
                f"{name!a}: of two users each would spend a whole budget."
            )
