"""The commands ``ldp-flower supernode`` and ``ldp-flower check``."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..supernode import flower
from ..supernode.checks import Findings, examine
from ..supernode.launch import LaunchError, supervise
from ..supernode.node_arguments import ArgumentsError, check_port, node_config_of, read
from ..supernode.settings import Settings, Table
from .check_app import check_app
from .console import USAGE, console, errors, fail

App = Annotated[
    str | None, typer.Option(metavar="MODULE:ATTRIBUTE", help="The operator's ClientApp.")
]
TableFile = Annotated[
    Path | None, typer.Option(help="Answer from this CSV or Parquet file, without an app.")
]
SchemaFile = Annotated[
    Path | None, typer.Option(help="JSON file of the schema that was agreed on (Schema.to_dict).")
]
UserColumn = Annotated[str | None, typer.Option(help="Column with the user of each row.")]
Ids = Annotated[
    Path | None,
    typer.Option(help="Text file of all users, one a line, also of those without rows."),
]
Unquoted = Annotated[
    bool,
    typer.Option(
        "--unquoted",
        help="The CSV file was written without quotes: they are characters like any other.",
    ),
]
RecordsOf = Annotated[
    Path | None,
    typer.Option(
        help="Train networks that come as data on this file (.npz with records and targets), "
        "without an app."
    ),
]
Removed = Annotated[
    list[str] | None,
    typer.Option("--train-on", "--sandbox", "--train-seconds", "--train-memory", hidden=True),
]


def supernode(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-- ARGUMENTS", help="Those of flower-supernode.")
    ],
    app: App = None,
    table: TableFile = None,
    schema: SchemaFile = None,
    user_column: UserColumn = None,
    ids: Ids = None,
    unquoted: Unquoted = False,
    records: RecordsOf = None,
    train_on: Removed = None,
) -> None:
    """Start Flower's SuperNode with the operator's own app, and keep it running.

    Every message of every run is answered by this app, from this table or with what these records
    train. Of what a run brings along nothing is unpacked, imported or executed.
    """
    _refuse_removed(train_on)
    settings = _settings(app, table, schema, user_column, ids, unquoted, records)
    try:
        flower.check()
        config = node_config_of(arguments)
        check_port(arguments)
    except (flower.UntestedFlower, ArgumentsError) as error:
        fail(str(error), USAGE)
    findings = examine(config, settings)
    _show(findings)
    if findings.problems:
        raise typer.Exit(USAGE)
    try:
        code = supervise(arguments, settings)
    except LaunchError as error:
        fail(str(error), USAGE)
    raise typer.Exit(code)


def check(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NODE_CONFIG|APP",
            help="As for flower-supernode's --node-config, or the directory of a Flower app.",
        ),
    ],
    app: App = None,
    table: TableFile = None,
    schema: SchemaFile = None,
    user_column: UserColumn = None,
    ids: Ids = None,
    unquoted: Unquoted = False,
    records: RecordsOf = None,
    train_on: Removed = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of simulated SuperNodes of APP.",
            show_default="the app's num-nodes or num-supernodes, or 4",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", metavar="KEY=VALUE", help="A setting of APP."),
    ] = None,
) -> None:
    """Look for what is wrong before any query: exit code 0, or 2 if there is anything.

    NODE_CONFIG: a node's configuration, its data and its app. Without --app or --table it is a
    plain SuperNode's configuration that is looked at.

    APP: a Flower app, whose ServerApp runs in this process up to its first question. What
    such a run is refused for first is shown, with the number of nodes that it starts with.
    """
    _refuse_removed(train_on)
    given = (app, table, schema, user_column, ids, unquoted, records)
    anything = any(each not in (None, False) for each in given)
    if Path(what).expanduser().is_dir():
        if anything:
            fail("Expected no options of a node with the directory of an app.", USAGE)
        check_app(Path(what).expanduser().resolve(), nodes, config or ())
        return
    if nodes is not None or config:
        fail("Expected --nodes and --config with the directory of an app.", USAGE)
    settings = _settings(*given) if anything else None
    try:
        node = read(what)
    except ArgumentsError as error:
        fail(str(error), USAGE)
    findings = examine(node, settings)
    _show(findings)
    if findings.problems or findings.doubts:
        raise typer.Exit(USAGE)


def _settings(
    app: str | None,
    table: Path | None,
    schema: Path | None,
    user_column: str | None,
    ids: Path | None,
    unquoted: bool,
    records: Path | None,
) -> Settings:
    path = os.environ.get("PATH", os.defpath)
    of_table = (table, schema, user_column, ids, unquoted or None)
    if records is not None:
        if any(given is not None for given in (app, *of_table)):
            fail("Expected --records alone: it needs no app and no table.", USAGE)
        return Settings(None, None, path, records=str(records.expanduser().resolve()))
    if app is not None:
        if any(given is not None for given in of_table):
            fail("Expected either --app or --table, which needs no app.", USAGE)
        return Settings(app, None, path)
    if table is None or schema is None or user_column is None:
        fail("Expected --app, --table with --schema and --user-column, or --records.", USAGE)
    file, declared = (str(each.expanduser().resolve()) for each in (table, schema))
    named = None if ids is None else str(ids.expanduser().resolve())
    return Settings(None, Table(file, declared, user_column, named, not unquoted), path)


def _refuse_removed(train_on: list[str] | None) -> None:
    if train_on:
        fail(
            "--train-on and its options are removed: no code of a run is executed. Train networks "
            "that come as data by --records, or an app of the operator's own by --app.",
            USAGE,
        )


def _show(findings: Findings) -> None:
    for fact in findings.facts:
        console.print(Text(fact))
    for doubt in findings.doubts:
        errors.print(Text.assemble(("Warning: ", "yellow"), doubt))
    for problem in findings.problems:
        errors.print(Text.assemble(("Error: ", "bold red"), problem))
