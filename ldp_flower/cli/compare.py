"""The command ``ldp-flower compare``."""

import hashlib
import importlib
import json
import re
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from .console import (
    FAILED,
    INTERRUPTED,
    USAGE,
    AppSettings,
    console,
    fail,
    option,
    overrides,
    pair,
    scalar,
)
from .run import declared_config

if TYPE_CHECKING:
    from ..compare.nodes import App

_NODES = 100
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf", re.I)


class TakesSeveral(TyperCommand):
    """Command whose option ``--epsilons`` takes all numbers that follow it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each number, since click accepts one number per option."""
        spread: list[str] = []
        several = False
        for arg in args:
            if arg == "--epsilons":
                several = True
            elif several and _NUMBER.fullmatch(arg):
                spread += ["--epsilons", arg]
            else:
                several = False
                spread.append(arg)
        return list(super().parse_args(ctx, spread))


def compare(
    app_path: Annotated[Path, typer.Argument(metavar="APP", help="Directory of the Flower app.")],
    epsilons: Annotated[
        list[float] | None, option("Privacy parameters, as in --epsilons 1 2 4.", default="1 2 4")
    ] = None,
    seeds: Annotated[int, option("Number of runs of each method.", min=1)] = 5,
    nodes: Annotated[
        int | None,
        option(
            "Number of simulated nodes.",
            "--nodes",
            "--num-nodes",
            default=f"the app's, or {_NODES}",
            min=1,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        option(
            "Number of rounds of all methods.", default="20; LdpFedAvg follows its own rule", min=1
        ),
    ] = None,
    delta: Annotated[float, option("Delta of the methods that are not pure.")] = 1e-5,
    clip: Annotated[
        float | None,
        option("Length to which Flower's methods clip an update.", default="the median length"),
    ] = None,
    method: Annotated[
        list[str] | None, option("Method to compare; repeatable.", "-m", "--method", "--methods")
    ] = None,
    metric: Annotated[
        str | None, option("Metric to show.", default="the first that is not a loss")
    ] = None,
    evaluate: Annotated[
        str | None,
        option(
            "Function that evaluates models, as Flower's evaluate_fn.",
            default="the app's",
            metavar="MODULE:FUNCTION",
        ),
    ] = None,
    dp_sgd: Annotated[
        str | None,
        option(
            "Function that makes the ClientApp with DP-SGD from epsilon, delta and rounds.",
            metavar="MODULE:FUNCTION",
        ),
    ] = None,
    ldp: Annotated[
        list[str] | None,
        option("Argument of LdpFedAvg; repeatable.", "-l", "--ldp", metavar="KEY=VALUE"),
    ] = None,
    config: AppSettings = None,
    output: Annotated[
        Path | None, option("Directory for the results.", default="results/compare/APP")
    ] = None,
) -> None:
    """Compare the app in the directory APP under FedAvg, Flower's DP methods, and LdpFedAvg.

    The methods are the untrained model, FedAvg, DP-FedAvg, Flower's LocalDpMod with its own noise
    (nominal) and with the noise that its epsilon needs (calibrated), LdpFedAvg and, with --dp-sgd,
    DP-SGD.

    The command runs the app's own main function up to the start of its strategy, and takes the
    model, the settings and the evaluation from there. Each method then trains the same ClientApp in
    this process.

    The command prints a table, and writes table.md, compare.png and compare.html. It keeps finished
    cells (one run of a method at one epsilon and seed) in cells.csv. After an interruption, the
    same command continues from there.

    Exit codes: 0 with a comparison, 1 if the app cannot be compared, 2 for a bad argument, 130
    after Ctrl-C.
    """
    from ..audit.app.loading import AuditedApp
    from ..compare.capture import captured
    from ..compare.comparison_plan import ComparisonPlan
    from ..compare.nodes import CannotCompareError
    from ..strategies import LdpFedAvg

    app_path = app_path.expanduser().resolve()
    where = (output or Path("results", "compare", app_path.name)).expanduser().resolve()
    cells = where / "cells.csv"
    asked = epsilons or [1.0, 2.0, 4.0]
    try:
        project = AuditedApp(app_path, overrides(declared_config(app_path), config or []))
        settings = project.run_config
        num_nodes = nodes or project.num_nodes or _NODES
        settings |= {key: num_nodes for key in ("num-nodes",) if key in settings}
        own = {key: scalar(value) for key, value in map(pair, ldp or [])}
        make = _object(dp_sgd, "dp_sgd") if dp_sgd else None
        judge = _object(evaluate, "evaluate") if evaluate else None

        @cache
        def at(seed: int | None) -> "App":
            with_seed = settings if seed is None else {**settings, "seed": seed}
            app = captured(project.client, project.server, num_nodes, with_seed)
            return app if judge is None else replace(app, evaluate_fn=judge)

        def load(seed: int) -> "App":
            """Return the app, with the seed if the app has a setting ``seed``."""
            return at(seed if "seed" in settings else None)

        strategy = partial(LdpFedAvg, **own)
        plan = ComparisonPlan(
            load, num_nodes, rounds, delta, clip, strategy, make, metric, method or None
        )
        fingerprint = _fingerprint(app_path, settings, evaluate, dp_sgd)
        todo = plan.cells(fingerprint, asked, seeds)
        console.print(
            f"{app_path.name}: {num_nodes} nodes, {len(plan.names)} methods, "
            f"{len(asked)} epsilons, {seeds} seeds. Finished cells are kept in {cells}"
        )
        found = plan.compared(app_path.name, todo, cells)
    except CannotCompareError as error:
        fail(str(error), FAILED)
    except (ValueError, TypeError) as error:
        fail(str(error), USAGE)
    except KeyboardInterrupt:
        fail(
            f"Interrupted. Finished cells are in {cells}. The same command continues.", INTERRUPTED
        )
    console.print(found)
    if (strategy_name := load(0).strategy) != "FedAvg":
        console.print(
            f"The app itself uses {strategy_name}. Here, all methods average as FedAvg does.",
            style="yellow",
        )
    written = found.write(where)
    console.print(f"Wrote {', '.join(map(str, written))}", style="green")


def _object(reference: str, what: str) -> Any:
    """Import the object of a reference ``module:name`` in the app's folder."""
    module, colon, name = reference.partition(":")
    if not colon:
        raise ValueError(f"Expected {what} as MODULE:NAME, got {reference!r}.")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # the app's modules may raise anything
        kind = type(error).__name__
        raise ValueError(f"{what} {reference!r} cannot be imported: {kind}: {error}") from error


def _fingerprint(app: Path, *settings: object) -> str:
    """Return a digest of an app's code and its settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for path in sorted([*app.rglob("*.py"), app / "pyproject.toml"]):
        name = path.relative_to(app)
        if not any(part.startswith(".") for part in name.parts):  # skip virtual environments
            digest.update(name.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
