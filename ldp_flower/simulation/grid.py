"""An in-process Flower Grid, for tests, notebooks and sweeps.

Calls a ClientApp directly, one node after the other, with the semantics of
Flower's simulation engine: a node keeps its context between messages, a handler
that raises loses its changes, a reply that answers nothing is lost.
"""

import sys
import time
from collections.abc import Iterable
from copy import copy
from threading import Lock
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity  # private: messages need it

from ..guarantee.keys import in_process_grid
from ..validation import check_integer

_CLIENT_RAISED = 2  # Flower's error code
_RUN_ID = 1
_AFTER, _EVERY = 2.0, 0.2  # seconds until the first line that tells the step, and between two
_WIDTH = 60  # characters


class InProcessGrid(Grid):
    """A grid of simulated nodes in this process.

    Parameters
    ----------
    client_app : ClientApp
        What every node runs.
    num_nodes : int
        Number of nodes, at least 1; their ids are 1 to ``num_nodes``. Each has a context in
        ``contexts``.
    run_config : dict, optional
        The run's configuration, as every node's context shows it.
    """

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
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """The run's id, which is all there is: no SuperLink keeps a record here."""
        return SimpleNamespace(run_id=_RUN_ID)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message, as Flower's deprecated method of this name does."""
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
            with self._one_at_a_time:  # Flower's legacy servers ask from many threads
                reply = self._handle(message)
            if reply is not None:
                self._replies[message_id] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have not been pulled yet."""
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages and return the replies there are."""
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


class TellingGrid(InProcessGrid):
    """An in-process grid that shows which step it is at, on one line that it wipes at the end.

    In a terminal or a notebook only, and not in the first two seconds: what is quick, or run
    by a script, says nothing.
    """

    _started, _shown = 0.0, 0.0
    _step, _done, _messages = "", 0, 0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message, and show which step it is."""
        pushed = list(messages)
        self._started = self._started or time.monotonic()
        self._step = pushed[0].metadata.group_id or "0" if pushed else self._step
        self._done, self._messages = 0, len(pushed)
        return super().push_messages(pushed)

    def _handle(self, message: Message) -> Message | None:
        self._report()
        self._done += 1
        return super()._handle(message)

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._started < _AFTER or now - self._shown < _EVERY or not _is_seen():
            return
        self._shown = now
        nodes = f", node {self._done + 1} of {self._messages}" if self._messages > 1 else ""
        line = f"Step {self._step}{nodes}, {now - self._started:.0f} s"
        print(f"\r{line:<{_WIDTH}}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Take the line away."""
        if self._shown:
            print(f"\r{'':<{_WIDTH}}\r", end="", file=sys.stderr, flush=True)


def _is_seen() -> bool:
    """Whether somebody looks at this process's messages: in a terminal, or in a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _copied(content: RecordDict) -> RecordDict:
    """Copy records, as a wire would; Array objects are immutable and stay shared."""
    records: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {}
    for name, record in content.items():
        records[name] = record.copy()
    return RecordDict(records)
