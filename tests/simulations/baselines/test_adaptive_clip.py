"""The adaptive clip is Flower's, defects included, and is charged what it costs."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideAdaptiveClipping, FedAvg

from ldp_flower import InProcessGrid
from ldp_flower.accounting import gaussian_noise_multiplier
from ldp_flower.compare.methods import JointTraining

pytestmark = pytest.mark.usefixtures("repository_on_the_path")

NODES, DIM, ROUNDS, DELTA = 60, 50, 10, 1e-5
STEP = 5.0 / math.sqrt(DIM)


class Moves:
    """All updates have length 5."""

    num_nodes = NODES

    def updates(self, model, nodes, number):
        yield np.full((len(nodes), DIM), STEP)


def ours(first, epsilon):
    from simulations.baselines.adaptive_clip import dp_fedavg_adaptive

    training = JointTraining(Moves(), np.zeros(DIM), ROUNDS, lambda noise: first, DELTA, seed=3)
    return dp_fedavg_adaptive(training, epsilon)


def flowers(first, noise, monkeypatch):
    """Return the model and the last clip; the noise is drawn as ours is."""
    monkeypatch.setattr("numpy.random.normal", np.random.default_rng(3).normal)
    app = ClientApp()

    @app.train()
    def train(message, context):
        (model,) = message.content["arrays"].to_numpy_ndarrays()
        metrics = MetricRecord({"num-examples": 1})
        content = RecordDict({"arrays": ArrayRecord([model + STEP]), "metrics": metrics})
        return Message(content, reply_to=message)

    strategy = DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(fraction_evaluate=0.0), noise, NODES, initial_clipping_norm=first
    )
    result = strategy.start(
        InProcessGrid(app, NODES), ArrayRecord([np.zeros(DIM)]), num_rounds=ROUNDS
    )
    return result.arrays.to_numpy_ndarrays()[0], strategy.clipping_norm


def test_the_model_is_that_of_flowers_wrapper(monkeypatch):
    noise = gaussian_noise_multiplier(40.0, DELTA, ROUNDS)
    theirs, _ = flowers(4.0, noise, monkeypatch)
    model, _ = ours(4.0, 40.0)
    np.testing.assert_allclose(model, theirs, atol=1e-9)


def test_it_runs_away_from_the_wanted_quantile(monkeypatch):
    """All updates have length 5: a clip above should fall to it, and one below rise."""
    assert flowers(4.0, 0.1, monkeypatch)[1] < 2 and flowers(6.0, 0.1, monkeypatch)[1] > 12


def test_a_clip_that_shrinks_costs_more_than_it_was_calibrated_for():
    (_, guarantee) = ours(4.0, 20.0)
    assert 21 < guarantee.epsilon < 30
    with pytest.raises(ValueError, match="Expected more than"):
        ours(4.0, 0.5)
