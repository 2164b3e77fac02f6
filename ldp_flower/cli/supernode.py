"""The commands ``ldp-flower supernode`` and ``ldp-flower check``."""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from flwr.app import Context, Message, RecordDict
from rich.text import Text

from ..audit.app.loading import AuditedApp, quiet
from ..data.names import MissingIds
from ..guarantee.messages import CENSUS, QUERY, MessageError
from ..guarantee.training import RIDER, taken_apart
from ..simulation.grid import InProcessGrid
from ..supernode import flower
from ..supernode.checks import Findings, examine
from ..supernode.launch import LaunchError, supervise
from ..supernode.node_arguments import ArgumentsError, check_port, node_config_of, read
from ..supernode.settings import OwnApp, RecordsFile, Settings, Table
from .console import USAGE, AppSettings, Scalar, console, errors, fail, failing, overrides
from .run import declared_config

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
DropMissingIds = Annotated[
    bool,
    typer.Option(
        "--drop-missing-ids",
        help="Leave rows without the name of a user out; otherwise they refuse the table.",
    ),
]
RecordsOf = Annotated[
    Path | None,
    typer.Option(
        help="Train networks that come as data on this file (.npz with records and targets), "
        "without an app."
    ),
]
NetworkFile = Annotated[
    Path | None,
    typer.Option(
        help="With --records: a network (Network.save) that they are held against; its .npz lies "
        "beside it."
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
    drop_missing_ids: DropMissingIds = False,
    records: RecordsOf = None,
    train_on: Removed = None,
) -> None:
    """Start Flower's SuperNode with the operator's own app, and keep it running.

    Every message of every run is answered by this app, from this table or with what these records
    train. Of what a run brings along nothing is unpacked, imported or executed.
    """
    _refuse_removed(train_on)
    settings = _settings(app, table, schema, user_column, ids, unquoted, drop_missing_ids, records)
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
            help="As for flower-supernode's --node-config, or the directory of a Flower app.",
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
    network: NetworkFile = None,
    train_on: Removed = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of simulated SuperNodes of APP.",
            show_default="the app's num-nodes or num-supernodes, or 4",
        ),
    ] = None,
    config: AppSettings = None,
) -> None:
    """Look for what is wrong before any query: exit code 0, or 2 if there is anything.

    NODE_CONFIG: a node's configuration, its data and its app. Without --app or --table it is a
    plain SuperNode's configuration that is looked at.

    APP: a Flower app, whose ServerApp runs in this process up to its first question. What
    such a run is refused for first is shown, with the number of nodes that it starts with.
    """
    _refuse_removed(train_on)
    given = (app, table, schema, user_column, ids, unquoted, drop_missing_ids, records)
    anything = any(each not in (None, False) for each in (*given, network))
    if Path(what).expanduser().is_dir():
        if anything:
            fail("Expected no options of a node with the directory of an app.", USAGE)
        check_app(Path(what).expanduser().resolve(), nodes, config or ())
        return
    if nodes is not None or config:
        fail("Expected --nodes and --config with the directory of an app.", USAGE)
    if network is not None and records is None:
        fail("Expected --network with --records.", USAGE)
    settings = _settings(*given) if anything else None
    with failing(ArgumentsError):
        node = read(what)
    findings = examine(node, settings, network)
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
) -> Settings:
    path = os.environ.get("PATH", os.defpath)
    of_table = (table, schema, user_column, ids, unquoted or None, drop_missing_ids or None)
    if records is not None:
        if any(given is not None for given in (app, *of_table)):
            fail("Expected --records alone: it needs no app and no table.", USAGE)
        return Settings(RecordsFile(str(records.expanduser().resolve())), path)
    if app is not None:
        if any(given is not None for given in of_table):
            fail("Expected either --app or --table, which needs no app.", USAGE)
        return Settings(OwnApp(app), path)
    if table is None or schema is None or user_column is None:
        fail("Expected --app, --table with --schema and --user-column, or --records.", USAGE)
    file, declared = (str(each.expanduser().resolve()) for each in (table, schema))
    named = None if ids is None else str(ids.expanduser().resolve())
    missing_ids: MissingIds = "drop" if drop_missing_ids else "raise"
    return Settings(Table(file, declared, user_column, named, not unquoted, missing_ids), path)


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


