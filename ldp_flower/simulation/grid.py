"""Grid of a simulation in one process, and what such a run shows and logs.

The grid calls a ClientApp directly, one node after the other, with the semantics of
Flower's simulation engine: a node keeps its context between messages, the changes of a handler
that raises are lost, and a reply that does not answer the message is lost.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity  # private: messages need it

from ..guarantee.budget import in_process_grid
from ..validation import check_integer, plain_arguments

_CLIENT_RAISED = 2  # Flower's error code
_RUN_ID = 1
_AFTER, _EVERY = 2.0, 0.2  # seconds until the first progress line, and between two updates
_WIDTH = 60  # characters of the progress line


class InProcessGrid(Grid):
    """Grid of simulated nodes in this process.

    Parameters
    ----------
    client_app : ClientApp
        The app that every node runs.
    num_nodes : int
        Number of nodes, at least 1. Their ids are 1 to ``num_nodes``. Each has a context in
        ``contexts``.
    run_config : dict, optional
        The run's configuration, which is part of every node's context.
    """

    late_nodes = False  # all nodes are there from the start, so servers need not wait for more

    @plain_arguments
    def __init__(
        self,
        client_app: ClientApp,
        num_nodes: int,
        run_config: dict[str, bool | float | int | str] | None = None,
    ) -> None:
        check_integer("num_nodes", num_nodes, 1)
        self._client_app = client_app
        self.contexts = {
            node_id: Context(
                run_id=_RUN_ID,
                node_id=node_id,
                node_config={"partition-id": node_id - 1, "num-partitions": num_nodes},
                state=RecordDict(),
                run_config=run_config or {},
            )
            for node_id in range(1, num_nodes + 1)
        }
        self._replies: dict[str, Message] = {}
        self._one_at_a_time = Lock()
        if vars(TaskIdentity)["_run_id"] is None:  # not inside one of Flower's own processes
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = _RUN_ID, 0, 1

    def set_run(self, run: Any) -> None:
        """Do nothing: Flower's interface has this method, and here there is only one run."""

    @property
    def run(self) -> Any:
        """Flower's run, of which only the id is known, since there is no SuperLink."""
        return SimpleNamespace(run_id=_RUN_ID)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message, as Flower's deprecated method does that legacy servers call."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message at once."""
        ids = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            ids.append(message_id)
            with self._one_at_a_time:  # Flower's legacy servers send from many threads
                reply = self._handle(message)
            if reply is not None:
                self._replies[message_id] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to the messages with these ids, each reply once."""
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages and return the replies to them."""
        return self.pull_messages(self.push_messages(messages))

    def _handle(self, message: Message) -> Message | None:
        context = self.contexts.get(message.metadata.dst_node_id)
        if context is None:
            return None
        message = copy(message)
        message.content = _copied(message.content)
        working = copy(context)
        working.state = _copied(context.state)
        token = in_process_grid.set(True)
        try:
            reply = self._client_app(message, working)
        except Exception as error:
            text = f"{type(error)}:<{str(error)!r}>"
            return Message(Error(_CLIENT_RAISED, text), reply_to=message)
        finally:
            in_process_grid.reset(token)
        self.contexts[context.node_id] = working
        answers = reply is not None and (
            reply.metadata.reply_to_message_id == message.metadata.message_id
        )
        return reply if answers else None


class ProgressGrid(InProcessGrid):
    """In-process grid that shows the current step on one line.

    The line appears only in a terminal or a notebook, and only after two seconds, so short runs
    and scripts show nothing. :meth:`wipe` removes it at the end.
    """

    _started, _shown = 0.0, 0.0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message, and show the current step and node."""
        pushed, ids = list(messages), list[str]()
        self._started = self._started or time.monotonic()
        for number, message in enumerate(pushed, 1):
            nodes = f", node {number} of {len(pushed)}" if len(pushed) > 1 else ""
            self._show(f"Step {message.metadata.group_id or 0}{nodes}")
            ids += super().push_messages([message])
        return ids

    def _show(self, what: str) -> None:
        now = time.monotonic()
        # True in a terminal and in a notebook.
        seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        if seen and now - self._started >= _AFTER and now - self._shown >= _EVERY:
            self._shown = now
            line = f"{what}, {now - self._started:.0f} s"
            print(f"\r{line:<{_WIDTH}}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Remove the line that shows the current step."""
        if self._shown:
            print(f"\r{'':<{_WIDTH}}\r", end="", file=sys.stderr, flush=True)


def _copied(content: RecordDict) -> RecordDict:
    """Return a copy of a message's records, so that sender and receiver share none.

    Array objects are shared, since they never change.
    """
    return RecordDict({name: record.copy() for name, record in content.items()})


# Logger of the clients that repeats its messages about rows for every cohort.
_OF_ROWS = "ldp_flower.clients.values"


@contextmanager
def silenced(name: str, below: int = logging.CRITICAL + 1) -> Iterator[None]:
    """Suppress messages of the logger ``name``: all messages, or those below a level."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(max(level, below))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def row_messages_merged() -> Iterator[None]:
    """Log the clients' messages about rows only at the end, with the numbers of cohorts added up.

    Without this context, clients log such messages for every cohort.
    """
    said: dict[tuple[object, ...], logging.LogRecord] = {}

    def kept(record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        words = tuple(arg for arg in args if not isinstance(arg, int))
        first = said.setdefault((record.name, record.msg, *words), record)
        if first is not record:
            assert isinstance(first.args, tuple)  # since records of the same words have such args
            pairs = zip(first.args, args, strict=True)
            first.args = tuple(
                a + b if isinstance(a, int) and isinstance(b, int) else a for a, b in pairs
            )
        return False

    logger = logging.getLogger(_OF_ROWS)
    logger.addFilter(kept)
    try:
        yield
    finally:
        logger.removeFilter(kept)
        for record in said.values():
            logger.handle(record)
