"""The commands ``ldp-flower supernode`` and ``ldp-flower check``."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .console import (
    USAGE,
    AppSettings,
    AsJson,
    console,
    errors,
    fail,
    failing,
    overrides,
    print_json,
)
from .run import NODES, declared_config

if TYPE_CHECKING:
    from ..data.names import MissingIds
    from ..guarantee.peers import KeyFiles
    from ..supernode.checks import Findings
    from ..supernode.settings import Settings

App = Annotated[
    str | None, typer.Option(metavar="MODULE:ATTRIBUTE", help="The operator's own ClientApp.")
]
TableFile = Annotated[
    Path | None,
    typer.Option(help="CSV or Parquet file from which the node answers, without an app."),
]
SchemaFile = Annotated[
    Path | None, typer.Option(help="JSON file of the agreed schema (Schema.to_dict).")
]
UserColumn = Annotated[str | None, typer.Option(help="Column with the user of each row.")]
Ids = Annotated[
    Path | None,
    typer.Option(help="Text file of all users, one on each line, with those who have no rows."),
]
Unquoted = Annotated[
    bool,
    typer.Option("--unquoted", help="Read quotes in the CSV file as ordinary characters."),
]
DropMissingIds = Annotated[
    bool,
    typer.Option(
        "--drop-missing-ids",
        help="Leave out rows without the id of a user. Without this option, they are an error.",
    ),
]
RecordsOf = Annotated[
    Path | None,
    typer.Option(
        help="File (.npz with records and targets, or what --loader takes) on which the node "
        "trains networks that come as data, without an app."
    ),
]
Loader = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="The operator's function that returns records, targets and, optionally, owners for "
        "the file or folder --records.",
    ),
]
MaxFrozen = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Largest number of parameters that a network for --records has and does not train.",
    ),
]
NetworkFile = Annotated[
    Path | None,
    typer.Option(
        help="Network whose inputs --records must match: a file of Network.save, with its .npz "
        "beside it."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File of this node's key (keys create). It is needed for shared noise, of which each "
        "node adds only a part."
    ),
]
PeersFile = Annotated[
    Path | None, typer.Option(help="File of the node's peers and their keys (peers add).")
]
Removed = Annotated[
    list[str] | None,
    typer.Option("--train-on", "--sandbox", "--train-seconds", "--train-memory", hidden=True),
]


def supernode(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-- ARGUMENTS", help="Arguments of flower-supernode.")
    ],
    app: App = None,
    table: TableFile = None,
    schema: SchemaFile = None,
    user_column: UserColumn = None,
    ids: Ids = None,
    unquoted: Unquoted = False,
    drop_missing_ids: DropMissingIds = False,
    records: RecordsOf = None,
    loader: Loader = None,
    max_frozen: MaxFrozen = None,
    key: KeyFile = None,
    peers: PeersFile = None,
    train_on: Removed = None,
) -> None:
    """Start Flower's SuperNode with the operator's own app, and restart it after an error.

    The node answers every message of every run by this app, from this table, or by training on
    these records. It never unpacks, imports or executes the code of a run.

    Exit codes: 0 after a signal to end, 2 if the configuration, the data or the installed Flower
    has a problem, otherwise that of the SuperNode.
    """
    from ..supernode import flower
    from ..supernode.checks import examine
    from ..supernode.launch import LaunchError, supervise
    from ..supernode.node_arguments import ArgumentsError, check_port, node_config_of

    _refuse_removed(train_on)
    of_table = (table, schema, user_column, ids, unquoted, drop_missing_ids)
    settings = _settings(app, *of_table, records, loader, max_frozen)
    settings = replace(settings, files=_key_files(key, peers))
    with failing(flower.UntestedFlower, ArgumentsError):
        flower.check()
        config = node_config_of(arguments)
        check_port(arguments)
    findings = examine(config, settings)
    _show(findings)
    if findings.problems:
        raise typer.Exit(USAGE)
    with failing(LaunchError):
        code = supervise(arguments, settings)
    raise typer.Exit(code)


def check(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NODE_CONFIG|APP",
            help="Value of flower-supernode's --node-config, or directory of a Flower app.",
        ),
    ],
    app: App = None,
    table: TableFile = None,
    schema: SchemaFile = None,
    user_column: UserColumn = None,
    ids: Ids = None,
    unquoted: Unquoted = False,
    drop_missing_ids: DropMissingIds = False,
    records: RecordsOf = None,
    loader: Loader = None,
    max_frozen: MaxFrozen = None,
    network: NetworkFile = None,
    key: KeyFile = None,
    peers: PeersFile = None,
    train_on: Removed = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of simulated SuperNodes of APP.",
            show_default=f"the app's num-nodes or num-supernodes, or {NODES}",
        ),
    ] = None,
    config: AppSettings = None,
    as_json: AsJson = False,
) -> None:
    """Check a node's configuration or a Flower app, before any query.

    NODE_CONFIG is the configuration of a node, which is checked with the node's data and app.
    Without --app, --table and --records, it is the configuration of a plain SuperNode.

    APP is the directory of a Flower app, whose ServerApp runs in this process up to its first
    question. The command prints why such a run would be refused, and how many nodes would suffice.

    Exit codes: 0 if nothing was found, 2 if there is an error or a warning.
    """
    from ..supernode.checks import examine
    from ..supernode.node_arguments import ArgumentsError, read
    from .check_app import examine_app

    _refuse_removed(train_on)
    of_table = (table, schema, user_column, ids, unquoted, drop_missing_ids)
    given = (app, *of_table, records, loader, max_frozen)
    anything = any(each not in (None, False) for each in (*given, network, key, peers))
    if (folder := Path(what).expanduser()).is_dir():
        if anything:
            fail("Expected no options of a node with the directory of an app.", USAGE)
        folder = folder.resolve()
        with failing(ValueError):
            settings_of_app = overrides(declared_config(folder), config or ())
            findings: Findings = examine_app(folder, nodes, settings_of_app)
    else:
        if nodes is not None or config:
            fail("Expected --nodes and --config with the directory of an app.", USAGE)
        if network is not None and records is None:
            fail("Expected --network with --records.", USAGE)
        settings = None
        if anything:
            settings = replace(_settings(*given), files=_key_files(key, peers))
        with failing(ArgumentsError):
            findings = examine(read(what), settings, network)
    if as_json:
        print_json(asdict(findings))
    else:
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
    drop_missing_ids: bool,
    records: Path | None,
    loader: str | None,
    max_frozen: int | None,
) -> "Settings":
    from ..supernode.settings import OwnApp, OwnRecords, OwnTable, Settings

    path = os.environ.get("PATH", os.defpath)
    of_table = (table, schema, user_column, ids, unquoted or None, drop_missing_ids or None)
    if records is not None:
        if any(given is not None for given in (app, *of_table)):
            fail("Expected --records alone, which needs neither an app nor a table.", USAGE)
        limit = {} if max_frozen is None else {"max_frozen": max_frozen}
        file = str(records.expanduser().resolve())
        return Settings(OwnRecords(file, loader=loader, **limit), path)
    if max_frozen is not None or loader is not None:
        fail(f"Expected --{'loader' if loader else 'max-frozen'} with --records.", USAGE)
    if app is not None:
        if any(given is not None for given in of_table):
            fail("Expected either --app or --table, which needs no app.", USAGE)
        return Settings(OwnApp(app), path)
    if table is None or schema is None or user_column is None:
        fail("Expected --app, --table with --schema and --user-column, or --records.", USAGE)
    file, declared = (str(each.expanduser().resolve()) for each in (table, schema))
    named = None if ids is None else str(ids.expanduser().resolve())
    missing_ids: MissingIds = "drop" if drop_missing_ids else "raise"
    return Settings(OwnTable(file, declared, user_column, named, not unquoted, missing_ids), path)


def _key_files(key: Path | None, peers: Path | None) -> "KeyFiles | None":
    from ..guarantee.peers import KeyFiles

    if key is None and peers is None:
        return None
    if key is None or peers is None:
        fail("Expected --key and --peers together: noise is shared with pinned nodes.", USAGE)
    return KeyFiles(*(str(each.expanduser().absolute()) for each in (key, peers)))


def _refuse_removed(train_on: list[str] | None) -> None:
    if train_on:
        fail(
            "--train-on and its options are removed, since a node executes no code of a run. Use "
            "--records to train networks that come as data, or --app for the operator's own app.",
            USAGE,
        )


def _show(findings: "Findings") -> None:
    for fact in findings.facts:
        console.print(Text(fact))
    for doubt in findings.doubts:
        errors.print(Text.assemble(("Warning: ", "yellow"), doubt))
    for problem in findings.problems:
        errors.print(Text.assemble(("Error: ", "bold red"), problem))
