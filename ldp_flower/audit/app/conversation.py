"""What the app's own server asks: its main is run to its end, and every message is kept."""

import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from .claims import Claims
from .errors import CannotAuditError
from .loading import AuditedApp, quiet

_SECURE = "secaggplus_configs"  # the record by which Flower's secure aggregation asks
PATIENCE = 40.0  # seconds of work for real; after that nodes repeat themselves
_GIVEN_UP = 240.0  # seconds after which a server that is still waiting is given up


@dataclass
class Conversation:
    """What one node was asked in a run.

    Attributes
    ----------
    messages : list of Message
        In their order.
    ended : str
        Why the server ended early; empty if it did not.
    needed : int or None
        With how many nodes this library's server would have started, if it refused them.
    """

    messages: list[Message] = field(default_factory=list)
    ended: str = ""
    needed: int | None = None

    def kinds(self) -> dict[str, int]:
        """How many messages there were of each type."""
        found: dict[str, int] = {}
        for message in self.messages:
            kind = message.metadata.message_type
            found[kind] = found.get(kind, 0) + 1
        return found

    @property
    def limits(self) -> list[str]:
        """What of it cannot be asked again."""
        if any(_SECURE in message.content for message in self.messages):
            return [
                "what Flower's secure aggregation masks: its nodes draw other keys when they are "
                "asked again, and refuse"
            ]
        return []


class _Enough(BaseException):
    """Ends a server whose nodes would have to work for longer than there is patience."""


class _Listening(InProcessGrid):
    """A grid that keeps what it is asked to send; nodes answer until patience ends.

    After that they repeat themselves, unless they are this library's, whose server takes no
    answer to another question.
    """

    def __init__(
        self, app: AuditedApp, num_nodes: int, node_config: dict[str, Any], claims: Claims
    ) -> None:
        super().__init__(app.client, num_nodes, app.run_config)
        self._claims = claims
        for context in self.contexts.values():
            context.node_config.update(node_config)
        self.heard: dict[int, list[Message]] = {}
        self._last: dict[str, Message] = {}
        self._until = time.process_time() + PATIENCE

    def _handle(self, message: Message) -> Message | None:
        """Let a node answer, or repeat what some node answered before."""
        kept = copy(message)
        kept.content = RecordDict({k: r.copy() for k, r in message.content.items()})
        self.heard.setdefault(message.metadata.dst_node_id, []).append(kept)
        kind = self._claims.kind = message.metadata.message_type
        impatient = time.process_time() > self._until
        if impatient and self._claims.own_kinds:
            raise _Enough
        if impatient and kind in self._last:
            return Message(self._last[kind].content, reply_to=message)
        reply = super()._handle(message)
        if reply is not None and not reply.has_error():
            self._last[kind] = reply
        return reply


def overheard(
    app: AuditedApp, num_nodes: int, node_config: dict[str, Any], claims: Claims
) -> Conversation:
    """Run the app's ServerApp on nodes in this process; return what the first one was asked.

    Raises
    ------
    CannotAuditError
        If no node was asked anything.
    """
    grid = _Listening(app, num_nodes, node_config, claims)
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=app.run_config
    )
    ended: list[str] = []
    needed: list[int | None] = []

    def run() -> None:
        try:
            app.server(grid, context)
        except _Enough:
            ended.append(
                f"its nodes had worked for {PATIENCE:g} s; fewer rows or nodes take it further "
                "(--config, --nodes)"
            )
        except BaseException as error:  # Flower's own errors end processes
            ended.append(f"{type(error).__name__}: {error}")
            needed.append(getattr(error, "needed", None))

    with quiet(), claims.listening(), _folder_of_links():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_GIVEN_UP)
        if thread.is_alive():
            ended.append(f"it had not ended after {_GIVEN_UP:g} s, which is how long it gets")
    if not grid.heard:
        raise CannotAuditError(
            "The app's ServerApp asked no node anything"
            + (f" before it failed with {ended[0]}" if ended else "")
            + f". It was given {num_nodes} nodes (--nodes) and the project's settings (--config)."
        )
    most = max(grid.heard.values(), key=len)
    return Conversation(_addressed(most), ended[0] if ended else "", next(iter(needed), None))


@contextmanager
def _folder_of_links() -> Iterator[None]:
    """Work in a new folder that shows the present one: an app's main saves its model at the end."""
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as folder:
        for entry in os.scandir():
            Path(folder, entry.name).symlink_to(Path(entry.path).absolute())
        with chdir(folder):
            yield


def _addressed(messages: Iterable[Message]) -> list[Message]:
    """Return messages as if all had gone to the first node."""
    found = []
    for message in messages:
        message.metadata.dst_node_id = 1
        found.append(message)
    return found
