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
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..audit import Audit, audit_handler, extreme_users, recorded_queries
from ..audit.runs import AUDITED, CANDIDATES
from ..catalogue import PROTOCOLS
from ..randomizers import RandomizedResponse
from ..validation import check_positive
from .console import FAILED, USAGE, console, fail
from .ledger import ledger
from .processes import TimeIsUp, ended_by_signals
from .run import FlowerError, Scalar, declared_config, override, private_superlink

TIMED_OUT, INTERRUPTED = 124, 130
_SIMULATION_FAILED = "Simulation failed with exception: "  # before what failed, in Flower's words
_OWN_OPTIONS = {"output-dir": "--output", "num-nodes": "--nodes"}

app = typer.Typer(
    help="Local differential privacy protocols for Flower.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.add_typer(ledger, name="ledger")


# ------------------------------------------------------------------------------- run


@app.command()
def run(
    app_path: Annotated[Path, typer.Argument(metavar="APP", help="Directory of the Flower app.")],
    users: Annotated[
        int | None, typer.Option(min=1, help="Number of simulated users (num-users).")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of simulated SuperNodes.")] = 4,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy parameter of each user (epsilon).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the simulation (seed).")] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Directory for results.", show_default="results/APP"),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", metavar="KEY=VALUE", help="Any other setting of the app."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which to give up.")
    ] = None,
) -> None:
    """Run the Flower app in directory APP in Flower's simulation engine.

    The exit code tells the truth: 0 if the run completed and left its result, 1 if it failed,
    2 for what the app does not know, 124 after --timeout, 130 after Ctrl-C. Nothing that was
    started for the run is left running.
    """
    app_path = app_path.expanduser().resolve()
    where = (output or Path("results", app_path.name)).expanduser().resolve()
    given = {"num-users": users, "epsilon": epsilon, "seed": seed, "output-dir": output}
    try:
        if timeout is not None:
            check_positive("timeout", timeout)
        declared = declared_config(app_path)
        settings = _settings(declared, given, config or [])
    except ValueError as error:
        fail(str(error), USAGE)
    own: dict[str, Scalar] = {"num-nodes": nodes, "output-dir": str(where)}
    settings |= {key: value for key, value in own.items() if key in declared}
    if os.name == "nt":
        fail("`ldp-flower run` needs Linux or macOS; on Windows use WSL.", FAILED)
    if importlib.util.find_spec("ray") is None:
        fail('Flower\'s engine is missing: pip install "ldp-flower[sim]"', FAILED)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"Cannot make {where}: {error.strerror}. Choose another --output.", USAGE)
    result = where / "result.json" if "output-dir" in declared else None
    _run(app_path, nodes, settings, where / "flower.log", result, timeout)


def _run(
    app_path: Path,
    nodes: int,
    settings: dict[str, Scalar],
    log: Path,
    result: Path | None,
    timeout: float | None,
) -> None:
    started, before = time.monotonic(), _modified(result)
    console.print(f"Starting Flower for {app_path.name} with {nodes} nodes (takes a while) ...")
    try:
        with ended_by_signals(timeout), _Screen() as screen, private_superlink(log) as superlink:
            with closing(superlink.run(app_path, nodes, settings)) as lines:
                for line in lines:
                    screen.show(line)
            status, details = superlink.outcome()
    except FlowerError as error:
        fail(f"{error} Its log may say why: {log}", FAILED)
    except TimeIsUp:
        fail(f"Not finished after {timeout:g} s; stopped. The log so far: {log}", TIMED_OUT)
    except KeyboardInterrupt:
        fail(f"Interrupted; Flower has been stopped. The log so far: {log}", INTERRUPTED)
    if not status:
        fail(f"Flower did not accept {app_path}; it says why above.", FAILED)
    if status != "finished:completed":
        reason = f"{details.removeprefix(_SIMULATION_FAILED)}\n" if details else ""
        fail(
            f"{reason}The run ended as {status.rpartition(':')[2]}. "
            f"The log is above and, with Flower's own, in {log}\n"
            "Correct the app or its settings and run it again.",
            FAILED,
        )
    if result is not None and _modified(result) == before:
        fail(
            f"The run ended without writing {result}\n"
            f"The ServerApp may have left early: see above or {log}",
            FAILED,
        )
    log.unlink()
    where = f" Results: {result.parent}" if result is not None else ""
    console.print(f"Finished in {time.monotonic() - started:.0f} s.{where}", style="green")


def _settings(
    declared: dict[str, Scalar], given: Mapping[str, object], texts: list[str]
) -> dict[str, Scalar]:
    """Return the overrides that were asked for."""
    settings = {
        key: override(declared, key, str(value))
        for key, value in given.items()
        if value is not None
    }
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ValueError(f"Expected -c KEY=VALUE, got {text!r}.")
        if key in _OWN_OPTIONS:
            raise ValueError(f"Use {_OWN_OPTIONS[key]} instead of -c {key}.")
        settings[key] = override(declared, key, value)
    if isinstance(epsilon := settings.get("epsilon"), float):
        RandomizedResponse(epsilon)  # refuses what every mechanism would, before anything starts
    return settings


