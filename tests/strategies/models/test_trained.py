"""What is trained is declared: all else stays the server's, on either side."""

import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.guarantee.messages import MessageError
from ldp_flower.guarantee.training import RIDER, digest, split_query
from ldp_flower.questions import ClippedUpdate, NormalisedUpdate
from ldp_flower.strategies import LdpFedAvg, trainable_of
from ldp_flower.strategies.models.trained import Trained

NODES = 60
# Twelve numbers in a frozen body, two in the head, and what normalisation keeps.
MODEL = {
    "body.weight": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "head.bias": np.zeros(1, np.float32),
    "head.weight": np.array(0.5),
    "norm.running_mean": np.array([7.0, 8.0]),
    "norm.running_var": np.array([2.0, 3.0]),
    "norm.num_batches_tracked": np.array(5),
}
HEAD = ["head.bias", "head.weight"]
STATISTICS = ["norm.running_mean", "norm.running_var"]


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


class Recording(InProcessGrid):
    """Keeps what the nodes are asked."""

    def __init__(self, app):
        super().__init__(app, NODES)
        self.asked = []

    def _handle(self, message):
        self.asked.append(message.content)
        return super()._handle(message)


def moving(returned=tuple(MODEL)):
    """Return an app that moves everything, and returns some of it."""
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        model = message.content["arrays"]
        moved = {name: model[name].numpy() + 1 for name in returned}
        return Message(RecordDict({"arrays": record(moved)}), reply_to=message)

    return app


def run(app, rounds=1, **arguments):
    grid = Recording(app)
    strategy = LdpFedAvg(epsilon=8.0, learning_rate=1.0, **arguments)
    result = strategy.start(grid, record(MODEL), num_nodes=NODES, num_rounds=rounds, seed=1)
    return result, grid


def moved(result):
    """Return the names of the arrays that are not, to the bit, what they were."""
    return [
        name
        for name, array in result.arrays.items()
        if array.numpy().tobytes() != np.asarray(MODEL[name]).tobytes()
    ]


@pytest.mark.parametrize(
    ("trainable", "names"),
    [
        (["head.*"], HEAD),
        (("head.weight", "head.bias"), HEAD),
        (["*.weight"], ["body.weight", "head.weight"]),
        (["head.bias", "head.b*"], ["head.bias"]),
        (["body.*", "norm.*"], ["body.weight", *STATISTICS]),
        (["*"], ["body.weight", *HEAD, *STATISTICS]),
        (None, ["body.weight", *HEAD]),
    ],
)
def test_what_is_not_named_stays_as_it_was_to_the_bit(trainable, names, caplog):
    with caplog.at_level(logging.INFO, "flwr"):
        result, grid = run(moving(), trainable=trainable)
    assert moved(result) == names
    assert list(result.arrays) == list(MODEL)
    # The app itself is sent all of the model, every time.
    assert all(list(content["arrays"]) == list(MODEL) for content in grid.asked[NODES:])
    dim = sum(np.size(MODEL[name]) for name in names)
    assert f"for d = {dim} parameters" in caplog.text
    # Each moved by 1: the normalised update is the same in all coordinates.
    for name in names:
        step = result.arrays[name].numpy() - MODEL[name]
        np.testing.assert_allclose(step, dim**-0.5, atol=5 * result.noise)


def test_an_app_may_return_what_is_trained_and_no_more():
    everything, _ = run(moving(), trainable=HEAD)
    heads, _ = run(moving(HEAD), trainable=HEAD)
    assert moved(heads) == HEAD
    for name in MODEL:
        assert heads.arrays[name].numpy().tobytes() == everything.arrays[name].numpy().tobytes()
    nothing, _ = run(moving(["head.bias"]), trainable=HEAD)  # reported as the update 0
    steps = [nothing.arrays[name].numpy() - MODEL[name] for name in HEAD]
    assert np.abs(np.hstack([np.ravel(step) for step in steps])).max() < 5 * nothing.noise


def test_an_update_is_normalised_over_what_is_trained():
    """A body that moves a thousand times as far leaves no less of the head's update."""
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        model["body.weight"] = model["body.weight"] + 1000
        model["head.weight"] = model["head.weight"] + 0.001
        return Message(RecordDict({"arrays": record(model)}), reply_to=message)

    result, _ = run(app, trainable=["head.*"])
    assert abs(result.arrays["head.weight"].numpy() - 1.5) < 5 * result.noise


