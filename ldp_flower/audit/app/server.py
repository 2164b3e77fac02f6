"""The messages that an app's own server sends: its main is run to its end."""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from .claims import Claims
from .findings import CannotAuditError
from .loading import AuditedApp, quiet

PATIENCE = 40.0  # seconds of CPU that all nodes get together
_OF_EACH = 5  # messages of each type that are attacked
_GIVEN_UP = 240.0  # seconds after which a server that still waits is given up


@dataclass(frozen=True)
class Conversation:
    """What one node was asked in a run: first messages of each type, and how many there were."""

    messages: list[Message]
    kinds: Counter[str]
    ended: str = ""  # why the server ended early
    needed: int | None = None  # nodes with which this library's server would not have refused


class _Enough(BaseException):
    """Ends a server whose nodes would work for longer than PATIENCE."""


class _Listening(InProcessGrid):
    """A grid that keeps messages, and ends the server after PATIENCE seconds of work."""

    heard: dict[int, list[Message]]
    until: float

    def _handle(self, message: Message) -> Message | None:
        kept = copy(message)
        kept.content = RecordDict({k: r.copy() for k, r in message.content.items()})
        self.heard.setdefault(message.metadata.dst_node_id, []).append(kept)
        if time.process_time() > self.until:
            raise _Enough
        return super()._handle(message)


def run_server(
    app: AuditedApp, num_nodes: int, node_config: dict[str, Any], claims: Claims
) -> Conversation:
    """Run the app's ServerApp on nodes in this process; return what one of them was asked."""
    grid = _Listening(app.client, num_nodes, app.run_config)
    grid.heard, grid.until = {}, time.process_time() + PATIENCE
    for of_node in grid.contexts.values():
        of_node.node_config.update(node_config)
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=app.run_config
    )
    ended: list[tuple[str, int | None]] = []

    def run() -> None:
        try:
            app.server(grid, context)
        except _Enough:
            how = "fewer rows or nodes take it further (--config, --nodes)"
            ended.append((f"its nodes had worked for {PATIENCE:g} s; {how}", None))
        except BaseException as error:  # Flower's own errors end processes
            ended.append((f"{type(error).__name__}: {error}", getattr(error, "needed", None)))

    with quiet(), claims.listening(), _folder_of_copies():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_GIVEN_UP)
        if thread.is_alive():
            ended.append((f"it had not ended after {_GIVEN_UP:g} s", None))
    if not grid.heard:
        raise CannotAuditError(
            "The app's ServerApp asked no node anything"
            + (f" before it failed with {ended[0][0]}" if ended else "")
            + f". It was given {num_nodes} nodes (--nodes) and the project's settings (--config)."
        )
    kinds: Counter[str] = Counter()
    messages = []
    for message in max(grid.heard.values(), key=len):
        message.metadata.dst_node_id = 1  # as if all had gone to the first node
        kinds[message.metadata.message_type] += 1
        if kinds[message.metadata.message_type] <= _OF_EACH:
            messages.append(message)
    return Conversation(messages, kinds, *(ended[0] if ended else ()))


@contextmanager
def _folder_of_copies() -> Iterator[None]:
    """Change into a temporary folder with the files of the working directory, and links to folders.

    An app's main may save its model at the end: it goes to the temporary folder, and a file of the
    same name stays as it is. What is written into an existing folder goes through its link.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as folder:
        for entry in os.scandir():
            if entry.is_file():
                shutil.copy(entry.path, folder)
            else:
                Path(folder, entry.name).symlink_to(Path(entry.path).absolute())
        with chdir(folder):
            yield
