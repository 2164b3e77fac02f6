"""Delivery of messages to nodes and of their replies, with retries of lost replies."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from flwr.app import Message
from flwr.serverapp import Grid

#: Flower's error codes for an answer that did not arrive, though the node may have given it and
#: users may have paid for it: the message or its reply expired or was not uploaded whole (3, 4), or
#: the process that answered died (8). Sending the same message again yields the same answer, at no
#: further cost.
LOST: Final = frozenset({3, 4, 8})
_AGAIN_AFTER = (1.0, 5.0, 25.0)  # seconds to wait before the first, second and third retry

#: A node's id and its reply.
Replied = tuple[int, Message]


class Delivery:
    """Delivery of one step's messages, one message for each node.

    If an answer is lost, its message is sent again, up to three times.
    """

    def __init__(self, grid: Grid, messages: Sequence[Message]) -> None:
        self._grid = grid
        self._messages = {message.metadata.dst_node_id: message for message in messages}
        self._waiting: dict[str, int] = {}  # nodes by the ids of their messages
        self._due: dict[int, float] = {}  # times of the next retry, by node
        self._lost: dict[int, Message] = {}  # the last error of each node whose answer was lost
        self._times = Counter[int]()
        pushed = self._push(messages)
        if len(pushed) != len(messages):
            raise RuntimeError("The SuperLink did not take this step's messages; its log says why.")

    @property
    def open_nodes(self) -> set[int]:
        """The nodes that may still answer."""
        return {*self._waiting.values(), *self._due}

    def replies(self) -> list[Replied]:
        """Return the replies that have arrived; schedule a retry for each lost answer."""
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
        """Return the last error of each node whose answer was lost and has not arrived since."""
        return list(self._lost.items())

    def _push(self, messages: Sequence[Message]) -> list[str]:
        pushed = list(self._grid.push_messages(messages))
        nodes = [message.metadata.dst_node_id for message in messages]
        # Flower returns None for a node that it does not know.
        self._waiting |= {i: node for i, node in zip(pushed, nodes, strict=False) if i is not None}
        return pushed


def _again(message: Message) -> Message:
    """Return a new message with the same content and receiver."""
    about = message.metadata
    return Message(message.content, about.dst_node_id, about.message_type, group_id=about.group_id)
