"""One PyTorch app, three ways: in process, in Flower's engine, and without the mod."""

import time

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpUpdateMod, LdpUserUpdateMod, user_of
from ldp_flower.strategies import LdpFedAvg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.engine

DIM = 6


def make_net():
    """Return a net whose batch normalisation counts in a 0-d array of integers."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.BatchNorm1d(DIM), torch.nn.Linear(DIM, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    )


def make_data(num_nodes, seed=0):
    """Return 10 rows for every node, in two classes."""
    x = np.random.default_rng(seed).standard_normal((num_nodes, 10, DIM)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy((x[..., 2] > x[..., 4]).astype(np.int64))


def trained(message, rows, labels):
    """Train the net of a message on some rows, and reply."""
    net = make_net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    reply = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": 10}),
    }
    return Message(RecordDict(reply), reply_to=message)


def make_app(num_nodes, mods):
    """Return the app; with or without the mod differs in nothing else."""
    x, y = make_data(num_nodes)
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        node = int(context.node_config["partition-id"])
        return trained(message, x[node], y[node])

    return app


def make_silos(num_users, seed):
    """Return the app of silos that hold as many users as the other has nodes."""
    x, y = (part.flatten(0, 1).numpy() for part in make_data(num_users))
    users = Users(x, y, np.arange(0, len(x) + 1, 10))

    def load_users(context: Context) -> Users:
        node = context.node_config
        return users.partition(int(node["partition-id"]), int(node["num-partitions"]))

    app = ClientApp(mods=[LdpUserUpdateMod(load_users, seed=seed)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        user = user_of(message)
        return trained(
            message, torch.tensor(user.features).float(), torch.tensor(user.targets).long()
        )

    return app


def accuracy(arrays):
    x, y = (part.flatten(0, 1) for part in make_data(100, seed=1))
    net = make_net().eval()
    net.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        return float((net(x).argmax(1) == y).float().mean())


def initial():
    return ArrayRecord(make_net().state_dict())


def in_engine(client_app, supernodes, strategy, **arguments):
    """Return the result and the seconds that the strategy took."""
    found = []
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        started = time.perf_counter()
        result = strategy.start(grid, initial(), timeout=300, **arguments)
        found.append((result, time.perf_counter() - started))

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=supernodes,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    return found[0]


def test_the_engine_gives_the_model_of_the_in_process_grid():
    arguments = {"num_rounds": 3, "num_nodes": 90, "seed": 5}
    private = {"epsilon": 8.0, "model": "net", "path_length": 6.0}
    app = make_app(90, [LdpUpdateMod(seed=5)])
    expected = LdpFedAvg(**private).start(InProcessGrid(app, 90), initial(), **arguments)
    result, seconds = in_engine(app, 90, LdpFedAvg(**private), **arguments)
    print(f"90 nodes: {seconds:.1f} s")
    for name, array in expected.arrays.items():
        # Reports are the same; what a float of PyTorch is depends on its threads.
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy(), atol=1e-4)
    assert result.num_reports == 90 and result.privacy.seeded
    assert result.arrays["0.num_batches_tracked"].numpy() == 0
    assert accuracy(result.arrays) > accuracy(initial()) + 0.15


def test_silos_in_the_engine_give_the_model_of_users_with_nodes_of_their_own():
    arguments = {"num_rounds": 3, "seed": 5}
    private = {"epsilon": 8.0, "model": "net", "path_length": 6.0}
    alone = InProcessGrid(make_app(90, [LdpUpdateMod(seed=5)]), 90)
    expected = LdpFedAvg(**private).start(alone, initial(), num_nodes=90, **arguments)
    app = make_silos(90, seed=5)
    result, seconds = in_engine(app, 3, LdpFedAvg(**private), num_nodes=3, **arguments)
    print(f"3 silos of 30 users: {seconds:.1f} s")
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy(), atol=1e-4)
    assert result.num_users == result.num_reports == 90


def test_the_same_app_without_the_mod():
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=8, min_available_nodes=8)
    result, _ = in_engine(make_app(8, []), 8, strategy, num_rounds=4)
    assert accuracy(result.arrays) > 0.8
    assert result.arrays["0.num_batches_tracked"].numpy() == 20
