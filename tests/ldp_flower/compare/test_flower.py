"""Flower's wrappers and mod as the library sets them up, on real messages."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp import NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
)

from ldp_flower import InProcessGrid
from ldp_flower.accounting import (
    gaussian_epsilon,
    gaussian_noise_multiplier,
    noise_multiplier_epsilon,
)
from ldp_flower.compare import dp_fedavg, flower_epsilon, local_dp_mod

DIM, NODES, ROUNDS, CLIP, DELTA = 2000, 10, 2, 0.1, 1e-5
TINY = np.full(DIM, 1e-9)  # Flower cannot clip an update of 0


def trained(strategy, update, **options):
    """Return the model after all rounds; ``update`` is called with the number of a node."""
    return run(strategy, update, **options).arrays


def run(strategy, update, *, mods=(), initial=None, num_nodes=NODES):
    app = ClientApp()

    @app.train(mods=[*mods])
    def train(message, context):
        node = context.node_config["partition-id"]
        arrays = message.content["arrays"].to_numpy_ndarrays()
        content = RecordDict(
            {
                "arrays": ArrayRecord([arrays[0] + update(node), *arrays[1:]]),
                "metrics": MetricRecord({"num-examples": 10**node}),
            }
        )
        return Message(content, reply_to=message)

    initial = ArrayRecord([np.zeros(DIM)]) if initial is None else initial
    grid = InProcessGrid(app, num_nodes)
    return strategy.start(grid, initial, num_rounds=ROUNDS)


def made(clients_clip=False, **options):
    arguments = {"epsilon": 2.0, "delta": DELTA, "rounds": ROUNDS, "clip": CLIP, "num_nodes": NODES}
    return dp_fedavg(**arguments | options, clients_clip=clients_clip)


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)  # noqa: NPY002 - Flower's noise has no other seed


@pytest.mark.parametrize("clients_clip", [False, True])
def test_dp_fedavg_is_flowers_wrapper_with_the_noise_that_is_charged(clients_clip):
    """2,000 coordinates: the standard deviation is known within 1.6 % of itself."""
    strategy = made(clients_clip)
    kinds = DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping
    assert type(strategy) is kinds[clients_clip]
    noise = gaussian_noise_multiplier(2.0, DELTA, ROUNDS)
    assert strategy.noise_multiplier == noise
    mods = [fixedclipping_mod] if clients_clip else []
    (model,) = trained(strategy, lambda node: TINY, mods=mods).to_numpy_ndarrays()
    assert np.std(model) == pytest.approx(math.sqrt(ROUNDS) * noise * CLIP / NODES, rel=0.08)


@pytest.mark.parametrize("clients_clip", [False, True])
def test_no_node_moves_the_mean_by_more_than_its_clip(clients_clip):
    """Whatever it claims to have examples of: node 9 claims nine of ten of them all."""
    far = np.zeros(DIM)
    far[0] = 1e6
    mods = [fixedclipping_mod] if clients_clip else []
    strategy = made(clients_clip, epsilon=1e6, delta=0.5)
    (model,) = trained(strategy, lambda n: far if n == 9 else TINY, mods=mods).to_numpy_ndarrays()
    assert model[0] == pytest.approx(ROUNDS * CLIP / NODES, rel=0.1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_that_is_no_number_counts_as_zero(bad):
    step = np.zeros(DIM)
    step[0] = CLIP
    strategy = made(epsilon=1e6, delta=0.5)
    (model,) = trained(strategy, lambda n: bad if n == 3 else step).to_numpy_ndarrays()
    assert model[0] == pytest.approx(ROUNDS * CLIP * (NODES - 1) / NODES, rel=0.02)


def test_a_round_with_another_number_of_replies_changes_nothing():
    """Its mean would be more sensitive than the noise is for."""
    few = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    arrays = trained(made(strategy=few), lambda node: TINY, num_nodes=NODES - 1)
    assert arrays == ArrayRecord()  # Flower's result of no round


@pytest.mark.parametrize("other", [np.array(1.0), np.arange(3)], ids=["no dimensions", "integers"])
def test_what_flower_would_not_noise_is_refused(other):
    with pytest.raises(ValueError, match="neither clip nor noise"):
        trained(made(), lambda node: TINY, initial=ArrayRecord([np.zeros(DIM), other]))


def test_more_rounds_than_the_noise_is_for_are_refused():
    with pytest.raises(ValueError, match=r"Expected at most 1 rounds.*got round 2"):
        trained(made(rounds=1), lambda node: TINY)


def test_a_zero_update_ends_flowers_run():
    """Should it be mended, the notes of dp_fedavg need not say so."""
    with pytest.raises(ZeroDivisionError):
        trained(made(), lambda node: 0.0)


def test_the_mod_adds_the_noise_that_is_charged():
    mod = local_dp_mod(2.0, DELTA, CLIP, answers=3)
    noise = gaussian_noise_multiplier(2.0, DELTA, 3)
    assert mod.sensitivity * math.sqrt(2 * math.log(1.25 / DELTA)) / 2 == pytest.approx(
        noise * CLIP
    )
    seen = []

    class Keeps(FedAvg):
        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            seen.extend(r.content["arrays"].to_numpy_ndarrays()[0] for r in replies)
            return super().aggregate_train(server_round, replies)

    trained(Keeps(fraction_evaluate=0.0), lambda node: TINY, mods=[mod])
    assert np.std(seen[0]) == pytest.approx(noise * CLIP, rel=0.08)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": 0.0}, "epsilon > 0"),
        ({"delta": 1.0}, "delta < 1"),
        ({"rounds": 0}, "rounds >= 1"),
        ({"clip": -1.0}, "clip > 0"),
        ({"num_nodes": 0}, "num_nodes >= 1"),
        ({"strategy": FedMedian()}, "got FedMedian: its sensitivity is not known"),
    ],
)
def test_bad_arguments_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        made(**options)


def test_flowers_accountant_states_half_of_what_replacing_a_node_costs():
    """Its neighbours are half as far apart; its bound (RDP) is some 10 % above the exact one."""
    for epsilon in (1.0, 4.0):
        noise = gaussian_noise_multiplier(epsilon, 1e-5, 20)
        stated = flower_epsilon(noise, 1e-5, 20, 1000)
        exact = gaussian_epsilon(np.sqrt(20) / noise, 1e-5)  # add or remove one
        assert exact <= stated < 1.15 * exact < 0.6 * epsilon


def accountant(sampling="no-amplification", neighbours="add-or-remove-one", max_epsilon=None):
    return RdpAccountant(
        PrivacyConfig(
            DELTA, NODES, NeighboringRelation(neighbours), SamplingMethod(sampling), max_epsilon
        )
    )


def test_every_round_tells_what_a_node_spent_and_what_flowers_accountant_states():
    """A round without all replies costs neither: its model goes nowhere."""
    flowers = accountant()
    strategy = made(accountant=flowers)
    rounds = run(strategy, lambda node: TINY).train_metrics_clientapp
    for number in (1, ROUNDS):
        noise = strategy.noise_multiplier
        spent = noise_multiplier_epsilon([noise] * number, DELTA)
        stated = flower_epsilon(noise, DELTA, number, NODES)
        assert rounds[number]["epsilon-spent"] == spent > stated
        assert rounds[number]["flower-epsilon"] == stated
    assert rounds[ROUNDS]["epsilon-spent"] == pytest.approx(2.0)
    assert flowers.num_releases == ROUNDS
    few = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    run(made(strategy=few, accountant=flowers), lambda node: TINY, num_nodes=NODES - 1)
    assert flowers.num_releases == ROUNDS


def test_without_an_accountant_rounds_tell_the_epsilon_only():
    rounds = run(made(), lambda node: TINY).train_metrics_clientapp
    assert set(rounds[1]) == {"epsilon-spent"}


def test_an_accountant_that_does_not_fit_is_refused_before_anybody_trains():
    with pytest.raises(ValueError, match="'no-amplification', got 'poisson'"):
        made(accountant=accountant("poisson"))
    needed = flower_epsilon(made().noise_multiplier, DELTA, ROUNDS, NODES)
    with pytest.raises(ValueError, match="allows 2 rounds, got max_epsilon="):
        made(accountant=accountant(max_epsilon=0.99 * needed))
    made(accountant=accountant(max_epsilon=1.01 * needed))
