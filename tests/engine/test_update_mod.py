"""One PyTorch app, three ways: in process, in Flower's engine, and without the mod."""

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
pytestmark = [pytest.mark.engine, pytest.mark.slow]  # test_engine.py is quicker

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
    """Return the result."""
    found = []
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        found.append(strategy.start(grid, initial(), timeout=900, **arguments))

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=supernodes,
        # One actor: each imports PyTorch, which takes longer than the runs.
        backend_config={"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1}},
    )
    return found[0]


PRIVATE = {"epsilon": 8.0, "model": "net", "path_length": 6.0}
USERS, ROUNDS, SEED = 90, 3, 5


@pytest.fixture(scope="module")
def expected():
    """Return the app of nodes of one user each, and its result in this process."""
    app = make_app(USERS, [LdpUpdateMod(seed=SEED)])
    arguments = {"num_rounds": ROUNDS, "num_nodes": USERS, "seed": SEED}
    return app, LdpFedAvg(**PRIVATE).start(InProcessGrid(app, USERS), initial(), **arguments)


def assert_same_model(result, expected):
    """Reports are the same; what a float of PyTorch is depends on its threads."""
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy(), atol=1e-4)


@pytest.mark.long
def test_the_engine_gives_the_model_of_the_in_process_grid(expected):
    app, alone = expected
    arguments = {"num_rounds": ROUNDS, "num_nodes": USERS, "seed": SEED}
    result = in_engine(app, USERS, LdpFedAvg(**PRIVATE), **arguments)
    assert result.num_reports == USERS and result.privacy.seeded
    assert_same_model(result, alone)
    assert result.arrays["0.num_batches_tracked"].numpy() == 0
    assert accuracy(result.arrays) > accuracy(initial()) + 0.15


@pytest.mark.long
def test_silos_in_the_engine_give_the_model_of_users_with_nodes_of_their_own(expected):
    arguments = {"num_rounds": ROUNDS, "num_nodes": 3, "seed": SEED}
    result = in_engine(make_silos(USERS, SEED), 3, LdpFedAvg(**PRIVATE), **arguments)
    assert result.num_users == result.num_reports == USERS
    assert_same_model(result, expected[1])


@pytest.mark.long
def test_the_same_app_without_the_mod():
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=8, min_available_nodes=8)
    result = in_engine(make_app(8, []), 8, strategy, num_rounds=4)
    assert accuracy(result.arrays) > 0.8
    assert result.arrays["0.num_batches_tracked"].numpy() == 20
