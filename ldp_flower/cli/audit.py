"""The command ``ldp-flower audit``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from ..audit import Audit, audit_handler, extremes, recorded_queries
from .console import (
    FAILED,
    USAGE,
    console,
    fail,
    failing,
    overrides,
    pair,
    scalar,
    unknown,
)
from .run import declared_config

_of_app = partial(typer.Option, rich_help_panel="With --app")
_OF_APP = (
    *("loader", "claim", "delta", "unit", "nodes", "config", "node_config", "seconds", "runs"),
    "html",
)
_OF_NETWORKS = "RecordDpSgd"  # the protocol whose nodes train networks
_OF_PROTOCOL = ("epsilon", "dim", "reports", "seed")
# Options of the command, by the argument names that errors use.
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*_OF_APP, *_OF_PROTOCOL)}


class NamesProtocols(TyperCommand):
    """Command whose help lists the protocols; they are imported only for this help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from ..audit.runs import audited_runs

        self.epilog = f"PROTOCOL is one of: {', '.join([*audited_runs(), _OF_NETWORKS])}."
        super().format_help(ctx, formatter)


def audit(
    ctx: typer.Context,
    protocol: Annotated[str | None, typer.Argument()] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of each user.")] = 2.0,
    dim: Annotated[int, typer.Option(min=2, help="Number of features, or of items.")] = 8,
    reports: Annotated[
        int,
        typer.Option(
            "--reports",
            "--num-reports",
            min=100,
            help="Reports of either user that confirm a finding.",
        ),
    ] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the reports.", show_default="the system's")
    ] = None,
    app: Annotated[
        Path | None, _of_app(metavar="DIR", help="Attack the Flower app in this directory.")
    ] = None,
    loader: Annotated[
        str | None,
        _of_app(
            metavar="MODULE:FUNCTION",
            help="The app's function that returns its data.",
            show_default="looked for",
        ),
    ] = None,
    claim: Annotated[
        float | None,
        _of_app(
            metavar="EPSILON", help="What is claimed of a whole run.", show_default="by its mods"
        ),
    ] = None,
    delta: Annotated[float | None, _of_app(help="Of the claim.", show_default="its mods'")] = None,
    unit: Annotated[
        str | None,
        _of_app(
            help="Whose data neighbours differ in: node or record.",
            show_default="what its mods protect, or node",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        _of_app(min=2, help="Number of nodes.", show_default="the app's, or what it starts with"),
    ] = None,
    config: Annotated[
        list[str] | None,
        _of_app("-c", "--config", metavar="KEY=VALUE", help="A setting of the app."),
    ] = None,
    node_config: Annotated[
        list[str] | None, _of_app(metavar="KEY=VALUE", help="A node's own settings (node_config).")
    ] = None,
    seconds: Annotated[float, _of_app(min=1.0, help="CPU time of runs with noise, about.")] = 10.0,
    runs: Annotated[
        int | None,
        _of_app(min=1, help="Runs that are compared on either data set, instead of --seconds."),
    ] = None,
    html: Annotated[Path | None, _of_app(metavar="FILE", help="Write a page, too.")] = None,
) -> None:
    """Try to break the promise of PROTOCOL's client, or of the Flower app in --app DIR.

    PROTOCOL, by its name: prints the claimed epsilon, the largest that was measured (at 99.9 %
    confidence), the exact one where outputs can be enumerated, and which checks failed:
    completeness, isolation, replay, own noise, record bound, and what neighbouring nodes of a
    deployment show (census, reply's form, who answers, ledger) and with an operator's settings
    (rehearsal, row limit, waiting). The exit code is 1 if anything contradicts the claim.

    --app: runs the app's own server, answers its messages on neighbouring data, and prints
    what of the replies depends on data and what their noise is worth. The exit code is 0 if
    nothing was found, 1 if something was, 2 if it could not be tried.
    """
    if (protocol is None) == (app is None):
        fail("Expected either PROTOCOL or --app DIR.", USAGE)
    given = [
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    of_other = _OF_APP if app is None else _OF_PROTOCOL
    if idle := [_OPTIONS[name] for name in given if name in of_other]:
        what = "PROTOCOL" if app is None else "--app"
        fail(f"Expected no {', '.join(idle)} with {what}, where it has no effect.", USAGE)
    if {"seconds", "runs"} <= set(given):
        fail("Expected --seconds or --runs, not both.", USAGE)
    if app is None:
        assert protocol is not None
        _audit_protocol(protocol, epsilon, dim, reports, seed)
        return
    from ..audit.app import Options, audit_app
    from ..audit.app.findings import shown, to_html, verdict

    try:
        settings = overrides(declared_config(app.expanduser().resolve()), config or ())
        of_node = {key: scalar(value) for key, value in map(pair, node_config or ())}
        options = Options(loader, settings, of_node, nodes, claim, delta, unit, seconds, runs)
        with _progress() as tell:
            found = audit_app(app, options, tell)
    except ValueError as error:
        fail(str(error), USAGE)
    except Exception as error:  # an app's objects may behave in unknown ways
        fail(f"The attack itself failed: {type(error).__name__}: {error}", USAGE)
    # Wrap at the width of the terminal, since these are tables of words.
    console.print(shown(found), soft_wrap=False)
    if html is not None:
        to_html(found, html)
        console.print(f"Wrote {html}")
    console.print(verdict(found), style="bold red" if found.found else "green")
    if found.found:
        raise typer.Exit(FAILED)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the current step: on a terminal in one line, elsewhere with one line per step."""
    # A separate console is needed, since an attack redirects the app's output, and sys.stdout.
    screen = Console(file=sys.stdout, highlight=False, soft_wrap=not console.is_terminal)
    with screen.status("Importing the app") as status:
        yield status.update if screen.is_terminal else screen.print


def _audit_protocol(
    protocol: str, epsilon: float, dim: int, reports: int, seed: int | None
) -> None:
    from ..audit.runs import audited_runs

    if protocol == _OF_NETWORKS:
        _audit_network(epsilon, dim, reports, seed)
        return
    if protocol not in audited_runs():
        fail(unknown(protocol, (), [*audited_runs(), _OF_NETWORKS]), USAGE)
    audits: list[Audit] = []
    with (
        failing(ValueError),
        failing(RuntimeError, code=FAILED),
        console.status("Recording the protocol's queries") as status,
    ):
        runs = list(audited_runs()[protocol](dim, epsilon))
        queries = [query for run in runs for query in recorded_queries(*run)]
        for number, query in enumerate(queries, 1):
            status.update(f"Auditing query {number} of {len(queries)}: {query.statistic}")
            people = extremes(query, dim)
            audits.append(audit_handler(query, people, num_reports=reports, seed=seed))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("statistic, mechanism, worst pair", overflow="fold")
    for name in ("claimed", "measured", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("passed", no_wrap=True)
    for found in audits:
        tried = [found.query.statistic, type(found.query.randomizer).__name__]
        tried.append(" / ".join(found.worst_pair))
        if gave_way := [name for name, passed in found.checks.items() if not passed]:
            tried.append(f"fails: {', '.join(gave_way)}")
        table.add_row(
            "\n".join(tried),
            f"{found.claimed:g}",
            f"{found.measured:.3f}",
            "" if found.exact is None else f"{found.exact:.6f}",
            "yes" if found.passed else "no",
        )
    console.print(table)
    failed = sum(not found.passed for found in audits)
    if failed:
        fail(f"{failed} of {len(audits)} queries break their promise.", FAILED)
    console.print(f"{len(audits)} queries, nothing found.", style="green")


def _audit_network(epsilon: float, dim: int, reports: int, seed: int | None) -> None:
    from ..audit import audit_network

    with (
        failing(ValueError),
        failing(RuntimeError, code=FAILED),
        console.status("Asking silos for a step"),
    ):
        found = audit_network(epsilon, dim, num_reports=reports, seed=seed)
    console.print(
        f"One step of a linear network: claimed epsilon {found.claimed:g} at delta "
        f"{found.delta:g}, measured {found.measured:.3f} at least. One record moved a sum by "
        f"{found.moved:.6f} lengths of a gradient, 2 at most."
    )
    if not found.passed:
        failed = [name for name, passed in found.checks.items() if not passed]
        fail(f"The silo breaks its promise: {', '.join(failed)}.", FAILED)
    console.print("1 step, nothing found.", style="green")
