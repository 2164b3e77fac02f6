"""Check of a Flower app: its ServerApp runs up to its first question."""

import math
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message, RecordDict

from ..audit.app.loading import AuditedApp, RunConfig, quiet
from ..guarantee.messages import CENSUS, QUERY, MessageError
from ..guarantee.training import RIDER, split_query
from ..simulation.grid import InProcessGrid
from ..supernode.findings import Findings
from .run import NODES

_MAX_NODES = 10_000  # largest number tried if there are too few nodes; its census takes seconds


@dataclass
class AppFindings(Findings):
    """Findings about an app and its number of nodes."""

    #: Number of nodes of the checked run.
    nodes: int = 0
    #: Smallest number of nodes that the refusal names; None without such a refusal.
    nodes_needed: int | None = None


class _FirstQuestion(BaseException):
    """Signal that ends a run before the first message that would query data, with its type."""


class _CensusOnly(InProcessGrid):
    """Grid of nodes that answer the census, and that ends the run at the next message."""

    users = 0  # number of users that the nodes have declared

    def _handle(self, message: Message) -> Message | None:
        kind = message.metadata.message_type
        try:
            asked = kind == f"query.{CENSUS}" or split_query(message.content)[0] is None
        except MessageError:  # the app's message does not carry a valid message of this library
            asked = False
        if not asked:
            raise _FirstQuestion(kind, RIDER in message.content or kind == f"query.{QUERY}")
        reply = super()._handle(message)
        if reply is not None and reply.has_content() and "census" in reply.content:
            self.users += int(reply.content.metric_records["census"]["users"])  # type: ignore[arg-type]
        return reply


def examine_app(folder: Path, nodes: int | None, settings: RunConfig) -> AppFindings:
    """Run an app's ServerApp up to its first message that would query data; return what was found.

    Raise ValueError if the app cannot be imported.
    """
    app = AuditedApp(folder, settings)
    findings = AppFindings(nodes=nodes or app.num_nodes or NODES)
    refusal, users = _refusal(app, findings.nodes)
    run = f"run with {findings.nodes} nodes"
    if refusal is None:
        findings.facts.append(f"A {run} starts. This check has sent nothing but the census.")
    elif isinstance(refusal, _FirstQuestion):
        findings.doubts.append(
            f"A {run} starts with a message ({refusal.args[0]}) that no strategy of ldp-flower "
            "sends. Only mods of the ClientApp can protect the replies. To make the training "
            "private, give the ClientApp mods=[LdpUpdateMod()] and use the strategy "
            "LdpFedAvg(epsilon=...)."
        )
    else:
        findings.problems.append(_reason(app, refusal, users, findings))
    return findings


def _reason(app: AuditedApp, refusal: BaseException, users: int, findings: AppFindings) -> str:
    """Return a text with the reason of a refusal, and the result of a run with enough nodes."""
    needed = getattr(refusal, "needed", None)  # number of users
    if needed is None:
        return _sentence(refusal)
    findings.nodes_needed = math.ceil(needed * findings.nodes / max(users, 1))
    told = f"With {findings.nodes} nodes: {_sentence(refusal)}"
    if not findings.nodes < findings.nodes_needed <= _MAX_NODES:
        return told
    app.restart()
    enough = f"With {findings.nodes_needed} nodes"
    other, _ = _refusal(app, findings.nodes_needed)
    if other is not None:
        return f"{told}\n{enough}: {_sentence(other)}"
    command = f"ldp-flower run APP --nodes {findings.nodes_needed}"
    return f"{told}\n{enough}, the run starts ({command})."


def _refusal(app: AuditedApp, nodes: int) -> tuple[BaseException | None, int]:
    """Return the error that ends a run before its first question, and the number of users.

    The error is None if the run reaches a question of this library.
    """
    run_config: RunConfig = {**app.run_config}
    if "num-nodes" in run_config:
        run_config["num-nodes"] = nodes
    grid = _CensusOnly(app.client, nodes, run_config)
    context = Context(1, 0, {}, RecordDict(), run_config)
    try:
        with quiet():
            app.server(grid, context)
    except _FirstQuestion as question:
        return None if question.args[1] else question, grid.users
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the app's own code may raise anything
        return error, grid.users
    return RuntimeError("The ServerApp ended without a message to any node."), grid.users


def _sentence(error: BaseException) -> str:
    """Return the text of an error, preceded by its type if the type says more than the text."""
    told = isinstance(error, ValueError | RuntimeError)  # as a refusal, in sentences
    return str(error) if told else f"{type(error).__name__}: {error}"
