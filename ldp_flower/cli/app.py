"""The command ``ldp-flower``."""

import importlib.util
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .. import __version__
from .audit import audit
from .compare import TakesSeveral, compare
from .console import (
    FAILED,
    INTERRUPTED,
    USAGE,
    AppSettings,
    Scalar,
    console,
    errors,
    fail,
    failing,
    option,
    override,
    pair,
)
from .demo import demo
from .keys import keys, peers
from .ledger import ledger
from .names import AUDITED
from .plan import plan
from .protocols import protocols
from .run import NODES, FlowerError, NumNodes, declared_config, ended_by_signals, private_superlink
from .screen import Screen
from .studies import studies
from .supernode import check, supernode

_SIMULATION_FAILED = "Simulation failed with exception: "  # Flower's prefix of the exception
_OWN_OPTIONS = {"output-dir": "--output", "num-nodes": "--nodes"}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    suggest_commands=False,  # click suggests similar commands, too
    rich_markup_mode="markdown",  # joins the lines of a paragraph
)
app.add_typer(ledger, name="ledger")
app.add_typer(keys, name="keys")
app.add_typer(peers, name="peers")
app.add_typer(studies, name="studies")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ldp-flower {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, option("Show the version.", "--version", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Plan, run, audit and deploy protocols of local differential privacy for Flower."""


@app.command()
def run(
    app_path: Annotated[Path, typer.Argument(metavar="APP", help="Directory of the Flower app.")],
    users: Annotated[
        int | None, option("Number of simulated users (the app's setting num-users).", min=1)
    ] = None,
    nodes: NumNodes = None,
    epsilon: Annotated[
        float | None, option("Privacy parameter of each user (the app's setting epsilon).")
    ] = None,
    seed: Annotated[
        int | None, option("Seed of the simulation (the app's setting seed).", min=0)
    ] = None,
    output: Annotated[
        Path | None, option("Directory for the results.", default="results/APP")
    ] = None,
    config: AppSettings = None,
) -> None:
    """Run the Flower app in the directory APP in Flower's simulation engine.

    When the run ends, the command stops all processes that it has started, also after a SIGTERM, as
    in `timeout 600 ldp-flower run APP`.

    Exit codes: 0 if the run completed and wrote its result, 1 if it failed, 2 if the app does not
    accept a setting, 130 after Ctrl-C.
    """
    from ..audit.app.loading import declared_nodes, project_of

    app_path = app_path.expanduser().resolve()
    where = (output or Path("results", app_path.name)).expanduser().resolve()
    given = {"num-users": users, "epsilon": epsilon, "seed": seed, "output-dir": output}
    with failing(ValueError):
        declared = declared_config(app_path)
        settings = _settings(declared, given, config or [])
    nodes = nodes or declared_nodes(project_of(app_path), declared) or NODES
    own: dict[str, Scalar] = {"num-nodes": nodes, "output-dir": str(where)}
    settings |= {key: value for key, value in own.items() if key in declared}
    if os.name == "nt":
        fail("`ldp-flower run` needs Linux or macOS. On Windows, use WSL.", FAILED)
    if importlib.util.find_spec("ray") is None:
        fail('Flower\'s engine is not installed: pip install "ldp-flower[sim]"', FAILED)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"Cannot make {where}: {error.strerror}. Choose another --output.", USAGE)
    result = where / "result.json" if "output-dir" in declared else None
    _run(app_path, nodes, settings, where / "flower.log", result)


def _run(
    app_path: Path,
    nodes: int,
    settings: dict[str, Scalar],
    log: Path,
    result: Path | None,
) -> None:
    started, before = time.monotonic(), _modified(result)
    console.print(f"Starting Flower for {app_path.name} with {nodes} nodes. This takes a while ...")
    try:
        with (
            ended_by_signals(),
            Screen(app_path) as screen,
            private_superlink(log) as superlink,
        ):
            with closing(superlink.run(app_path, nodes, settings)) as lines:
                for line in lines:
                    screen.show(line)
            status, details = superlink.outcome()
    except FlowerError as error:
        fail(f"{error} The reason may be in its log: {log}", FAILED)
    except KeyboardInterrupt:
        fail(f"Interrupted. Flower has been stopped. The log so far: {log}", INTERRUPTED)
    if not status:
        reason = screen.refusal or "The lines above give the reason."
        fail(f"{reason}\nFlower did not accept {app_path}.", FAILED)
    why = "\nThen: ".join(_reasons(screen, details.removeprefix(_SIMULATION_FAILED)))
    if status != "finished:completed":
        ended = f"The run ended as {status.rpartition(':')[2]}."
        fail("\n".join(filter(None, [why, f"{ended} All tracebacks are in {log}"])), FAILED)
    if result is not None and _modified(result) == before:
        left = f"The run ended without writing {result}. The ServerApp may have returned early."
        fail("\n".join(filter(None, [why, left, f"All of its output is in {log}"])), FAILED)
    if why:
        errors.print(Text.assemble(("Warning: ", "yellow"), f"{why}\nAll tracebacks are in {log}"))
    else:
        log.unlink()
    where = f" Results: {result.parent}" if result is not None else ""
    console.print(f"Finished in {time.monotonic() - started:.0f} s.{where}", style="green")


def _reasons(screen: Screen, details: str) -> list[str]:
    """Return texts with the reasons why a run failed; if a module is missing, with a remedy."""
    from ..presentation.words import advice_on_missing

    reasons = [*screen.reasons]
    if details and not any(details in each for each in reasons):
        reasons.append(details)
    for reason in screen.reasons:
        if lacking := re.match(r"ModuleNotFoundError: No module named '([^']+)'", reason):
            reasons[0] += f"\n{advice_on_missing(lacking[1])}"
            break
    return reasons


def _settings(
    declared: dict[str, Scalar], given: Mapping[str, object], texts: list[str]
) -> dict[str, Scalar]:
    """Return the app's settings: those given by options, then by ``-c``, which wins."""
    from ..randomizers import RandomizedResponse

    pairs = [(key, str(value)) for key, value in given.items() if value is not None]
    for text in texts:
        key, value = pair(text, "-c KEY=VALUE")
        if key in _OWN_OPTIONS:
            raise ValueError(f"Use {_OWN_OPTIONS[key]} instead of -c {key}.")
        pairs.append((key, value))
    settings = {key: override(declared, key, value) for key, value in pairs}
    if isinstance(epsilon := settings.get("epsilon"), float):
        RandomizedResponse(epsilon)  # raises an error for an invalid epsilon before a run starts
    return settings


def _modified(path: Path | None) -> int | None:
    """Return the modification time of a file in nanoseconds, or None if there is no file."""
    return path.stat().st_mtime_ns if path is not None and path.exists() else None


app.command(cls=TakesSeveral)(compare)
app.command()(supernode)
app.command()(check)
app.command()(demo)
app.command()(protocols)
app.command()(plan)
app.command(epilog=f"PROTOCOL is one of: {', '.join(AUDITED)}.")(audit)

if __name__ == "__main__":
    sys.exit(app())
