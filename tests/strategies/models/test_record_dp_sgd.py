"""RecordDpSgd over silos in one process: what it trains, spends, keeps and says."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Error, Message, MetricRecord
from torch import nn

from ldp_flower import InProcessGrid
from ldp_flower.clients import NetworkClientApp
from ldp_flower.models import Network
from ldp_flower.strategies import RecordDpSgd, TooFewReports

SILOS, RECORDS = 5, 400
PLAN = {"epsilon": 4.0, "delta": 1e-5, "num_rounds": 3, "sampling_rate": 0.2, "learning_rate": 0.5}


def data_of(silo, count=RECORDS):
    generator = np.random.default_rng(silo)
    rows = generator.normal(size=(count, 6)).astype(np.float32)
    return rows, (np.abs(rows[:, 0]) + rows[:, 1] > 0.8).astype(np.int64)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    return Network.export(module, np.zeros(6, np.float32), "cross_entropy")


def grid_of(silos=SILOS, seed=1, fails=()):
    def load(context):
        silo = int(context.node_config["partition-id"])
        if silo in fails:
            raise ValueError("no records")
        return data_of(silo)

    return InProcessGrid(NetworkClientApp(load, seed=seed), silos)


def accuracy(network):
    rows, targets = data_of(99, 2000)
    return float((network.run(rows).argmax(1) == targets).mean())


def test_silos_train_a_network_and_each_round_says_what_is_spent(network):
    strategy = RecordDpSgd(network, **{**PLAN, "num_rounds": 6}, steps=20)
    rounds = []

    def evaluate(number, arrays):
        rounds.append(number)
        return MetricRecord({"number": number})

    result = strategy.start(grid_of(), num_nodes=SILOS, evaluate_fn=evaluate)
    assert rounds == list(range(7)) == list(result.evaluate_metrics_serverapp)
    # Guessing the commoner class is right for 0.6; without privacy 0.97.
    assert accuracy(network) < 0.7 and accuracy(result.network) > 0.85
    metrics = result.train_metrics_clientapp
    spent = [metrics[number]["epsilon-spent"] for number in range(1, 7)]
    assert spent == sorted(spent) and 0 < spent[0] < 4.0 and 3.9 < spent[-1] <= 4.0
    assert (metrics[1]["nodes"], metrics[1]["records"]) == (SILOS, SILOS * RECORDS)
    assert (result.epsilon, result.delta, result.notes) == (spent[-1], 1e-5, [])
    assert set(result.arrays) == set(network.arrays)


def test_a_run_that_is_started_again_goes_on(network, tmp_path):
    """With the same bytes: a store holds what is needed, and silos do not pay again."""
    store = tmp_path / "run.npz"
    grid = grid_of()
    strategy = RecordDpSgd(network, **PLAN)

    class Stopped(Exception):
        pass

    def stop(number, arrays):
        if number == 2:
            raise Stopped

    with pytest.raises(Stopped):
        strategy.start(grid, num_nodes=SILOS, store=store, evaluate_fn=stop)
    second = RecordDpSgd(network, **PLAN).start(grid, num_nodes=SILOS, store=store)
    assert set(second.train_metrics_clientapp) == {3}
    assert second.notes == ["Rounds 1 to 2 are of an earlier start of this run."]
    assert second.epsilon == pytest.approx(4.0, rel=1e-2)
    over = RecordDpSgd(network, **PLAN).start(grid, num_nodes=SILOS, store=store)
    assert not over.train_metrics_clientapp
    assert np.array_equal(over.network.arrays["0.weight"], second.network.arrays["0.weight"])
    with pytest.raises(ValueError, match="Expected a store of this run"):
        RecordDpSgd(network, **{**PLAN, "epsilon": 3.0}).start(grid, num_nodes=SILOS, store=store)


def test_silos_that_fail_are_left_out_and_noted(network):
    result = RecordDpSgd(network, **PLAN).start(grid_of(fails=(1, 3)), num_nodes=SILOS)
    assert result.train_metrics_clientapp[1]["nodes"] == 3
    assert len(result.notes) == 3 and "The client failed" in result.notes[0]
    with pytest.raises(TooFewReports, match="Round 1 got 3 answers, and 4 are needed"):
        RecordDpSgd(network, **PLAN, min_nodes=4).start(grid_of(fails=(1, 3)), num_nodes=SILOS)


def test_a_run_ends_with_what_it_has(network):
    grid = grid_of()
    send, calls = grid.send_and_receive, []

    def fails_later(messages, timeout=None):
        calls.append(1)
        if len(calls) == 1:
            return send(messages, timeout=timeout)
        return [
            Message(Error(102, "No addressed user can afford this query."), reply_to=message)
            for message in messages
            if message.metadata.__dict__.setdefault("_message_id", "1")
        ]

    grid.send_and_receive = fails_later
    result = RecordDpSgd(network, **PLAN).start(grid, num_nodes=SILOS)
    assert set(result.train_metrics_clientapp) == {1}
    assert "ended early, with the model of round 1" in result.notes[0]
    assert result.epsilon == result.train_metrics_clientapp[1]["epsilon-spent"] < 4.0


def test_replies_of_anything_else_are_left_out(network):
    strategy = RecordDpSgd(network, **{**PLAN, "num_rounds": 1})
    grid = grid_of(2)
    strategy.start(grid, num_nodes=2)
    result = strategy.start(grid_of(2), num_nodes=2)
    sent = strategy.configure_train(1, result.arrays, None, grid)
    good, other = grid.send_and_receive(sent)
    other.content["arrays"] = ArrayRecord([np.zeros(3)])
    _, metrics = strategy.aggregate_train(1, [good, other])
    assert metrics["nodes"] == 1


def test_arguments_are_checked(network):
    for changes, words in (
        ({"epsilon": 0.0}, "Expected epsilon > 0"),
        ({"optimizer": "lion"}, "Expected optimizer in"),
        ({"learning_rate": 0}, "Expected learning_rate > 0"),
        ({"min_nodes": 0}, "Expected an integer min_nodes >= 1"),
        ({"steps": 0}, "Expected an integer steps >= 1"),
    ):
        with pytest.raises(ValueError, match=words):
            RecordDpSgd(network, **{**PLAN, **changes})
    with pytest.raises(ValueError, match="Expected a Network, got dict"):
        RecordDpSgd({}, **PLAN)