def test_running_statistics_left_out_are_told_unless_it_was_asked_for():
    result, _ = run(moving())
    (note,) = result.notes
    assert "norm.running_mean, norm.running_var" in note and "GroupNorm" in note
    for trainable in (["*"], ["head.*"]):
        assert run(moving(), trainable=trainable)[0].notes == []


def test_all_arrays_of_floats_are_asked_for_in_the_old_form():
    """Ledgers know queries by their digest: that of a plain model has not changed."""
    _, grid = run(moving(), trainable=["*"])
    assert not {"layout", "payload"} & set(grid.asked[-1][RIDER])
    _, grid = run(moving(), trainable=["head.*"])
    rider = grid.asked[-1][RIDER]
    assert {"layout", "payload"} <= set(rider)
    # In a deployment it crosses a wire; Flower's simulations hand over objects.
    query, own = split_query(RecordDict({RIDER: ConfigRecord.inflate(rider.deflate())}))
    assert query.question.trained.tolist() == [1, 2] and not own


def test_the_same_model_with_other_arrays_trained_is_another_question():
    asked = [NormalisedUpdate(), NormalisedUpdate(trained=np.array([1, 2]))]
    asked += [NormalisedUpdate(trained=np.array([1])), ClippedUpdate(radius=1.0)]
    wires = {repr(question.to_wire()) for question in asked}
    assert len(wires) == len(asked)
    plain, some = (run(moving(), trainable=names)[1].asked[-1] for names in (["*"], ["head.*"]))
    assert digest(RecordDict({RIDER: plain[RIDER]})) != digest(RecordDict({RIDER: some[RIDER]}))


@pytest.mark.parametrize(
    "chosen", [[], [5], [-1], [0, 0], [1.0], [[0]], [1 << 40]], ids=lambda chosen: str(chosen)
)
def test_a_client_trains_what_there_is_or_nothing(chosen):
    question = NormalisedUpdate(trained=np.array(chosen, None if chosen else np.int64))
    with pytest.raises(MessageError, match="coordinates"):
        question.trains(list("abcde"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"trained": [9]}, "the model has 5 arrays of floats"),
        ({"trained": [0]}, "Expected a randomizer of 12 coordinates, got 2"),
        ({"payload": b"short"}, "layout of arrays that fits"),
        ({"payload": "text"}, "layout of arrays that fits"),
        ({"layout": "[["}, "layout of arrays that fits"),
        ({"layout": 3}, "layout of arrays that fits"),
        ({"layout": '[["untrained", "<i8", [2]]]'}, "Expected the arrays"),
    ],
)
def test_a_server_that_asks_for_other_arrays_is_refused_unpaid(change, text):
    _, grid = run(moving(), trainable=["head.*"])
    content = grid.asked[-1]
    rider = dict(content[RIDER])
    if "trained" in change:
        indices = np.array(change["trained"], "<i8")
        rider["layout"] = f'[["trained", "<i8", [{len(indices)}]]]'
        rider["payload"] = indices.tobytes()
    else:
        rider |= change
    fresh = InProcessGrid(moving(), 1)
    sent = RecordDict({**content, RIDER: ConfigRecord(rider)})
    (reply,) = fresh.send_and_receive([Message(sent, 1, "train")])
    assert reply.error.code == 100 and text in reply.error.reason
    assert not fresh.contexts[1].state


# -------------------------------------------------------------------- refused at the start


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"trainable": ["haed.*"]},
            r"got 'haed.\*', which matches no array: there are body.weight, ",
        ),
        ({"trainable": ["head.*", "x"]}, "got 'x', which matches no array"),
        ({"trainable": ["HEAD.bias"]}, "which matches no array"),
        ({"trainable": ["norm.num_batches_tracked"]}, "which is an array of int64"),
    ],
)
def test_names_of_nothing_are_refused_before_anybody_is_asked(arguments, text):
    grid = Recording(moving())
    with pytest.raises(ValueError, match=text):
        LdpFedAvg(epsilon=8.0, **arguments).start(grid, record(MODEL), num_nodes=NODES)
    assert grid.asked == []


