"""Federated averaging from one private report per node, with apps that know nothing of it."""

import logging
import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy

from ldp_flower import InProcessGrid, PrivacyPolicy
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.guarantee.training import flattened, parameters_of, with_parameters
from ldp_flower.strategies import LdpFedAvg, TooFewReports
from ldp_flower.strategies.models.schedule import Reporting, Schedule, default_rounds
from ldp_flower.strategies.runtime.run import Arguments

DIM = 8
THETA = np.array([0, 0.8, 0, 0, -0.6, 0, 0, 0])


def make_data(num_nodes, rows=10, seed=0):
    """Return rows of length 1 with labels -1 or 1, a few for every node, and as many again."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, num_nodes, rows, DIM))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    y = np.where(rng.uniform(size=x.shape[:-1]) < 1 / (1 + np.exp(-12 * x @ THETA)), 1.0, -1.0)
    return (x[0], y[0]), (x[1].reshape(-1, DIM), y[1].ravel())


def logistic_app(x, y, mods):
    """Return an app that takes gradient steps on logistic loss, as FedAvg would have it."""
    app = ClientApp()

    @app.train(mods=mods)
    def train(message: Message, context: Context) -> Message:
        node = int(context.node_config["partition-id"])
        rows, labels = x[node], y[node]
        config = message.content["config"]
        weights, rounds = message.content["arrays"].to_numpy_ndarrays()
        for _ in range(int(config["local-steps"])):
            slope = labels / (1 + np.exp(labels * (rows @ weights)))
            weights = weights + config["lr"] * (rows.T @ slope) / len(rows)
        reply = {
            "arrays": ArrayRecord([weights, np.asarray(rounds + 1)]),
            "metrics": MetricRecord({"num-examples": len(rows), "loss": 1.0}),
        }
        return Message(RecordDict(reply), reply_to=message)

    return app


def train_config():
    return ConfigRecord({"lr": 5.0, "local-steps": 5})


def initial():
    """Return a model of zeros, and a counter of rounds that is no parameter."""
    return ArrayRecord([np.zeros(DIM), np.array(3)])


def run(strategy, num_nodes=600, seed=1, mods=None, grid=None, **arguments):
    (x, y), test = make_data(num_nodes)
    if grid is None:
        grid = InProcessGrid(logistic_app(x, y, mods or [LdpUpdateMod(seed=seed)]), num_nodes)
    arguments = {"train_config": train_config(), "num_nodes": num_nodes, "seed": seed} | arguments
    result = strategy.start(grid, initial(), timeout=1, **arguments)
    return result, accuracy(result.arrays, test)


def accuracy(arrays, test):
    weights = arrays.to_numpy_ndarrays()[0]
    return float(np.mean((test[0] @ weights > 0) == (test[1] > 0)))


BEST = accuracy(ArrayRecord([THETA]), make_data(600)[1])  # of the true coefficients


# ------------------------------------------------------------------------------- it learns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "loss"),
    [
        ({}, 0.03),
        pytest.param({"clip": 0.5}, 0.03, marks=pytest.mark.long),
        ({"model": "net"}, 0.05),
        pytest.param({"learning_rate": 1.0}, 0.05, marks=pytest.mark.long),
        ({"sparsity": 2}, 0.02),
    ],
    ids=str,
)
def test_a_model_is_learnt_from_one_report_per_node(arguments, loss):
    result, found = run(LdpFedAvg(epsilon=4.0, **arguments))
    assert found > BEST - loss
    weights, rounds = result.arrays.to_numpy_ndarrays()
    assert rounds == 3 and rounds.dtype == np.int64 and rounds.shape == ()
    assert result.privacy.epsilon == 4.0 and result.privacy.delta == 0
    assert str(result.privacy) == "epsilon = 4 per user"
    assert result.privacy.exact
    assert result.num_reports == result.num_users == 600
    if "sparsity" in arguments:
        assert np.flatnonzero(weights).tolist() == [1, 4]


@pytest.mark.long
def test_less_privacy_is_more_accuracy():
    found = {
        epsilon: run(LdpFedAvg(epsilon=epsilon, force=True), 600, 0)[1] for epsilon in (0.25, 8.0)
    }
    assert found[8.0] > BEST - 0.02 and found[0.25] < found[8.0] - 0.05


@pytest.mark.long
def test_the_noise_is_what_the_result_says():
    """Updates of zero: all that the model learns is noise."""
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)

    for size, arguments in (
        (500, {}),
        (5000, {}),  # many coordinates have a codebook of another kind
        (500, {"clip": 0.5, "path_length": 7.0}),
        (5000, {"clip": 0.5}),
    ):
        start = ArrayRecord([np.zeros(size)])
        strategy = LdpFedAvg(epsilon=2.0, **arguments, force=True)
        result = strategy.start(InProcessGrid(app, 300), start, num_nodes=300, seed=1)
        (noise,) = result.arrays.to_numpy_ndarrays()
        # 500 coordinates: the standard deviation is known within 3.2 % of itself.
        assert np.std(noise) == pytest.approx(result.noise, rel=0.16), arguments
        assert abs(noise.mean()) < 5 * result.noise / math.sqrt(size)
        if "path_length" in arguments:
            assert result.path_length == pytest.approx(7.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "arguments"), [(50, {}), (50, {"clip": 2.0}), (5000, {})], ids=str
)
def test_the_mean_update_is_read_without_bias(size, arguments):
    """One long step from nodes that all move the same way: the mean is where they went."""
    move = np.random.default_rng(0).standard_normal(size)
    move /= np.linalg.norm(move)
    app = ClientApp(mods=[LdpUpdateMod(seed=2)])

    @app.train()
    def train(message, context):
        moved = message.content["arrays"].to_numpy_ndarrays()[0] + 3 * move
        return Message(RecordDict({"arrays": ArrayRecord([moved])}), reply_to=message)

    strategy = LdpFedAvg(epsilon=8.0, learning_rate=1.0, min_reports=1, force=True, **arguments)
    start = ArrayRecord([np.zeros(size)])
    grid = InProcessGrid(app, 400)
    result = strategy.start(grid, start, num_rounds=1, num_nodes=400, seed=2)
    (got,) = result.arrays.to_numpy_ndarrays()
    length = arguments.get("clip", 1.0)
    noise = result.noise / length
    assert abs(got @ move / length - 1) < 5 * noise
    assert np.linalg.norm(got / length - move) < math.sqrt(size) * noise * 1.5


# --------------------------------------------------------------- one line, both directions


def test_the_same_app_runs_without_the_mod_under_flowers_own_strategy():
    (x, y), test = make_data(60)
    grid = InProcessGrid(logistic_app(x, y, mods=[]), 60)
    result = FedAvg(fraction_evaluate=0.0, min_available_nodes=60).start(
        grid, ArrayRecord([np.zeros(DIM), np.array(3.0)]), num_rounds=5, train_config=train_config()
    )
    assert accuracy(result.arrays, test) > BEST - 0.05


def test_an_app_without_the_mod_is_sent_no_model():
    (x, y), _ = make_data(60)
    seen = []
    app = logistic_app(x, y, mods=[lambda message, *rest: seen.append(message)])
    with pytest.raises(TimeoutError, match="No node gave a valid answer to the census"):
        run(LdpFedAvg(epsilon=4.0), 60, grid=InProcessGrid(app, 60))
    assert len(seen) == 60 and not any(message.content.array_records for message in seen)


def test_a_mod_before_that_reads_the_config_as_flowers_example_does_changes_nothing():
    seen = []

    def logs(message, context, call_next):
        seen.append((message.content["config"]["server-round"], message.content["config"]["lr"]))
        return call_next(message, context)

    arguments = {"num_nodes": 100, "num_rounds": 5}
    strategy = LdpFedAvg(epsilon=4.0, force=True)
    result, _ = run(strategy, mods=[logs, LdpUpdateMod(seed=1)], **arguments)
    alone, _ = run(strategy, **arguments)
    assert seen[:100] == [(0, 5.0)] * 100  # the census; then every node in its round
    assert sorted(seen[100:]) == [(round_, 5.0) for round_ in range(1, 6) for _ in range(20)]
    assert result.arrays.to_numpy_ndarrays()[0].tolist() == (
        alone.arrays.to_numpy_ndarrays()[0].tolist()
    )


@pytest.mark.slow
def test_a_train_function_of_another_name_and_records_of_other_names():
    app = ClientApp()

    @app.train("private", mods=[LdpUpdateMod(seed=0)])
    def train(message, context):
        assert dict(message.content["settings"]) == {"server-round": 1}
        moved = message.content["net"].to_numpy_ndarrays()[0] + 1
        return Message(RecordDict({"net": ArrayRecord([moved])}), reply_to=message)

    strategy = LdpFedAvg(
        epsilon=8.0,
        message_type="train.private",
        arrayrecord_key="net",
        configrecord_key="settings",
        learning_rate=1.0,
    )
    grid = InProcessGrid(app, 300)
    result = strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=1, num_nodes=300, seed=0)
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], math.sqrt(0.5), atol=0.2)


# -------------------------------------------------------------------- cohorts and accounting


class Watching(InProcessGrid):
    """Counts the rounds that every node answers, apart from the census."""

    def __init__(self, app, num_nodes):
        super().__init__(app, num_nodes)
        self.asked = []

    def _handle(self, message):
        if message.content.array_records:
            self.asked.append((int(message.metadata.group_id), message.metadata.dst_node_id))
        return super()._handle(message)


def test_a_node_answers_once_at_the_whole_epsilon(rounds=5):
    (x, y), _ = make_data(120)
    # The limit is the nodes' own: one answer more, or one float above, would be refused.
    mod = LdpUpdateMod(PrivacyPolicy(0.3), seed=1)
    grid = Watching(logistic_app(x, y, [mod]), 120)
    strategy = LdpFedAvg(epsilon=0.3, force=True)
    result, _ = run(strategy, 120, grid=grid, num_rounds=rounds)
    nodes = [node for _, node in grid.asked]
    assert sorted(nodes) == list(range(1, 121))
    assert len(set(grid.asked)) == len(grid.asked) == result.num_reports
    assert all(step.reports == step.asked for step in result.steps[1:])
    assert result.privacy.epsilon == 0.3
    assert len(result.steps) == rounds + 1


def test_the_rule_of_thumb_is_told_before_anybody_is_asked(caplog):
    (x, y), _ = make_data(60)
    grid = Watching(logistic_app(x, y, [LdpUpdateMod(seed=1)]), 60)
    with pytest.raises(TooFewReports, match=r"q > 2.*q = .* 60 users"):
        run(LdpFedAvg(epsilon=0.1), 60, grid=grid)
    assert grid.asked == []
    with caplog.at_level(logging.INFO, "flwr"):
        result, _ = run(LdpFedAvg(epsilon=0.1, force=True), 60, grid=grid, num_rounds=3)
    assert "expect a poor model" in caplog.text and "expect a poor model" in repr(result)
    assert result.noise_to_signal > 2
    caplog.clear()
    with caplog.at_level(logging.INFO, "flwr"):
        result, _ = run(LdpFedAvg(epsilon=4.0), 60, num_rounds=3)
    assert "q = sqrt(d c / n)" in caplog.text and "poor" not in caplog.text
    assert "steps to come: 20-100" in caplog.text
    steps = [text for text in caplog.messages if text.startswith("[STEP ")]
    assert [text.split("]")[0] for text in steps] == [f"[STEP {i} of 3" for i in (1, 2, 3)]
    assert result.to_dict()["noise_to_signal"] == pytest.approx(
        math.sqrt(DIM * Reporting.of(4.0, DIM, None).noise / 60)
    )


@pytest.mark.parametrize(("epsilon", "c"), [(0.5, 25.2), (1, 6.33), (2, 1.62), (4, 0.435)])
def test_the_constants_of_the_rule(epsilon, c):
    reporting = Reporting.of(epsilon, 500, None)
    assert reporting.noise == pytest.approx(c, rel=0.03)
    assert Reporting.of(epsilon, 500, 0.5).noise == pytest.approx(reporting.noise)
    assert Reporting.of(epsilon, 50_000, None).noise == pytest.approx(c, rel=0.03)
    assert reporting.randomizer.report_bytes == 1


def test_the_plan_follows_the_rules_of_thumb():
    reporting = Reporting.of(2.0, 100, None)

    def plan(num_users=6000, net=False, rounds=0, length=None, rate=None):
        return Schedule.of(reporting, num_users, net, rounds, length, rate)

    linear = plan()
    assert len(linear.steps) == 30 and sum(linear.sizes) == 6000
    assert sum(linear.steps) == pytest.approx(math.sqrt(6000 / reporting.noise))
    assert sum(plan(num_users=10**6).steps) == pytest.approx(100)
    assert max(plan(num_users=10**6, rounds=5).steps) == 4  # longer steps oscillate
    net = plan(num_users=12_000, net=True)
    assert len(net.steps) == 100 and sum(net.steps) == pytest.approx(30)
    assert net.steps[0] == pytest.approx(100 * net.steps[-1])
    assert plan(rate=0.5, rounds=7).steps == [0.5] * 7
    assert plan(length=14.0, rounds=7).steps == pytest.approx([2.0] * 7)
    assert default_rounds(4999, False) == 20 and default_rounds(100, True) == 3
    assert default_rounds(10, False) == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"model": "tree"}, "model"),
        ({"clip": 0.0}, "clip"),
        ({"path_length": -1.0}, "path_length"),
        ({"learning_rate": math.inf}, "learning_rate"),
        ({"learning_rate": 1.0, "path_length": 1.0}, "path_length"),
        ({"sparsity": 0}, "sparsity"),
        ({"message_type": "query"}, "message_type"),
        ({"arrayrecord_key": "ldp-flower"}, "arrayrecord_key"),
        ({"configrecord_key": "ldp-flower"}, "configrecord_key"),
        ({"arrayrecord_key": "config"}, "arrayrecord_key"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        LdpFedAvg(**{"epsilon": 1.0} | arguments)


@pytest.mark.parametrize(
    "arrays", [None, ArrayRecord(), ArrayRecord([np.arange(3)]), [np.zeros(8)], np.zeros(8)]
)
def test_a_model_without_parameters_is_refused(arrays):
    with pytest.raises(ValueError, match="initial_arrays"):
        LdpFedAvg(epsilon=1.0).start(InProcessGrid(ClientApp(), 1), arrays)


# ------------------------------------------------------------------------- Flower's ways


def test_the_model_of_every_round_can_be_evaluated():
    (_, test), seen = make_data(200), {}

    def evaluate(number, arrays):
        seen[number] = accuracy(arrays, test)
        return MetricRecord({"accuracy": seen[number]})

    result, found = run(LdpFedAvg(epsilon=4.0), 200, evaluate_fn=evaluate, num_rounds=5)
    assert list(seen) == list(range(6))
    assert seen[5] == found and seen[5] > seen[0] + 0.2
    assert result.evaluate_metrics_serverapp[5]["accuracy"] == found


def test_public_metrics_are_averaged_over_whoever_sent_them():
    mods = [LdpUpdateMod(seed=1, public_metrics=["num-examples", "loss"])]
    result, _ = run(LdpFedAvg(epsilon=4.0), 60, mods=mods, num_rounds=2)
    metrics = result.train_metrics_clientapp[1]
    assert metrics["public.num-examples"] == 10 and metrics["public.loss"] == 1.0
    assert metrics["reports"] == 30
    result, _ = run(LdpFedAvg(epsilon=4.0), 60, num_rounds=2)
    assert not any(name.startswith("public") for name in result.train_metrics_clientapp[1])


def test_a_stopped_server_goes_on_and_nobody_is_asked_twice(tmp_path):
    (x, y), _ = make_data(120)
    strategy = {"epsilon": 4.0}
    whole, _ = run(LdpFedAvg(**strategy), 120, num_rounds=4)

    class Crash(Exception):
        pass

    class Crashing(Watching):
        crash = True

        def _handle(self, message):
            if self.crash and message.metadata.group_id == "3":
                raise Crash
            return super()._handle(message)

    mod = LdpUpdateMod(PrivacyPolicy(4.0), seed=1)
    grid = Crashing(logistic_app(x, y, [mod]), 120)
    store = tmp_path / "run.db"
    with pytest.raises(Crash):
        run(LdpFedAvg(**strategy), 120, grid=grid, num_rounds=4, store=store)
    grid.crash = False
    resumed, _ = run(LdpFedAvg(**strategy), 120, grid=grid, num_rounds=4, store=store)
    for array, expected in zip(
        resumed.arrays.to_numpy_ndarrays(), whole.arrays.to_numpy_ndarrays(), strict=True
    ):
        np.testing.assert_array_equal(array, expected)
    assert len(grid.asked) == len(set(grid.asked)) == 120
    for changed in ({"num_rounds": 5}, {"train_config": None}):
        with pytest.raises(ValueError, match="Expected a store of"):
            run(
                LdpFedAvg(**strategy), 120, grid=grid, **{"num_rounds": 4, "store": store} | changed
            )


def test_replies_cross_a_wire_as_they_are():
    """Flower's simulation hands records over as objects; only a deployment encodes them."""
    (x, y), _ = make_data(60)
    kinds = set()

    class Wire(InProcessGrid):
        def _handle(self, message):
            reply = super()._handle(message)
            for content in (message.content, reply.content):
                for name, found in content.items():
                    found.deflate()
                    kinds.add(name)
            return reply

    grid = Wire(logistic_app(x, y, [LdpUpdateMod(seed=1)]), 60)
    run(LdpFedAvg(epsilon=8.0), 60, grid=grid, num_rounds=2)
    assert kinds == {"ldp-flower", "census", "arrays", "config"}


