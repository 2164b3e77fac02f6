"""Flower's server optimisers take the steps, on the private mean instead of its average."""

import math
from copy import deepcopy

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg
from ldp_flower.strategies.models.server_optimizer import ServerOptimizer

DIM = 5
OPTIMIZERS = [
    FedAdam(),
    FedAdam(eta=0.3, beta_1=0.5, beta_2=0.9, tau=0.1),
    FedYogi(),
    FedYogi(eta=0.2, beta_1=0.0, beta_2=0.5, tau=0.01),
    FedAdagrad(),
    FedAdagrad(eta=0.5, tau=0.2),
    FedAvgM(),
    FedAvgM(server_learning_rate=0.7, server_momentum=0.9),
]


def told(strategy):
    return str(ServerOptimizer.of(strategy))


def app_of(update, **arguments):
    """Return an app that moves any model by an update, which depends on the round."""
    app = ClientApp(**arguments)

    @app.train()
    def train(message, context):
        (theta,) = message.content["arrays"].to_numpy_ndarrays()
        number = message.content["config"]["server-round"]
        reply = {"arrays": ArrayRecord([theta + update(number, theta)])}
        reply["metrics"] = MetricRecord({"num-examples": 1})
        return Message(RecordDict(reply), reply_to=message)

    return app


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=told)
def test_the_steps_are_those_of_flowers_own_run(optimizer):
    updates = np.random.default_rng(0).standard_normal((6, DIM))
    updates[3, 2] = 0.0
    start, models = np.linspace(-1, 1, DIM), []
    strategy = deepcopy(optimizer)
    strategy.fraction_evaluate, strategy.min_evaluate_nodes = 0.0, 0
    strategy.start(
        InProcessGrid(app_of(lambda number, theta: updates[number - 1]), 2),
        ArrayRecord([start]),
        num_rounds=6,
        evaluate_fn=lambda number, arrays: models.append(arrays.to_numpy_ndarrays()[0]),
    )
    step, theta = ServerOptimizer.of(optimizer).steps(), start
    for number, update in enumerate(updates, 1):
        theta = step(number, theta, update)
        np.testing.assert_allclose(theta, models[number], rtol=1e-12, atol=1e-12)
    assert not np.allclose(models[6], start + updates.sum(0)) or told(optimizer) == (
        "FedAvgM(server_learning_rate=1, server_momentum=0)"
    )


def test_adam_is_what_it_is_printed_as():
    """Reddi et al. (ICLR 2021), Algorithm 2, with Flower's correction of the first rounds."""
    step = ServerOptimizer.of(FedAdam(eta=0.3, beta_1=0.5, beta_2=0.9, tau=0.1)).steps()
    theta, mean, square = np.zeros(DIM), np.zeros(DIM), np.zeros(DIM)
    found = theta
    for number in range(1, 5):
        update = np.cos(number + np.arange(DIM))
        mean, square = 0.5 * mean + 0.5 * update, 0.9 * square + 0.1 * update**2
        rate = 0.3 * math.sqrt(1 - 0.9 ** (number + 1)) / (1 - 0.5 ** (number + 1))
        theta = theta + rate * mean / (np.sqrt(square) + 0.1)
        found = step(number, found, update)
        np.testing.assert_allclose(found, theta, rtol=1e-12)


def test_moments_are_kept_over_rounds_and_not_over_runs():
    optimizer = ServerOptimizer.of(FedAvgM(server_momentum=0.5))
    for _ in range(2):
        step, theta = optimizer.steps(), np.zeros(1)
        found = []
        for number in (1, 2, 3):
            theta = step(number, theta, np.ones(1))
            found.append(theta[0])
        assert found == [1.0, 2.5, 4.25]
    # Changed in between, as by a threshold: the next step starts from there.
    assert step(4, np.zeros(1), np.zeros(1)) == 0.5 * 1.75


# ------------------------------------------------------------------------------ whole runs


def towards(target):
    return lambda number, theta: 0.5 * (target - theta)


def run(strategy, update, nodes=300):
    grid = InProcessGrid(app_of(update, mods=[LdpUpdateMod(seed=1)]), nodes)
    start = ArrayRecord([np.zeros(DIM)])
    return strategy.start(grid, start, num_nodes=nodes, num_rounds=10, seed=1)


