"""The bare echo app: what Flower's engine takes for messages that nobody does anything with."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

app = ClientApp()


@app.query("echo")
def echo(message: Message, context: Context) -> Message:
    """Return what came."""
    return Message(message.content, reply_to=message)


def exchange(grid: Grid, nodes: list[int], dim: int, rounds: int) -> None:
    """Send every node so many messages with one array, one after the other."""
    for _ in range(rounds):
        content = RecordDict({"arrays": ArrayRecord([np.zeros(dim)])})
        messages = [Message(content, node, "query.echo") for node in nodes]
        replies = list(grid.send_and_receive(messages, timeout=600))
        assert len(replies) == len(nodes)
