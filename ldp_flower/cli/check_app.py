"""What a run of a Flower app would be refused for, found before Flower's engine starts."""

import math
from collections.abc import Iterable
from pathlib import Path

import typer
from flwr.app import Context, Message, RecordDict

from ..audit.app.loading import AuditedApp, quiet
from ..guarantee.messages import CENSUS, QUERY, MessageError
from ..guarantee.training import RIDER, taken_apart
from ..simulation.grid import InProcessGrid
from .console import USAGE, Scalar, console, errors, fail, overrides
from .run import declared_config, declared_nodes

_NODES = 4  # those of `ldp-flower run`
_MAX_NODES = 10_000  # that are tried in the place of too few: their census takes seconds


class _FirstQuestion(BaseException):
    """Ends a run before any data are asked about, by the type of the message that would."""


class _CensusOnly(InProcessGrid):
    """Nodes in this process that answer the census, and end the run at the next message."""

    users = 0  # that they have declared

    def _handle(self, message: Message) -> Message | None:
        kind = message.metadata.message_type
        try:
            asked = kind == f"query.{CENSUS}" or taken_apart(message.content)[0] is None
        except MessageError:  # no message of this library's that rides on an app's
            asked = False
        if not asked:
            raise _FirstQuestion(kind, RIDER in message.content or kind == f"query.{QUERY}")
        reply = super()._handle(message)
        if reply is not None and reply.has_content() and "census" in reply.content:
            self.users += int(reply.content.metric_records["census"]["users"])  # type: ignore[arg-type]
        return reply


def check_app(folder: Path, nodes: int | None, settings: Iterable[str]) -> None:
    """Run an app's ServerApp up to its first question, and return why it is refused.

    Ends the command with exit code 2 if the app cannot be imported or its run is refused.
    """
    try:
        app = AuditedApp(folder, overrides(declared_config(folder), settings))
    except ValueError as error:
        fail(str(error), USAGE)
    nodes = nodes or declared_nodes(folder) or _NODES
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
    needed = getattr(refusal, "needed", None)  # users, of whom these nodes have some each
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
    """Return what ends a run before this library's first question, if any, and how many users."""
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
    except BaseException as error:  # whatever the app's own code raises
        return error, grid.users
    return RuntimeError("The ServerApp ended without asking any node."), grid.users


def _sentence(error: BaseException) -> str:
    """Return an error, with its type where its text alone is no sentence."""
    text = str(error)
    return text if text.endswith(".") else f"{type(error).__name__}: {text}"
