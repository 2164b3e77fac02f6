"""Messages to nodes and their replies; what the transport loses is asked for again."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from flwr.app import Message
from flwr.serverapp import Grid

#: Flower's errors for an answer that a node may have given, and paid for, and that did not come:
#: the message or its reply expired or was not uploaded whole (3, 4), or the process that
#: answered died (8). The same message brings the same answer again, for nothing.
LOST: Final = frozenset({3, 4, 8})
_AGAIN_AFTER = (1.0, 5.0, 25.0)  # seconds after which a node is asked again, each once

#: A node and what it replied.
Replied = tuple[int, Message]


class Delivery:
    """The messages of one step, at most one to a node, until each is answered."""

    def __init__(self, grid: Grid, messages: Sequence[Message]) -> None:
        self._grid = grid
        self._messages = {message.metadata.dst_node_id: message for message in messages}
        self._waiting: dict[str, int] = {}  # nodes, by the ids of their messages
        self._due: dict[int, float] = {}  # nodes that are asked again, and when
        self._lost: dict[int, Message] = {}  # the last error of nodes whose answer was lost
        self._times = Counter[int]()
        pushed = self._push(messages)
        if len(pushed) != len(messages):
            raise RuntimeError("The SuperLink did not take this step's messages; its log says why.")

    @property
    def num_open(self) -> int:
        """Number of nodes that may still answer."""
        return len(self._waiting) + len(self._due)

    def replies(self) -> list[Replied]:
        """Return what has come, but for answers that were lost: these are asked for again."""
        now = time.monotonic()
        ready = [late for late, at in self._due.items() if at <= now]
        for late in ready:
            del self._due[late]
        if ready:
            self._push([_again(self._messages[late]) for late in ready])
        came: list[Replied] = []
        for reply in list(self._grid.pull_messages(list(self._waiting))) if self._waiting else []:
            node = self._waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                continue
            lost = reply.has_error() and reply.error.code in LOST
            if lost and self._times[node] < len(_AGAIN_AFTER):
                self._lost[node] = reply
                self._due[node] = now + _AGAIN_AFTER[self._times[node]]
                self._times[node] += 1
            else:
                self._lost.pop(node, None)
                came.append((node, reply))
        return came

    def given_up(self) -> list[Replied]:
        """Return the errors of nodes that have not answered since they were asked again."""
        return list(self._lost.items())

    def _push(self, messages: Sequence[Message]) -> list[str]:
        pushed = list(self._grid.push_messages(messages))
        nodes = [message.metadata.dst_node_id for message in messages]
        # Flower has None for a node that it does not know.
        self._waiting |= {i: node for i, node in zip(pushed, nodes, strict=False) if i is not None}
        return pushed


def _again(message: Message) -> Message:
    """Return a message of the same content, for the same node."""
    about = message.metadata
    return Message(message.content, about.dst_node_id, about.message_type, group_id=about.group_id)
