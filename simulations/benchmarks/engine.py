"""A protocol in Flower's engine beside the bare echo app, in the same engine, in turns."""

import os
import time

import numpy as np
import psutil
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from .cells import Cell, in_turns, messages
from .workloads import WORKLOADS

_WARM_UP = 64  # messages, until every process has imported what it needs


def echo(message: Message, context: Context) -> Message:
    """Return what came."""
    return Message(message.content, reply_to=message)


def exchange(grid: Grid, nodes: list[int], dim: int) -> None:
    """Send every node one array and wait for its return."""
    content = RecordDict({"arrays": ArrayRecord([np.zeros(dim)])})
    asked = [Message(content, node, "query.echo") for node in nodes]
    replies = list(grid.send_and_receive(asked, timeout=3600))
    assert len(replies) == len(nodes)
    assert not any(reply.has_error() for reply in replies)


def in_engine(cell: Cell) -> dict[str, float]:
    """Measure a protocol beside as many messages of the echo app; the start is apart."""
    client_app = ClientApp()
    client_app.query("echo")(echo)
    workload = WORKLOADS[cell.name]
    everyone = workload.population(cell.users, cell.dim, cell.rows)
    workload.serve(client_app, everyone, cell.nodes)
    server_app, found = ServerApp(), dict[str, float]()
    begun = time.perf_counter()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        while len(nodes := list(grid.get_node_ids())) < cell.nodes:
            time.sleep(0.1)
        asked: list[int] = []

        def ours() -> None:
            result = workload.start(grid, cell.dim, cell.rows, cell.nodes)
            asked[:] = messages(result, cell.nodes)

        for start in range(0, _WARM_UP, len(nodes)):
            exchange(grid, nodes[: _WARM_UP - start], everyone.num_features)
        found["start_seconds"] = time.perf_counter() - begun
        ours()

        def echoes() -> None:
            for number in asked:
                exchange(grid, nodes[:number], everyone.num_features)

        found.update(in_turns(ours, echoes, cell.rounds))
        found["messages"] = sum(asked)
        workers = psutil.Process().children(recursive=True)
        actors = [one.memory_info().rss for one in workers if "ClientAppActor" in one.name()]
        found["actors_mb"] = sum(actors) / 2**20

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=cell.nodes,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": os.cpu_count(), "log_to_driver": False},
        },
    )
    return found
