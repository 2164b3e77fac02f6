"""The commands ``ldp-flower supernode`` and ``ldp-flower check``."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..supernode import flower
from ..supernode.checks import Findings, examine
from ..supernode.launch import supervise
from ..supernode.node_arguments import ArgumentsError, node_config_of, read
from ..supernode.settings import Settings, Table
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
UserColumn = Annotated[str | None, typer.Option(help="Column that tells whose a row is.")]
Ids = Annotated[
    Path | None,
    typer.Option(help="Text file of all users, one a line, also of those without rows."),
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
) -> None:
    """Start Flower's SuperNode with the operator's own app, and keep it running.

    Every message of every run is answered by this app, or from this table. Of what a run
    brings along nothing is unpacked, imported or executed.
    """
    settings = _settings(app, table, schema, user_column, ids)
    try:
        flower.check()
        config = node_config_of(arguments)
    except (flower.UntestedFlower, ArgumentsError) as error:
        fail(str(error), USAGE)
    findings = examine(config, settings)
    _tell(findings)
    if findings.problems:
        raise typer.Exit(USAGE)
    raise typer.Exit(supervise(arguments, settings))


def check(
    node_config: Annotated[str, typer.Argument(help="As for flower-supernode's --node-config.")],
    app: App = None,
    table: TableFile = None,
    schema: SchemaFile = None,
    user_column: UserColumn = None,
    ids: Ids = None,
) -> None:
    """Look for what is wrong with a node before any query: exit code 0, or 2 if there is anything.

    Without an app or a table it is a plain SuperNode's configuration that is looked at.
    """
    anything = any(given is not None for given in (app, table, schema, user_column, ids))
    settings = _settings(app, table, schema, user_column, ids) if anything else None
    try:
        config = read(node_config)
    except ArgumentsError as error:
        fail(str(error), USAGE)
    findings = examine(config, settings)
    _tell(findings)
    if findings.problems or findings.doubts:
        raise typer.Exit(USAGE)


def _settings(
    app: str | None,
    table: Path | None,
    schema: Path | None,
    user_column: str | None,
    ids: Path | None,
) -> Settings:
    path = os.environ.get("PATH", os.defpath)
    if app is not None:
        if any(given is not None for given in (table, schema, user_column, ids)):
            fail("Expected either --app or --table, which needs no app.", USAGE)
        return Settings(app, None, path)
    if table is None or schema is None or user_column is None:
        fail("Expected either --app, or --table with --schema and --user-column.", USAGE)
    files = (str(file.expanduser().resolve()) for file in (table, schema))
    named = None if ids is None else str(ids.expanduser().resolve())
    return Settings(None, Table(*files, user_column, named), path)


def _tell(findings: Findings) -> None:
    for fact in findings.facts:
        console.print(Text(fact))
    for doubt in findings.doubts:
        errors.print(Text.assemble(("Warning: ", "yellow"), doubt))
    for problem in findings.problems:
        errors.print(Text.assemble(("Error: ", "bold red"), problem))
