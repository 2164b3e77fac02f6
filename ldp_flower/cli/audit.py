"""The command ``ldp-flower audit``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer
from click.core import ParameterSource
from rich.console import Console

from .audit_protocol import audit_protocol
from .console import (
    FAILED,
    USAGE,
    AsJson,
    console,
    fail,
    option,
    overrides,
    pair,
    print_json,
    scalar,
)
from .names import AUDITED, completion
from .run import declared_config

_of_app = partial(option, rich_help_panel="With --app")
_OF_PROTOCOL = ("epsilon", "dim", "reports", "seed", "noise")
_OF_BOTH = ("protocol", "app", "as_json")  # all other parameters belong to --app


def audit(
    ctx: typer.Context,
    protocol: Annotated[
        str | None,
        typer.Argument(
            help="Name of a protocol of this library.", autocompletion=completion(AUDITED)
        ),
    ] = None,
    epsilon: Annotated[float, option("Privacy parameter of each user.")] = 2.0,
    dim: Annotated[int, option("Number of features, or of items.", min=2)] = 8,
    reports: Annotated[
        int,
        option(
            "Number of reports of each of two users that confirm a finding.",
            "--reports",
            "--num-reports",
            min=100,
        ),
    ] = 4000,
    seed: Annotated[int | None, option("Seed of the reports.", default="random")] = None,
    noise: Annotated[
        str, option("Place of the noise: user; node or shared if the protocol has it.")
    ] = "user",
    app: Annotated[
        Path | None, _of_app("Directory of the Flower app to attack.", metavar="DIR")
    ] = None,
    loader: Annotated[
        str | None,
        _of_app(
            "Function of the app that returns its data.",
            default="the declared one, or load_data and the like",
            metavar="MODULE:FUNCTION",
        ),
    ] = None,
    claim: Annotated[
        float | None,
        _of_app(
            "Claimed epsilon of a whole run.",
            default="the claim of the app's mods",
            metavar="EPSILON",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        _of_app("Claimed delta of a whole run.", default="the claim of the app's mods"),
    ] = None,
    unit: Annotated[
        str | None,
        _of_app(
            "Protected unit, in which neighbouring data differ: node or record.",
            default="the unit of the app's mods, or node",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        _of_app(
            "Number of nodes.",
            default="the app's, or the fewest that are tried with which it starts",
            min=2,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        _of_app(
            "Value for a setting of the app; repeatable.", "-c", "--config", metavar="KEY=VALUE"
        ),
    ] = None,
    node_config: Annotated[
        list[str] | None,
        _of_app("Value for a setting of a node (node_config); repeatable.", metavar="KEY=VALUE"),
    ] = None,
    seconds: Annotated[
        float, _of_app("Approximate CPU time of the runs with noise.", min=1.0)
    ] = 10.0,
    runs: Annotated[
        int | None, _of_app("Number of runs on each of two data sets, instead of --seconds.", min=1)
    ] = None,
    html: Annotated[Path | None, _of_app("File of a page with the result.", metavar="FILE")] = None,
    as_json: AsJson = False,
) -> None:
    """Attack the client of PROTOCOL, or the Flower app in the directory --app.

    With PROTOCOL, the command prints the claimed epsilon, the largest measured one (at 99.9 %
    confidence), the exact one if outputs can be enumerated, and the checks that failed. It checks
    that every user's report comes back (completeness), that no report depends on other users' data
    (isolation), that the same query gets the same bytes again (replay), that users' noise is
    independent (own noise), and that one record moves a sum by no more than the noise covers
    (record bound). It also checks that neighbouring nodes of a deployment differ in nothing that
    the server sees except the noisy values (census, reply's form, who answers), that a reply is
    paid for before it leaves (ledger), and that the operator's settings `rehearsal`, `max-rows` and
    `reply-after` have their effect (rehearsal, row limit, waiting).

    With --noise node, it checks how far one user moves a node's sum (user bound) and the
    distribution of the noise (noise), instead of completeness, own noise and record bound. With
    --noise shared, it makes these checks on a node's sum without its masks, and the claim is the
    epsilon if all other nodes collude. Instead of comparing nodes and settings, it then checks that
    a node refuses sets of nodes that are not valid: with too few nodes, an unknown key, a wrong
    signature or a commit that is used again.

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
    of_one = [name for name in given if name not in _OF_BOTH]
    if idle := [name for name in of_one if (name in _OF_PROTOCOL) == (protocol is None)]:
        unused = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        what = "PROTOCOL" if app is None else "--app"
        fail(f"Expected no {unused} with {what}, which does not use it.", USAGE)
    if {"seconds", "runs"} <= set(given):
        fail("Expected --seconds or --runs, not both.", USAGE)
    if app is None:
        assert protocol is not None
        audit_protocol(protocol, epsilon, dim, reports, seed, noise, as_json)
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