@pytest.mark.parametrize(
    "optimizer",
    [FedAdam(eta=0.3, tau=0.1), FedYogi(eta=0.3, tau=0.1), FedAvgM(server_learning_rate=0.5)],
    ids=told,
)
def test_an_optimizer_learns_from_private_reports(optimizer):
    target = np.array([1.0, -1.0, 0.5, 0.0, -0.5])
    result = run(LdpFedAvg(epsilon=8.0, optimizer=optimizer), towards(target))
    distance = np.linalg.norm(result.arrays.to_numpy_ndarrays()[0] - target)
    print(f"{told(optimizer)}: {distance:.2f} of {np.linalg.norm(target):.2f}")
    assert distance < 0.5 * np.linalg.norm(target)
    assert result.privacy.epsilon == 8.0 and result.num_reports == 300
    assert math.isnan(result.noise) and math.isnan(result.path_length)
    assert "nan" not in repr(result)


def test_two_runs_of_one_strategy_are_the_same_and_the_object_is_only_read():
    optimizer = FedAdam(eta=0.3)
    before = dict(vars(optimizer))
    strategy = LdpFedAvg(epsilon=8.0, optimizer=optimizer, sparsity=2)
    first, second = (run(strategy, towards(np.ones(DIM)), 200) for _ in range(2))
    arrays = [result.arrays.to_numpy_ndarrays()[0] for result in (first, second)]
    assert arrays[0].tobytes() == arrays[1].tobytes() and np.count_nonzero(arrays[0]) == 2
    assert vars(optimizer) == before


def test_a_stopped_run_goes_on_with_the_same_optimizer_only(tmp_path):
    grid = InProcessGrid(app_of(towards(np.ones(DIM)), mods=[LdpUpdateMod(seed=1)]), 100)
    start = ArrayRecord([np.zeros(DIM)])

    def finished(**parameters):
        strategy = LdpFedAvg(epsilon=8.0, optimizer=FedAdam(**parameters))
        kept = {"store": tmp_path / "run.db", "num_rounds": 3, "seed": 1}
        return strategy.start(grid, start, num_nodes=100, **kept).arrays.to_numpy_ndarrays()[0]

    first = finished(eta=0.3)
    np.testing.assert_array_equal(finished(eta=0.3), first)
    with pytest.raises(ValueError, match="optimizer"):
        finished(eta=0.2)


# ------------------------------------------------------------------- refused at construction


class Mine(FedAdam):
    pass


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        ("fedadam", "one of Flower's FedAdam, FedYogi, FedAdagrad, FedAvgM, got 'fedadam'"),
        (FedAdam, "one of Flower's FedAdam"),
        (FedAvg(), "one of Flower's FedAdam"),
        (FedProx(proximal_mu=1.0), "one of Flower's FedAdam"),
        (Mine(), "one of Flower's FedAdam"),
        (FedAdam(eta=0.0), "eta > 0 of the optimizer, got 0.0"),
        (FedAdam(tau=-1.0), "tau > 0 of the optimizer, got -1.0"),
        (FedYogi(eta=math.nan), "eta > 0 of the optimizer, got nan"),
        (FedYogi(beta_1=1.0), "0 <= beta_1 < 1 of the optimizer, got 1.0"),
        (FedAvgM(server_momentum=1.5), "0 <= server_momentum < 1 of the optimizer, got 1.5"),
        (FedAvgM(server_learning_rate="1"), "server_learning_rate > 0 of the optimizer, got '1'"),
        (FedAdam(eta_l=0.5), "no eta_l of the optimizer, got 0.5"),
        (FedAdam(fraction_train=0.1), "no fraction_train of the optimizer, got 0.1"),
        (FedAvgM(arrayrecord_key="net"), "no arrayrecord_key of the optimizer, got 'net'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_optimizers_are_refused(optimizer, text):
    with pytest.raises(ValueError, match=f"Expected (optimizer to be )?{text}"):
        LdpFedAvg(epsilon=1.0, optimizer=optimizer)


@pytest.mark.parametrize(
    "argument",
    [{"path_length": 3.0}, {"learning_rate": 1.0}],
    ids=str,
)
def test_what_an_optimizer_decides_cannot_be_given_beside_it(argument):
    (name,) = argument
    with pytest.raises(ValueError, match=f"no {name} with an optimizer, where it has no effect"):
        LdpFedAvg(epsilon=1.0, optimizer=FedAdam(), **argument)
