"""Options that describe a node's app or data, and its keys; two commands have them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import USAGE, fail, option

if TYPE_CHECKING:
    from ..data.names import MissingIds
    from ..guarantee.peers import KeyFiles
    from ..supernode.settings import OwnApp, OwnRecords, OwnTable, Settings

App = Annotated[str | None, option("The operator's own ClientApp.", metavar="MODULE:ATTRIBUTE")]
TableFile = Annotated[
    Path | None, option("CSV or Parquet file from which the node answers, without an app.")
]
SchemaFile = Annotated[Path | None, option("JSON file of the agreed schema (Schema.to_dict).")]
UserColumn = Annotated[str | None, option("Column with the user of each row.")]
Ids = Annotated[
    Path | None, option("Text file of all users, one on each line, with those who have no rows.")
]
Unquoted = Annotated[
    bool, option("Read quotes in the CSV file as ordinary characters.", "--unquoted")
]
DropMissingIds = Annotated[
    bool,
    option(
        "Leave out rows without the id of a user. Without this option, they are an error.",
        "--drop-missing-ids",
    ),
]
RecordsOf = Annotated[
    Path | None,
    option(
        "File (.npz with records and targets, or what --loader takes) on which the node "
        "trains networks that come as data, without an app."
    ),
]
Loader = Annotated[
    str | None,
    option(
        "The operator's function that returns records, targets and, optionally, owners for "
        "the file or folder --records.",
        metavar="MODULE:FUNCTION",
    ),
]
MaxFrozen = Annotated[
    int | None,
    option(
        "Largest number of parameters that a network for --records has and does not train.", min=1
    ),
]
KeyFile = Annotated[
    Path | None,
    option(
        "File of this node's key (keys create). It is needed for shared noise, of which each "
        "node adds only a part."
    ),
]
PeersFile = Annotated[Path | None, option("File of the node's peers and their keys (peers add).")]
Removed = Annotated[
    list[str] | None,
    typer.Option("--train-on", "--sandbox", "--train-seconds", "--train-memory", hidden=True),
]


@dataclass(frozen=True)
class NodeOptions:
    """Options of a node, as given on the command line; :func:`takes_node` declares them."""

    app: App = None
    table: TableFile = None
    schema: SchemaFile = None
    user_column: UserColumn = None
    ids: Ids = None
    unquoted: Unquoted = False
    drop_missing_ids: DropMissingIds = False
    records: RecordsOf = None
    loader: Loader = None
    max_frozen: MaxFrozen = None
    key: KeyFile = None
    peers: PeersFile = None
    train_on: Removed = None

    def __post_init__(self) -> None:
        if self.train_on:
            fail(
                "--train-on and its options are removed, since a node executes no code of a run. "
                "Use --records to train networks that come as data, or --app for the operator's "
                "own app.",
                USAGE,
            )

    def settings(self) -> "Settings":
        """Return the node's settings; end the command if options are missing or exclude others."""
        from ..supernode.settings import Settings

        return Settings(self._source(), os.environ.get("PATH", os.defpath), self._key_files())

    def _source(self) -> "OwnApp | OwnTable | OwnRecords":
        from ..supernode.settings import OwnApp, OwnRecords, OwnTable

        of_table = (self.table, self.schema, self.user_column, self.ids)
        has_table = self.unquoted or self.drop_missing_ids or of_table != (None,) * 4
        if self.records is not None:
            if self.app is not None or has_table:
                fail("Expected --records alone, which needs neither an app nor a table.", USAGE)
            limit = {} if self.max_frozen is None else {"max_frozen": self.max_frozen}
            return OwnRecords(_resolved(self.records), loader=self.loader, **limit)
        if self.max_frozen is not None or self.loader is not None:
            fail(f"Expected --{'loader' if self.loader else 'max-frozen'} with --records.", USAGE)
        if self.app is not None:
            if has_table:
                fail("Expected either --app or --table, which needs no app.", USAGE)
            return OwnApp(self.app)
        if self.table is None or self.schema is None or self.user_column is None:
            fail("Expected --app, --table with --schema and --user-column, or --records.", USAGE)
        table, schema = _resolved(self.table), _resolved(self.schema)
        ids = None if self.ids is None else _resolved(self.ids)
        missing_ids: MissingIds = "drop" if self.drop_missing_ids else "raise"
        return OwnTable(table, schema, self.user_column, ids, not self.unquoted, missing_ids)

    def _key_files(self) -> "KeyFiles | None":
        from ..guarantee.peers import KeyFiles

        if self.key is None and self.peers is None:
            return None
        if self.key is None or self.peers is None:
            fail("Expected --key and --peers together: noise is shared with pinned nodes.", USAGE)
        return KeyFiles(*(str(each.expanduser().absolute()) for each in (self.key, self.peers)))


def _resolved(path: Path) -> str:
    return str(path.expanduser().resolve())


def takes_node(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: its parameter ``node`` is made of the options in :class:`NodeOptions`.

    Typer reads a command's options from its signature, so the signature lists them one by one.
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    options = [
        Parameter(each.name, kind, default=each.default, annotation=each.type)
        for each in fields(NodeOptions)
    ]

    @wraps(command)
    def with_node(**given: Any) -> None:
        node = NodeOptions(**{each.name: given.pop(each.name) for each in options})
        command(node=node, **given)

    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        parameters += options if each.name == "node" else [each]
    with_node.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_node.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_node