def _modified(path: Path | None) -> int | None:
    """Return when a file was last written, or None if there is none."""
    return path.stat().st_mtime_ns if path is not None and path.exists() else None


class _Screen:
    """Shows a run's log and, on a terminal, that it goes on and for how long.

    Flower's own announcements are left out, and so are its colours and padding, and that a
    simulation's exception, which has been shown, has an exit code and a page.
    """

    _COLOUR = re.compile(r"\x1b\[[0-9;]*m")
    _LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) : {2,6}")
    _PADDING = 12  # columns before Flower's messages
    _ANNOUNCEMENTS = (
        "Using SuperLink:",
        "Successfully started run",
        "Starting logstream",
        "Starting Flower Simulation",
        "Since flwr 1.32",
        "Federation `",
        "To change federation size",
        "flwr federation simulation-config",
        "Successfully installed",
    )
    _EXIT, _EXIT_ENDS = "Exit Code: 700", "For more information, visit: <"

    def __init__(self) -> None:
        self._started = self._exiting = False
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("Starting Flower", total=None)

    def __enter__(self) -> "_Screen":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, line: str) -> None:
        line = self._COLOUR.sub("", line)
        level = self._LEVEL.match(line)
        if level:
            line = line[self._PADDING :]
            self._exiting = line.startswith(self._EXIT)
        if self._exiting:
            self._exiting = not line.startswith(self._EXIT_ENDS)
            return
        if not self._started:
            if line.strip().startswith(self._ANNOUNCEMENTS):
                return
            self._started = True
            self._progress.update(self._task, description="Running")
        if level and level[1] not in ("DEBUG", "INFO"):
            line = f"{level[1].capitalize()}: {line}"
        console.print(Text(line, "yellow" if level and level[1] == "WARNING" else ""))


# ------------------------------------------------------------------------- protocols


@app.command()
def protocols() -> None:
    """List the protocols, what they guarantee, what they cost and when to use them."""
    table = Table(show_lines=True)  # of two columns, to be read at any width
    table.add_column("protocol", no_wrap=True)
    table.add_column("use it when")
    for protocol in PROTOCOLS:
        cost = f"rounds: {protocol.rounds}; bytes per report: {protocol.report}"
        use = Text(f"{protocol.use}\n").append(f"{protocol.guarantee}; {cost}", "dim")
        table.add_row(protocol.name, use)
    console.print(table)


# ----------------------------------------------------------------------------- audit


@app.command(epilog=f"PROTOCOL is one of: {', '.join(sorted(AUDITED))}.")
def audit(
    protocol: str,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of each user.")] = 2.0,
    dim: Annotated[int, typer.Option(min=2, help="Number of features, or of items.")] = 8,
    reports: Annotated[
        int, typer.Option(min=100, help="Reports of either user that confirm a finding.")
    ] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the reports.", show_default="the system's")
    ] = None,
) -> None:
    """Try to break the client's promise on every query that PROTOCOL sends.

    Prints the claimed epsilon, the largest that was measured (at 99.9 % confidence), the exact
    one where outputs can be enumerated, and which checks failed: completeness, isolation, replay,
    own noise, record bound, and what neighbouring nodes of a deployment show (census, reply's
    form, who answers, ledger). The exit code is 1 if anything contradicts the claim.
    """
    if protocol not in AUDITED:
        fail(f"Expected a protocol in {sorted(AUDITED)}, got {protocol!r}.", USAGE)
    audits: list[Audit] = []
    people = CANDIDATES.get(protocol, extreme_users)(dim)
    try:
        runs = list(AUDITED[protocol](dim, epsilon))
        with console.status("Recording the protocol's queries") as status:
            queries = [query for run in runs for query in recorded_queries(*run)]
            for number, query in enumerate(queries, 1):
                status.update(f"Auditing query {number} of {len(queries)}: {query.statistic}")
                found = audit_handler(query, people, num_reports=reports, seed=seed)
                audits.append(found)
    except ValueError as error:
        fail(str(error), USAGE)
    except RuntimeError as error:
        fail(str(error), FAILED)
    table = Table()
    table.add_column("statistic", overflow="fold")
    table.add_column("mechanism", no_wrap=True)
    for name in ("claimed", "measured", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst pair", overflow="fold")
    table.add_column("passed", no_wrap=True)
    for found in audits:
        table.add_row(
            found.query.statistic,
            type(found.query.randomizer).__name__,
            f"{found.claimed:g}",
            f"{found.measured:.3f}",
            "" if found.exact is None else f"{found.exact:.6f}",
            " / ".join(found.worst_pair),
            _verdict(found),
        )
    console.print(table)
    failed = sum(not found.passed for found in audits)
    if failed:
        fail(f"{failed} of {len(audits)} queries break their promise.", FAILED)
    console.print(f"{len(audits)} queries, nothing found.", style="green")


def _verdict(found: Audit) -> str:
    failed = [name for name, passed in found.checks.items() if not passed]
    return f"no: {', '.join(failed)}" if failed else "yes"


if __name__ == "__main__":
    sys.exit(app())
