"""RecordDpSgd over silos in one process: what it trains, spends, keeps and says."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
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


@pytest.mark.slow
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


def of_patients(silo, each=4):
    """Records of patients, each of whom has several that are alike."""
    rows, targets = data_of(silo)
    alike = np.repeat(rows[::each], each, 0) + 0.1 * rows
    return alike, np.repeat(targets[::each], each), np.repeat(np.arange(RECORDS // each), each)


@pytest.mark.slow
def test_users_are_protected_with_all_their_records(network):
    app = NetworkClientApp(lambda context: of_patients(partition(context)), seed=1)
    options = {**PLAN, "num_rounds": 6, "sampling_rate": None}
    strategy = RecordDpSgd(network, **options, unit="user", force=True)
    assert (strategy.protects, strategy.plan.sampling_rate) == ("user", 1.0)
    result = strategy.start(InProcessGrid(app, SILOS), num_nodes=SILOS)
    assert result.train_metrics_clientapp[1]["users"] == SILOS * RECORDS / 4
    assert (result.unit, result.privacy.unit) == ("user", "user")
    assert "500 users in all" in " ".join(result.notes)
    page = result.to_html()
    assert "all records of one user of one silo" in page and "Each user's account" in page
    assert "trusts the node that holds its rows" in page
    assert list(result.table()["users"]) == [500] * 6
    # Four records a patient count once: with the noise for records the loss would be a quarter.
    of_records = RecordDpSgd(network, **options, force=True).start(grid_of(), num_nodes=SILOS)
    assert of_records.noise_to_signal < result.noise_to_signal


def test_without_owners_users_cannot_be_protected(network):
    strategy = RecordDpSgd(network, **{**PLAN, "sampling_rate": None}, unit="user")
    with pytest.raises(TooFewReports, match="do the records have owners"):
        strategy.start(grid_of(), num_nodes=SILOS)


def test_silos_that_fail_the_census_are_left_out_and_told(network):
    result = RecordDpSgd(network, **PLAN).start(grid_of(fails=(1, 3)), num_nodes=SILOS)
    assert result.train_metrics_clientapp[1]["nodes"] == result.num_users == 3
    assert (result.steps[0].reports, result.steps[0].errors) == (3, 2)
    assert "The client failed" in " ".join(result.steps[0].reasons)
    with pytest.raises(TooFewReports, match=r"3 silos are too few\. At least 4 silos are needed"):
        RecordDpSgd(network, **PLAN, min_nodes=4).start(grid_of(fails=(1, 3)), num_nodes=SILOS)


class ChangingGrid(InProcessGrid):
    """Silos whose replies of one round something happens to."""

    def __init__(self, change, number, silos=SILOS):
        super().__init__(
            NetworkClientApp(lambda context: data_of(partition(context)), seed=1), silos
        )
        self.change, self.number = change, str(number)

    def _handle(self, message):
        reply = super()._handle(message)
        return self.change(message, reply) if message.metadata.group_id == self.number else reply


def partition(context):
    return int(context.node_config["partition-id"])


def exhausted(message, reply):
    return Message(Error(102, "No addressed user can afford this query."), reply_to=message)


def test_a_run_ends_with_what_it_has(network):
    grid = ChangingGrid(exhausted, 2)
    models = {}
    result = RecordDpSgd(network, **PLAN).start(
        grid, num_nodes=SILOS, evaluate_fn=lambda number, arrays: models.update({number: arrays})
    )
    assert [m["nodes"] for m in result.train_metrics_clientapp.values()] == [SILOS, 0]
    assert result.ended_early and "A network trained in 1 of 3 rounds" in repr(result)
    assert "estimate is that of the steps before" in " ".join(result.notes)
    whole = "of a silo that has answered is charged the whole plan: epsilon 4, delta 1e-05."
    assert result.notes[-1].endswith(whole)
    for name, array in models[1].items():
        assert np.array_equal(array.numpy(), result.arrays[name].numpy())
    # Who was asked twice may have answered twice, whatever came of it.
    assert result.epsilon == result.train_metrics_clientapp[2]["epsilon-spent"] < 4.0
    with pytest.raises(TooFewReports, match=r"0 of 5 answered.*afford this query\.$"):
        RecordDpSgd(network, **PLAN).start(ChangingGrid(exhausted, 1), num_nodes=SILOS)


def raw(header):
    """Return an array whose bytes say something else than its fields."""
    return Array(dtype="float32", shape=(16, 6), stype="numpy.ndarray", data=header)


def npy(descr, shape, data=b""):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


FORGED = {
    "nothing": RecordDict(),
    "other arrays": RecordDict({"arrays": ArrayRecord([np.zeros(3)])}),
    **{
        name: {"0.weight": array}
        for name, array in {
            "bytes": raw(b""),
            "a huge shape": raw(npy("<f4", (10**15,))),
            "no shape": raw(npy("<f4", "((")),
            "objects": raw(npy("|O", (16, 6))),
            "doubles": Array(np.zeros((16, 6))),
            "another shape": Array(np.zeros((6, 16), np.float32)),
            "too few bytes": raw(npy("<f4", (16, 6), bytes(100))),
            "NaN": Array(np.full((16, 6), np.nan, np.float32)),
        }.items()
    },
    **{
        f"{weight} records": MetricRecord({"num-examples": weight})
        for weight in (0, -1.0, float("nan"), float("inf"), 1e300, [1.0] * 100_000)
    },
    "no records": MetricRecord({"x": 1.0}),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_replies_of_anything_else_are_left_out(forged, network, tmp_path):
    def change(message, reply):
        if message.metadata.dst_node_id != 1:
            return reply
        if isinstance(forged, RecordDict):
            return Message(forged, reply_to=message)
        changes = (
            {"metrics": forged}
            if isinstance(forged, MetricRecord)
            else {"arrays": ArrayRecord({**reply.content["arrays"], **forged})}
        )
        return Message(RecordDict({**reply.content, **changes}), reply_to=message)

    strategy = RecordDpSgd(network, **{**PLAN, "num_rounds": 1}, steps=1)
    store = tmp_path / "run.db"
    results = [
        strategy.start(grid, num_nodes=2, seed=1, **more)
        for grid, more in (
            (ChangingGrid(change, 1, 2), {"store": store}),
            (ChangingGrid(lambda message, reply: None, 1, 2), {"store": store}),  # asks nobody
        )
    ]
    for result in results:
        assert (result.steps[1].rejected, result.steps[1].reports) == (1, 1)
        assert result.train_metrics_clientapp[1]["records"] == RECORDS
    assert results[0].to_dict() == results[1].to_dict()


def test_arguments_are_checked(network):
    for changes, words in (
        ({"epsilon": 0.0}, "Expected epsilon > 0"),
        ({"optimizer": "lion"}, "Expected optimizer in"),
        ({"learning_rate": 0}, "Expected learning_rate > 0"),
        ({"min_nodes": 0}, "Expected an integer min_nodes >= 1"),
        ({"steps": 0}, "Expected an integer steps >= 1"),
        ({"noise": "node"}, "whose noise is at the node always"),
        ({"unit": "patient"}, "Expected unit in"),
        ({"records_per_user": 3}, "records_per_user"),
        ({"unit": "user", "records_per_user": 0}, "1 <= records_per_user <= 65536, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            RecordDpSgd(network, **{**PLAN, **changes})
    with pytest.raises(ValueError, match="Expected a Network, got dict"):
        RecordDpSgd({}, **PLAN)


def test_a_run_that_stops_gives_back_the_other_rounds(network):
    seen = []

    def stop(trained):
        seen.append(accuracy(trained))
        return len(seen) == 2

    grid = grid_of()
    strategy = RecordDpSgd(network, **{**PLAN, "num_rounds": 6}, stop=stop)
    result = strategy.start(grid, num_nodes=SILOS)
    expected = strategy.plan.epsilon_after(2)
    assert len(seen) == 2 and accuracy(result.network) == seen[-1]
    assert result.epsilon == expected < 3.9 and not result.ended_early
    assert result.notes[0].startswith(
        "Stopped after round 2 of 6. 5 of 5 silos have confirmed the early end: their ledgers"
    )
    assert "2 of 6 rounds" in repr(result) and len(result.table()) == 2
    assert "Over 2 of 6 rounds" in result.to_html()
    for context in grid.contexts.values():
        (spent,) = context.state.array_records["ldp-node-spent"].to_numpy_ndarrays()
        assert spent[0, 0] == pytest.approx(expected) and spent[1, 0] == 1e-5


def test_a_store_continues_a_run_that_has_stopped(network, tmp_path):
    store, options = tmp_path / "run.db", {**PLAN, "num_rounds": 4}
    start = {"num_nodes": 2, "store": store}
    first = RecordDpSgd(network, **options, stop=lambda net: True).start(grid_of(2), **start)
    again = RecordDpSgd(network, **options, stop=lambda net: True).start(grid_of(2), **start)
    assert again.to_dict() == first.to_dict() and len(first.table()) == 1
    with pytest.raises(ValueError, match="with the same parameters, got one with stop = True"):
        RecordDpSgd(network, **options).start(grid_of(2), **start)


def test_a_run_that_never_stops_spends_its_budget(network):
    result = RecordDpSgd(network, **PLAN, stop=lambda trained: False).start(grid_of(2))
    assert 3.8 < result.epsilon <= 4.0 and len(result.table()) == 3 and not result.notes
    with pytest.raises(ValueError, match="stop to be a function, got 3"):
        RecordDpSgd(network, **PLAN, stop=3)
