"""Silos: users behind few nodes give the model that they would give from nodes of their own."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, PrivacyPolicy, Users
from ldp_flower.clients import LdpUpdateMod, LdpUserUpdateMod, user_of
from ldp_flower.strategies import LdpFedAvg

DIM, ROWS, NUM_USERS = 4, 5, 240
THETA = np.array([0.0, 0.8, 0.0, -0.6])


def make_users(seed=0, number=NUM_USERS):
    """Return users of some rows of length 1 with labels 0 or 1."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((number * ROWS, DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (rng.uniform(size=len(x)) < 1 / (1 + np.exp(-12 * x @ THETA))).astype(float)
    return Users(x, y, ROWS * np.arange(number + 1))


def stepped(message, x, y):
    """Take gradient steps on logistic loss from the model of a message, and reply."""
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    for _ in range(5):
        weights = weights + 5 * x.T @ (y - 1 / (1 + np.exp(-x @ weights))) / len(x)
    return Message(RecordDict({"arrays": ArrayRecord([weights])}), reply_to=message)


def one_per_node(users, seed):
    """Return the app as Flower has it: a node trains on its own rows."""
    app = ClientApp(mods=[LdpUpdateMod(seed=seed)])

    @app.train()
    def train(message, context):
        own = users.partition(context.node_config["partition-id"], len(users))
        return stepped(message, own.features, own.targets)

    return app


def share(users):
    """Return a function that loads a node's share of users."""

    def load_users(context):
        node = context.node_config
        return users.partition(node["partition-id"], node["num-partitions"])

    return load_users


def many_per_node(users, seed, train_user=stepped, policy=None):
    """Return the app of a silo, with the same training."""
    app = ClientApp(mods=[LdpUserUpdateMod(share(users), policy, seed)])

    @app.train()
    def train(message, context):
        user = user_of(message)
        return train_user(message, user.features, user.targets)

    return app


def run(app, num_nodes, start, **arguments):
    return LdpFedAvg(epsilon=4.0, **arguments).start(
        InProcessGrid(app, num_nodes), start, num_nodes=num_nodes, seed=1, num_rounds=4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [{}, pytest.param({"clip": 0.7}, marks=pytest.mark.slow)], ids=str
)
def test_how_users_are_spread_over_nodes_does_not_move_one_bit(arguments):
    users, start = make_users(), ArrayRecord([np.zeros(DIM)])
    expected = run(one_per_node(users, 7), NUM_USERS, start, **arguments)
    (model,) = expected.arrays.to_numpy_ndarrays()
    assert np.argsort(model)[[0, -1]].tolist() == [3, 1]  # it has learnt
    for num_nodes in (1, 7):
        found = run(many_per_node(users, 7), num_nodes, start, **arguments)
        np.testing.assert_array_equal(found.arrays.to_numpy_ndarrays()[0], model)
        assert found.num_users == found.num_reports == NUM_USERS
        assert [step.reports for step in found.steps[1:]] == [60] * 4
        assert found.noise_to_signal == expected.noise_to_signal
        assert str(found.privacy) == str(expected.privacy) == "epsilon = 4 per user"
    other = run(many_per_node(users, 8), 4, start, **arguments)
    assert (other.arrays.to_numpy_ndarrays()[0] != model).all()


def test_a_silos_sum_is_sent_where_it_is_shorter(monkeypatch):
    users, sent = make_users(), []
    honest = InProcessGrid._handle

    def handle(grid, message):
        reply = honest(grid, message)
        sent.append(reply.content["config"]["layout"] if "config" in reply.content else "census")
        return reply

    monkeypatch.setattr(InProcessGrid, "_handle", handle)
    run(many_per_node(users, 7), 2, ArrayRecord([np.zeros(DIM)]))
    assert sum('"sum"' in each for each in sent) == 2 * 4


def test_users_who_have_spent_are_left_out_and_the_others_go_on():
    """A run breaks off after half of the users; another one gets the other half's answers."""

    class BrokeOffError(Exception):
        pass

    def breaks_off(number, arrays):
        if number == 2:
            raise BrokeOffError

    users, start = make_users(), ArrayRecord([np.zeros(DIM)])
    app = many_per_node(users, 3, policy=PrivacyPolicy(4.0))
    grid = InProcessGrid(app, 3)
    strategy, arguments = LdpFedAvg(epsilon=4.0), {"num_nodes": 3, "num_rounds": 4}
    with pytest.raises(BrokeOffError):
        strategy.start(grid, start, seed=1, evaluate_fn=breaks_off, **arguments)
    result = strategy.start(grid, start, seed=2, **arguments)
    assert result.num_users == NUM_USERS and result.num_reports == NUM_USERS // 2
    assert all(0 < step.reports < 60 and not step.rejected for step in result.steps[1:])


def test_a_net_with_random_training_is_the_same_from_silos():
    """Dropout and shuffling draw from PyTorch's global generator, as in most apps."""
    torch = pytest.importorskip("torch")
    users = make_users(1, 60)

    def make_net():
        return torch.nn.Sequential(
            *(torch.nn.Linear(DIM, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)),
            torch.nn.Linear(3, 1),
        )

    def train_user(message, x, y):
        net = make_net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        data = torch.utils.data.TensorDataset(torch.tensor(x).float(), torch.tensor(y).float())
        optimizer = torch.optim.SGD(net.parameters(), lr=message.content["config"]["lr"])
        for rows, labels in torch.utils.data.DataLoader(data, 2, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            outputs = net(rows)[:, 0]
            torch.nn.functional.binary_cross_entropy_with_logits(outputs, labels).backward()
            optimizer.step()
        return Message(RecordDict({"arrays": ArrayRecord(net.state_dict())}), reply_to=message)

    torch.manual_seed(0)
    start = ArrayRecord(make_net().state_dict())
    models = []
    for num_nodes in (60, 2):
        strategy = LdpFedAvg(epsilon=8.0, model="net", path_length=5.0, force=True)
        app = many_per_node(users, 5, train_user)
        result = strategy.start(
            InProcessGrid(app, num_nodes),
            start,
            num_nodes=num_nodes,
            seed=1,
            num_rounds=2,
            train_config=ConfigRecord({"lr": 0.1}),
        )
        models.append(result.arrays)
    for name, array in models[0].items():
        np.testing.assert_array_equal(array.numpy(), models[1][name].numpy())
    moved = models[0]["0.weight"].numpy() - start["0.weight"].numpy()
    assert (moved != 0).all()