def test_parameters_keep_their_order_and_types():
    model = ArrayRecord([np.ones((2, 2), np.float32), np.arange(3), np.array(4.0, np.float16)])
    vector = flattened(parameters_of(model))
    assert vector.tolist() == [1, 1, 1, 1, 4]
    doubled = with_parameters(model, 2 * vector).to_numpy_ndarrays()
    assert [a.dtype for a in doubled] == [np.float32, np.int64, np.float16]
    assert [a.tolist() for a in doubled] == [[[2, 2], [2, 2]], [0, 1, 2], 8]


def test_flowers_own_loop_needs_the_model_to_start_from():
    (x, y), _ = make_data(120)
    strategy, grid = (
        LdpFedAvg(epsilon=8.0),
        InProcessGrid(logistic_app(x, y, [LdpUpdateMod()]), 120),
    )
    with pytest.raises(ValueError, match="Expected initial_arrays"), strategy.opened(grid):
        pass
    arguments = Arguments(initial(), 3, train_config())
    with strategy.opened(grid, arguments, num_nodes=120, timeout=1, seed=1) as opened:
        by_flower = Strategy.start(strategy, grid, initial(), num_rounds=3, timeout=1)
        result = opened.result()
    assert result.arrays == by_flower.arrays and len(result.steps) == 4
