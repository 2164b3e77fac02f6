"""One app, three ways: in process, in Flower's engine, and without the mod."""

import time

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg

pytestmark = pytest.mark.engine

DIM = 6


def make_app(num_nodes, mods):
    """Return an app for logistic regression that counts its rounds in a 0-d array."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num_nodes, 10, DIM)) / np.sqrt(DIM)
    y = np.sign(x[..., 2] - x[..., 4])
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        node = int(context.node_config["partition-id"])
        arrays = message.content["arrays"]
        weights, rounds = (arrays[name].numpy() for name in ("weights", "rounds"))
        for _ in range(5):
            slope = y[node] / (1 + np.exp(y[node] * (x[node] @ weights)))
            weights = weights + x[node].T @ slope / 2
        reply = {
            "arrays": ArrayRecord({"weights": Array(weights), "rounds": Array(rounds)}),
            "metrics": MetricRecord({"num-examples": 10}),
        }
        return Message(RecordDict(reply), reply_to=message)

    return app


def initial():
    return ArrayRecord({"weights": Array(np.zeros(DIM)), "rounds": Array(np.array(0))})


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
    app = make_app(90, [LdpUpdateMod(seed=5)])
    expected = LdpFedAvg(epsilon=8.0).start(InProcessGrid(app, 90), initial(), **arguments)
    result, seconds = in_engine(app, 90, LdpFedAvg(epsilon=8.0), **arguments)
    print(f"90 nodes: {seconds:.1f} s")
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy(), rtol=0, atol=1e-9)
    assert result.num_reports == 90 and result.privacy.seeded
    assert result.arrays["weights"].numpy()[2] > 0 > result.arrays["weights"].numpy()[4]


def test_the_same_app_without_the_mod():
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=8, min_available_nodes=8)
    result, _ = in_engine(make_app(8, []), 8, strategy, num_rounds=2)
    weights = result.arrays["weights"].numpy()
    assert weights[2] > 0 > weights[4]
