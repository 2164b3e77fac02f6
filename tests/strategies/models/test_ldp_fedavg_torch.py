"""A PyTorch app as it is: a net with batch normalisation, whose counters are integers."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg

torch = pytest.importorskip("torch")

NUM_NODES = 240


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 2),
    )


def make_data(seed):
    """Return rows in two classes, told apart by the product of two signs."""
    x = np.random.default_rng(seed).standard_normal((NUM_NODES * 20, 4)).astype(np.float32)
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y)


def make_app(mods):
    x, y = make_data(1)
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        node = int(context.node_config["partition-id"])
        rows = slice(20 * node, 20 * node + 20)
        net = make_net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.train()
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        content = {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"num-examples": 20}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


@pytest.mark.slow
def test_a_net_is_trained_and_keeps_its_counters():
    x, y = make_data(2)

    def accuracy(arrays):
        net = make_net()
        net.load_state_dict(arrays.to_torch_state_dict())
        net.eval()
        with torch.no_grad():
            return float((net(x).argmax(1) == y).float().mean())

    start = ArrayRecord(make_net().state_dict())
    grid = InProcessGrid(make_app([LdpUpdateMod(seed=1)]), NUM_NODES)
    strategy = LdpFedAvg(epsilon=8.0, model="net", path_length=10.0)
    result = strategy.start(grid, start, num_rounds=10, num_nodes=NUM_NODES, seed=1)
    assert list(result.arrays) == list(start)
    tracked = result.arrays["1.num_batches_tracked"].numpy()
    assert tracked == 0 and tracked.dtype == np.int64 and tracked.shape == ()
    assert result.arrays["0.weight"].numpy().dtype == np.float32
    assert accuracy(result.arrays) > 0.85 > 0.75 > accuracy(start)