_NODES = 4  # default number of nodes, as for `ldp-flower run`
_MAX_NODES = 10_000  # largest number tried if there are too few nodes; its census takes seconds


class _FirstQuestion(BaseException):
    """Signal that ends a run before the first message that would query data, with its type."""


class _CensusOnly(InProcessGrid):
    """Grid of nodes that answer the census, and that ends the run at the next message."""

    users = 0  # number of users that the nodes have declared

    def _handle(self, message: Message) -> Message | None:
        kind = message.metadata.message_type
        try:
            asked = kind == f"query.{CENSUS}" or taken_apart(message.content)[0] is None
        except MessageError:  # the app's message does not carry a valid message of this library
            asked = False
        if not asked:
            raise _FirstQuestion(kind, RIDER in message.content or kind == f"query.{QUERY}")
        reply = super()._handle(message)
        if reply is not None and reply.has_content() and "census" in reply.content:
            self.users += int(reply.content.metric_records["census"]["users"])  # type: ignore[arg-type]
        return reply


def check_app(folder: Path, nodes: int | None, settings: Iterable[str]) -> None:
    """Run an app's ServerApp up to its first question, and print the result.

    The command ends with exit code 2 if the app cannot be imported or its run is refused.
    """
    with failing(ValueError):
        app = AuditedApp(folder, overrides(declared_config(folder), settings))
    nodes = nodes or app.num_nodes or _NODES
    refusal, users = _refusal(app, nodes)
    if refusal is None:
        console.print(f"A run with {nodes} nodes starts. Nobody has been asked but for the census.")
        return
    if isinstance(refusal, _FirstQuestion):
        errors.print(
            f"Warning: a run with {nodes} nodes starts with a message ({refusal.args[0]}) that no "
            "strategy of ldp-flower sends: nothing but mods of the ClientApp protects its replies. "
            "To make training private give the ClientApp mods=[LdpUpdateMod()] and take "
            "LdpFedAvg(epsilon=...) for its strategy."
        )
        raise typer.Exit(USAGE)
    needed = getattr(refusal, "needed", None)  # needed users, then converted to needed nodes
    needed = needed and math.ceil(needed * nodes / max(users, 1))
    then = ""
    if needed is not None and nodes < needed <= _MAX_NODES:
        app.restore()
        other, _ = _refusal(app, needed)
        then = f"With {needed} nodes it starts (ldp-flower run APP --nodes {needed})."
        if other is not None:
            then = f"With {needed} nodes: {_sentence(other)}"
    first = f"With {nodes} nodes: " if needed is not None else ""
    fail("\n".join(filter(None, [f"{first}{_sentence(refusal)}", then])), USAGE)


def _refusal(app: AuditedApp, nodes: int) -> tuple[BaseException | None, int]:
    """Return the error that ends a run before this library's first question, and the user count.

    The error is None if the run reaches such a question.
    """
    run_config: dict[str, Scalar] = {**app.run_config}
    if "num-nodes" in run_config:
        run_config["num-nodes"] = nodes
    grid = _CensusOnly(app.client, nodes, run_config)
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=run_config
    )
    try:
        with quiet():
            app.server(grid, context)
    except _FirstQuestion as question:
        return None if question.args[1] else question, grid.users
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the app's own code may raise anything
        return error, grid.users
    return RuntimeError("The ServerApp ended without asking any node."), grid.users


def _sentence(error: BaseException) -> str:
    """Return the text of an error, preceded by its type if the text is not a sentence."""
    text = str(error)
    return text if text.endswith(".") else f"{type(error).__name__}: {text}"
