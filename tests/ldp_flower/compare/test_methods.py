"""What the comparison computes is what Flower's own strategy, wrappers and mod compute."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import FedAvg

from ldp_flower import InProcessGrid
from ldp_flower.accounting import gaussian_delta, gaussian_noise_multiplier
from ldp_flower.compare import dp_fedavg, local_dp_mod, local_dp_multiplier, methods
from ldp_flower.compare.methods import JointTraining

DIM, NODES, ROUNDS, CLIP, DELTA = 6, 12, 4, 0.7, 1e-3
GOALS = np.random.default_rng(1).standard_normal((NODES, DIM))


class Towards:
    """Every node moves half the way to its own goal."""

    num_nodes = NODES

    def updates(self, model, nodes, number):
        for some in np.array_split(nodes, 3):
            yield (GOALS[some] - model) / 2


def training(everybody, seed=5):
    return JointTraining(
        Towards(), np.ones(DIM), ROUNDS, lambda noise: CLIP, DELTA, everybody, seed
    )


def by_flower(strategy, mods=(), num_rounds=ROUNDS):
    app = ClientApp()

    @app.train(mods=[*mods])
    def train(message, context):
        (model,) = message.content["arrays"].to_numpy_ndarrays()
        node = context.node_config["partition-id"]
        content = RecordDict(
            {
                "arrays": ArrayRecord([model + (GOALS[node] - model) / 2]),
                "metrics": MetricRecord({"num-examples": 1 + node}),
            }
        )
        return Message(content, reply_to=message)

    grid = InProcessGrid(app, NODES)
    result = strategy.start(grid, ArrayRecord([np.ones(DIM)]), num_rounds=num_rounds)
    return result.arrays.to_numpy_ndarrays()[0]


@pytest.fixture
def flowers_noise(monkeypatch):
    """Let Flower draw its noise where the comparison does, in the order of the nodes."""
    monkeypatch.setattr("numpy.random.normal", np.random.default_rng(5).normal)
    monkeypatch.setattr("random.sample", lambda nodes, size: sorted(nodes)[:size])


def ones(message, context, call_next):
    """Claim one example, as the other nodes do."""
    reply = call_next(message, context)
    reply.content["metrics"] = MetricRecord({"num-examples": 1})
    return reply


def test_fedavg_is_flowers_with_equal_weights():
    model, guarantee = methods.train_fedavg(training(True))
    theirs = by_flower(FedAvg(fraction_evaluate=0.0), [ones])
    np.testing.assert_allclose(model, theirs, atol=1e-12)
    assert (guarantee.unit, guarantee.epsilon) == ("nothing", np.inf)


@pytest.mark.parametrize("clients_clip", [False, True])
def test_dp_fedavg_is_flowers_whoever_clips(flowers_noise, clients_clip):
    """With nodes that claim different numbers of examples, which must not count."""
    strategy = dp_fedavg(2.0, DELTA, ROUNDS, CLIP, NODES, clients_clip=clients_clip)
    theirs = by_flower(strategy, [fixedclipping_mod] if clients_clip else [])
    ours, guarantee = methods.train_dp_fedavg(training(True), 2.0)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    unclipped, _ = methods.train_fedavg(training(True))
    assert np.linalg.norm(ours - unclipped) > 0.1


@pytest.mark.parametrize("nominal", [False, True])
def test_local_dp_is_flowers_mod(flowers_noise, nominal):
    """In one round of everybody, as the mod's noise comes node after node."""
    mod = LocalDpMod(CLIP, CLIP, 2.0, DELTA) if nominal else local_dp_mod(2.0, DELTA, CLIP)
    theirs = by_flower(FedAvg(fraction_evaluate=0.0), [mod, ones], num_rounds=1)
    once = JointTraining(Towards(), np.ones(DIM), 1, lambda noise: CLIP, DELTA, True, 5)
    ours, guarantee = methods.train_local_dp(once, 2.0, nominal)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    noise = local_dp_multiplier(2.0, DELTA) if nominal else gaussian_noise_multiplier(2.0, DELTA)
    assert gaussian_delta(guarantee.epsilon, 2 / noise) == pytest.approx(DELTA, rel=1e-6)
    assert guarantee.epsilon > 3 if nominal else guarantee.epsilon == pytest.approx(2, rel=1e-6)


def test_cohorts_are_disjoint_and_cover_everybody():
    once = training(False).cohorts()
    assert len(once) == ROUNDS
    assert sorted(np.concatenate(once)) == [*range(NODES)]
    assert all(len(cohort) == NODES for cohort in training(True).cohorts())


def test_a_zero_update_is_no_error():
    short = methods.clip_updates(np.array([[0.0, 0.0], [3.0, 4.0], [0.3, 0.4]]), 1.0)
    np.testing.assert_allclose(short, [[0, 0], [0.6, 0.8], [0.3, 0.4]])
