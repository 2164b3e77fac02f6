"""The commands ``ldp-flower supernode`` and ``ldp-flower check``."""

from dataclasses import asdict
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
    option,
    overrides,
    print_json,
)
from .node_options import NodeOptions, takes_node
from .run import NumNodes, declared_config

if TYPE_CHECKING:
    from ..supernode.findings import Findings

NetworkFile = Annotated[
    Path | None,
    option(
        "Network whose inputs --records must match: a file of Network.save, with its .npz "
        "beside it."
    ),
]


@takes_node
def supernode(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-- ARGUMENTS", help="Arguments of flower-supernode.")
    ],
    node: NodeOptions,
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

    settings = node.settings()
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


@takes_node
def check(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NODE_CONFIG|APP",
            help="Value of flower-supernode's --node-config, or directory of a Flower app.",
        ),
    ],
    node: NodeOptions,
    network: NetworkFile = None,
    nodes: NumNodes = None,
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

    anything = node != NodeOptions() or network is not None
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
        if network is not None and node.records is None:
            fail("Expected --network with --records.", USAGE)
        settings = node.settings() if anything else None
        with failing(ArgumentsError):
            findings = examine(read(what), settings, network)
    if as_json:
        print_json(asdict(findings))
    else:
        _show(findings)
    if findings.problems or findings.doubts:
        raise typer.Exit(USAGE)


def _show(findings: "Findings") -> None:
    for fact in findings.facts:
        console.print(Text(fact))
    for doubt in findings.doubts:
        errors.print(Text.assemble(("Warning: ", "yellow"), doubt))
    for problem in findings.problems:
        errors.print(Text.assemble(("Error: ", "bold red"), problem))
