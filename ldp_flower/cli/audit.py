"""The command ``ldp-flower audit``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.table import Table

from .console import (
    FAILED,
    USAGE,
    AsJson,
    console,
    fail,
    failing,
    overrides,
    pair,
    print_json,
    scalar,
    unknown,
)
from .names import AUDITED, NOISE, OF_NETWORKS, completion
from .run import declared_config

if TYPE_CHECKING:
    from ..audit import Audit, NetworkAudit
    from ..audit.handler import Checked

_of_app = partial(typer.Option, rich_help_panel="With --app")
_OF_APP = (
    *("loader", "claim", "delta", "unit", "nodes", "config", "node_config", "seconds", "runs"),
    "html",
)
_OF_PROTOCOL = ("epsilon", "dim", "reports", "seed", "noise")
# Options of the command, by the argument names that errors use.
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*_OF_APP, *_OF_PROTOCOL)}


def audit(
    ctx: typer.Context,
    protocol: Annotated[
        str | None,
        typer.Argument(
            help="Name of a protocol of this library.", autocompletion=completion(AUDITED)
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of each user.")] = 2.0,
    dim: Annotated[int, typer.Option(min=2, help="Number of features, or of items.")] = 8,
    reports: Annotated[
        int,
        typer.Option(
            "--reports",
            "--num-reports",
            min=100,
            help="Number of reports of each of two users that confirm a finding.",
        ),
    ] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the reports.", show_default="random")
    ] = None,
    noise: Annotated[
        str, typer.Option(help="Place of the noise: user; node or shared if the protocol has it.")
    ] = "user",
    app: Annotated[
        Path | None, _of_app(metavar="DIR", help="Directory of the Flower app to attack.")
    ] = None,
    loader: Annotated[
        str | None,
        _of_app(
            metavar="MODULE:FUNCTION",
            help="Function of the app that returns its data.",
            show_default="the declared one, or load_data and the like",
        ),
    ] = None,
    claim: Annotated[
        float | None,
        _of_app(
            metavar="EPSILON",
            help="Claimed epsilon of a whole run.",
            show_default="the claim of the app's mods",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        _of_app(help="Claimed delta of a whole run.", show_default="the claim of the app's mods"),
    ] = None,
    unit: Annotated[
        str | None,
        _of_app(
            help="Protected unit, in which neighbouring data differ: node or record.",
            show_default="the unit of the app's mods, or node",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        _of_app(
            min=2,
            help="Number of nodes.",
            show_default="the app's, or the fewest that are tried with which it starts",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        _of_app(
            "-c",
            "--config",
            metavar="KEY=VALUE",
            help="Value for a setting of the app; repeatable.",
        ),
    ] = None,
    node_config: Annotated[
        list[str] | None,
        _of_app(
            metavar="KEY=VALUE", help="Value for a setting of a node (node_config); repeatable."
        ),
    ] = None,
    seconds: Annotated[
        float, _of_app(min=1.0, help="Approximate CPU time of the runs with noise.")
    ] = 10.0,
    runs: Annotated[
        int | None,
        _of_app(min=1, help="Number of runs on each of two data sets, instead of --seconds."),
    ] = None,
    html: Annotated[
        Path | None, _of_app(metavar="FILE", help="File of a page with the result.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack the client of PROTOCOL, or the Flower app in the directory --app.

    With PROTOCOL, the command prints the claimed epsilon, the largest measured one (at 99.9 %
    confidence), the exact one if outputs can be enumerated, and the checks that failed. It checks
    clients for completeness, isolation, replay, own noise and record bound. It compares the census,
    the reply's form, the users who answer and the ledger of neighbouring nodes of a deployment. It
    checks an operator's settings, too: rehearsal, row limit and waiting. With --noise node, it
    checks user bound (how far one user moves a node's sum) and noise (its law) instead of
    completeness, own noise and record bound. With --noise shared, it does so under a node's masks,
    where the claim is the epsilon if all other nodes collude. It also sends sets that nodes have to
    refuse.

    With --app, the command runs the app's own server and answers its messages on neighbouring data.
    It prints which parts of the replies depend on data, and the epsilon of their noise.

    Exit codes: 0 if nothing was found; 1 if something contradicts the claim, or the client of
    PROTOCOL does not answer; 2 if an argument is not valid, or the app could not be attacked.
    """
    if (protocol is None) == (app is None):
        fail("Expected either PROTOCOL or --app DIR.", USAGE)
    given = [
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    of_other = _OF_APP if app is None else _OF_PROTOCOL
    if idle := [_OPTIONS[name] for name in given if name in of_other]:
        what = "PROTOCOL" if app is None else "--app"
        fail(f"Expected no {', '.join(idle)} with {what}, which does not use it.", USAGE)
    if {"seconds", "runs"} <= set(given):
        fail("Expected --seconds or --runs, not both.", USAGE)
    if app is None:
        assert protocol is not None
        _audit_protocol(protocol, epsilon, dim, reports, seed, noise, as_json)
        return
    from ..audit.app import Options, audit_app
    from ..audit.app.findings import shown, to_html, verdict

    try:
        settings = overrides(declared_config(app.expanduser().resolve()), config or ())
        of_node = {key: scalar(value) for key, value in map(pair, node_config or ())}
        options = Options(loader, settings, of_node, nodes, claim, delta, unit, seconds, runs)
        with _progress(sys.stderr if as_json else sys.stdout) as tell:
            found = audit_app(app, options, tell)
    except ValueError as error:
        fail(str(error), USAGE)
    except Exception as error:  # an app's objects may behave in unknown ways
        fail(f"The attack itself failed: {type(error).__name__}: {error}", USAGE)
    if html is not None:
        to_html(found, html)
    if as_json:
        print_json(asdict(found))
    else:
        # Wrap at the width of the terminal, since these are tables of words.
        console.print(shown(found), soft_wrap=False)
        if html is not None:
            console.print(f"Wrote {html}")
        console.print(verdict(found), style="bold red" if found.found else "green")
    if found.found:
        raise typer.Exit(FAILED)


@contextmanager
def _progress(file: TextIO) -> Iterator[Callable[[str], None]]:
    """Show the current step: on a terminal in one line, elsewhere with one line per step."""
    # A separate console is needed, since an attack redirects the app's output, and sys.stdout.
    screen = Console(file=file, highlight=False, soft_wrap=not console.is_terminal)
    with screen.status("Importing the app") as status:
        yield status.update if screen.is_terminal else screen.print


def _audit_protocol(
    protocol: str,
    epsilon: float,
    dim: int,
    reports: int,
    seed: int | None,
    noise: str,
    as_json: bool,
) -> None:
    if protocol == "LdpFedAvg":
        fail("LdpFedAvg is audited with an app: ldp-flower audit --app FOLDER.", USAGE)
    if protocol not in AUDITED:
        fail(unknown(protocol, (), AUDITED), USAGE)
    if noise not in NOISE:
        fail(f"Expected --noise {' or '.join(NOISE)}, got {noise!r}.", USAGE)
    of_networks = protocol == OF_NETWORKS
    if of_networks and noise != "user":
        fail(f"Expected no --noise with {OF_NETWORKS}, whose noise is always at the node.", USAGE)
    with failing(ImportError, ValueError), failing(RuntimeError, code=FAILED):
        found: list[Any] = (
            [_step(epsilon, dim, reports, seed)]
            if of_networks
            else _queries(protocol, epsilon, dim, reports, seed, noise)
        )
    if as_json:
        audits = [_plain(each) for each in found]
        print_json({"protocol": protocol, "epsilon": epsilon, "audits": audits})
    else:
        console.print(_step_shown(*found) if of_networks else _table(found))
    noun = "step" if of_networks else "query" if len(found) == 1 else "queries"
    if failed := sum(not each.passed for each in found):
        fail(f"The claim does not hold in {failed} of {len(found)} {noun}.", FAILED)
    if not as_json:
        checks = ", ".join(dict.fromkeys(name for each in found for name in each.checks))
        console.print(f"{len(found)} {noun}, nothing found by: {checks}.", style="green")


def _queries(
    protocol: str, epsilon: float, dim: int, reports: int, seed: int | None, noise: str
) -> list["Audit"]:
    from ..audit import audit_handler, extremes, recorded_queries
    from ..audit.runs import audited_runs, with_noise_at_node

    audits = []
    with console.status("Recording the protocol's queries") as status:
        if noise != "user":
            queries = with_noise_at_node(protocol, dim, epsilon, noise)
        else:
            runs = list(audited_runs()[protocol](dim, epsilon))
            queries = [query for run in runs for query in recorded_queries(*run)]
        for number, query in enumerate(queries, 1):
            status.update(f"Auditing query {number} of {len(queries)}: {query.statistic}")
            people = extremes(query, dim)
            audits.append(audit_handler(query, people, num_reports=reports, seed=seed))
    return audits


def _step(epsilon: float, dim: int, reports: int, seed: int | None) -> "NetworkAudit":
    from ..audit import audit_network

    with console.status("Sending a training step to silos"):
        return audit_network(epsilon, dim, num_reports=reports, seed=seed)


def _plain(audit: Any) -> dict[str, Any]:
    """Return an audit's results for JSON: its attributes, with names in place of the query."""
    plain = {**vars(audit), "passed": audit.passed}
    if (query := plain.pop("query", None)) is not None:
        plain["statistic"] = query.statistic
        plain["mechanism"] = type(query.randomizer).__name__
    return plain


def _table(audits: list["Audit"]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("statistic, mechanism, worst pair", overflow="fold")
    for name in ("claimed", "measured", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("passed", no_wrap=True)
    for found in audits:
        tried = [found.query.statistic, type(found.query.randomizer).__name__]
        tried += [" / ".join(found.worst_pair), *_failed(found)]
        table.add_row(
            "\n".join(tried),
            f"{found.claimed:g}",
            f"{found.measured:.3f}",
            "" if found.exact is None else f"{found.exact:.6f}",
            "yes" if found.passed else "no",
        )
    return table


def _step_shown(found: "NetworkAudit") -> str:
    told = (
        f"One step of a linear network: claimed epsilon {found.claimed:g} at delta "
        f"{found.delta:g}, measured {found.measured:.3f} at least. One record moved a sum by "
        f"{found.moved:.4g} lengths of a gradient, and at most 2 is allowed (replies are rounded "
        "to four bytes)."
    )
    return "\n".join([told, *_failed(found)])


def _failed(found: "Checked") -> list[str]:
    """Return a list with one line about the checks that failed; it is empty if none failed."""
    failed = [name for name, passed in found.checks.items() if not passed]
    return [f"fails: {', '.join(failed)}"] if failed else []