@pytest.mark.parametrize("trainable", ["head.*", [], [3], 3, [None]])
def test_what_is_no_list_of_names_is_refused_at_construction(trainable):
    with pytest.raises(ValueError, match="Expected trainable to be a list of names or patterns"):
        LdpFedAvg(epsilon=1.0, trainable=trainable)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ({"a": np.arange(3), "b": np.ones(2, bool)}, r"one array of floats, got a \(int64\), b"),
        ({"0": np.frombuffer(b"{}", np.uint8)}, r"0 \(uint8\)\. The model is bytes .* take Priv"),
        ({"a": np.zeros(0)}, r"one array of floats, got a \(float64\)\.$"),
        ({}, "one array of floats, got none"),
        ({"a": np.array([1, np.nan])}, "Expected finite initial_arrays, got a with NaN"),
        ({"x.running_var": np.ones(2)}, "with parameters to train, got only x.running_var"),
    ],
)
def test_models_that_cannot_be_trained_are_refused(model, text):
    with pytest.raises(ValueError, match=text):
        Trained.of(record(model), None)


def test_what_cannot_be_read_as_numpy_is_refused():
    theirs = Array(dtype="float32", shape=(1,), stype="cupy.ndarray", data=b"0")
    with pytest.raises(ValueError, match="Expected initial_arrays of NumPy arrays"):
        Trained.of(ArrayRecord({"a": theirs}), None)


def test_a_frozen_array_may_hold_anything():
    frozen = record({"body": np.array([np.nan]), "head": np.zeros(2)})
    assert Trained.of(frozen, ["head"]).names == ["head"]


def test_long_lists_of_names_are_cut():
    many = record({f"layer{i:03}": np.zeros(1) for i in range(100)})
    with pytest.raises(ValueError, match="layer019 and 80 more"):
        Trained.of(many, ["x"])


# ---------------------------------------------------------------------------------- PyTorch


def test_the_trainable_parameters_of_a_module():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, bias=False)
    )
    assert trainable_of(net) == ("0.weight", "0.bias", "1.weight", "1.bias", "2.weight")
    net[0].requires_grad_(False)
    assert trainable_of(net) == ("1.weight", "1.bias", "2.weight")
    start = ArrayRecord(net.state_dict())
    trained = Trained.of(start, trainable_of(net))
    assert trained.names == ["1.bias", "1.weight", "2.weight"] and len(trained.start) == 16
    assert trained.notes == []
    tied = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2, bias=False)})
    tied["b"] = tied["a"]
    assert trainable_of(tied) == ("a.weight", "b.weight")  # state_dict has both, the last counts
    for module in (net.requires_grad_(False), torch.nn.ReLU(), net.state_dict(), None):
        with pytest.raises(ValueError, match="module"):
            trainable_of(module)


def test_a_head_on_a_frozen_body_is_learnt_where_the_whole_drowns():
    """Rows in two classes: the body is right as it is, the head starts at nothing."""
    rng = np.random.default_rng(0)
    body = rng.standard_normal((20, 4)) / 2
    head = np.array([1.0, -1.0, 0.5, 0.0])
    nodes = 200
    x = rng.standard_normal((nodes, 10, 20))
    y = np.where(np.tanh(x @ body) @ head > 0, 1.0, -1.0)
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        node = int(context.node_config["partition-id"])
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        features = np.tanh(x[node] @ arrays["body"])
        slope = y[node] / (1 + np.exp(y[node] * (features @ arrays["head"])))
        arrays["head"] = arrays["head"] + features.T @ slope
        return Message(RecordDict({"arrays": record(arrays)}), reply_to=message)

    def accuracy(**arguments):
        start = record({"body": body, "head": np.zeros(4)})
        strategy = LdpFedAvg(epsilon=2.0, **arguments)
        grid = InProcessGrid(app, nodes)
        result = strategy.start(grid, start, num_nodes=nodes, num_rounds=5, seed=1)
        arrays = {name: array.numpy() for name, array in result.arrays.items()}
        scores = np.tanh(x @ arrays["body"]) @ arrays["head"]
        return float(np.mean((scores > 0) == (y > 0)))

    alone, whole = accuracy(trainable=["head"]), accuracy()
    print(f"the head alone {alone:.3f}, the whole {whole:.3f}")
    assert alone > 0.85 and alone > whole + 0.1
