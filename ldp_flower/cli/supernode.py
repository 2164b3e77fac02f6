"""The command ``ldp-flower supernode``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ..supernode import flower
from ..supernode.guard.limits import Limits
from ..supernode.guard.sandbox import SandboxError
from ..supernode.guard.training import Guarded
from ..supernode.launch import supervise
from ..supernode.node_arguments import ArgumentsError, node_config_of
from ..supernode.pinned import AppError
from ..supernode.settings import Settings, Training
from .console import USAGE, fail

App = Annotated[
    str | None, typer.Option(metavar="MODULE:ATTRIBUTE", help="The operator's ClientApp.")
]
TrainOn = Annotated[
    list[Path] | None,
    typer.Option(help="Let runs' own code train, in a sandbox, on this folder; may be repeated."),
]
SandboxKind = Annotated[
    str, typer.Option(metavar="bubblewrap|none", help="What keeps training apart.")
]
Seconds = Annotated[int, typer.Option(min=1, help="After which training is ended.")]
Memory = Annotated[int, typer.Option(min=1, help="MiB that training may use.")]


def supernode(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-- ARGUMENTS", help="Those of flower-supernode.")
    ],
    app: App = None,
    train_on: TrainOn = None,
    sandbox: SandboxKind = "bubblewrap",
    train_seconds: Seconds = Limits.seconds,
    train_memory: Memory = Limits.memory,
) -> None:
    """Start Flower's SuperNode with the operator's own app, and keep it running.

    Every message of every run is answered by this app, which is installed here. Of what a run
    brings along nothing is unpacked, imported or executed.

    With --train-on messages that train are answered by a randomised report of what the run's
    own code learns, in a sandbox.
    """
    training = _training(train_on, sandbox, train_seconds, train_memory)
    settings = Settings(app, None, os.environ.get("PATH", os.defpath), training)
    try:
        flower.check()
        config = node_config_of(arguments)
        operator = settings.operator()
        if isinstance(operator, Guarded):
            operator.check(config)
    except (flower.UntestedFlower, ArgumentsError, AppError, SandboxError, ValueError) as error:
        fail(str(error), USAGE)
    raise typer.Exit(supervise(arguments, settings))


def _training(data: list[Path] | None, sandbox: str, seconds: int, memory: int) -> Training | None:
    if not data:
        if (sandbox, seconds, memory) != ("bubblewrap", Limits.seconds, Limits.memory):
            fail("Expected --sandbox, --train-seconds and --train-memory with --train-on.", USAGE)
        return None
    if sandbox not in ("bubblewrap", "none"):
        fail(f"Expected --sandbox bubblewrap or none, got {sandbox!r}.", USAGE)
    folders = [str(path.expanduser().resolve()) for path in data]
    return Training(folders, sandbox, seconds, memory)  # type: ignore[arg-type]
