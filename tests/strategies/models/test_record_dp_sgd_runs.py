"""RecordDpSgd before anybody pays, and started again: refused by a free census; one history."""

import json
import sqlite3
from collections import Counter

import numpy as np
import pytest
import torch
from flwr.app import MetricRecord

from ldp_flower import InProcessGrid, plan
from ldp_flower.clients import NetworkClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.models import Network
from ldp_flower.strategies import RecordDpSgd, TooFewReports
from ldp_flower.strategies.models.record_dp_sgd import linear_network
from ldp_flower.strategies.runtime import delivery

SILOS, RECORDS, DIM = 3, 200, 4
PLAN = {"epsilon": 4.0, "delta": 1e-5, "num_rounds": 4, "steps": 2, "sampling_rate": 1.0}


class Stopped(Exception):
    """The server has been killed."""


class Grid(InProcessGrid):
    """Silos that count what they are sent; a kill of the server after so many replies.

    Replies come one by one. With ``ledgers`` silos are deployed: under policies of their operators,
    with ledgers, and training in a process of their own.
    """

    def __init__(self, silos=SILOS, records=RECORDS, dies_after=None, ledgers=None, loads=None):
        def load(context):
            silo = int(context.node_config["partition-id"])
            rows = np.random.default_rng(silo).normal(size=(records, DIM)).astype(np.float32)
            return rows, rows[:, 0] - rows[:, 1]

        app = NetworkClientApp(loads or load, seed=None if ledgers else 1)
        super().__init__(app, silos)
        self.sent, self._left = Counter(), dies_after
        for node, context in self.contexts.items() if ledgers else ():
            path = ledgers / f"{node}.db"
            if not path.exists():
                SqliteLedger.create(path)
            context.node_config |= {
                **{"max-epsilon": 8.0, "max-delta": 1e-3, "allow-inexact": True, "unit": "record"},
                **{"num-records": records, "user-id": "clinic", "ledger-path": str(path)},
            }

    def _handle(self, message):
        self.sent[message.metadata.group_id, message.metadata.dst_node_id] += 1
        return super()._handle(message)

    def pull_messages(self, message_ids):
        if self._left is not None and self._left <= 0:
            raise Stopped
        found = super().pull_messages([i for i in message_ids if i in self._replies][:1])
        if self._left is not None:
            self._left -= len(found)
        return found

    def trainings(self):
        return sum(times for (number, _), times in self.sent.items() if number)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Network.export(torch.nn.Linear(DIM, 1), np.zeros(DIM, np.float32), "mse")


def evaluated(number, arrays):
    """Return something that every bit of the arrays moves."""
    total = sum(float(array.numpy().astype(np.float64).sum()) for array in arrays.values())
    return MetricRecord({"sum": total})


def started(network, grid, store=None, **changes):
    strategy = RecordDpSgd(network, **PLAN, **changes)
    return strategy.start(grid, num_nodes=SILOS, seed=7, store=store, evaluate_fn=evaluated)


def plain(result):
    return json.dumps(result.to_dict(), sort_keys=True)


@pytest.fixture(scope="module")
def whole(network):
    """Return what an uninterrupted run says."""
    return started(network, Grid())


def test_a_run_in_memory_and_one_with_a_store_are_the_same(network, whole, tmp_path):
    assert plain(started(network, Grid(), tmp_path / "run.db")) == plain(whole)
    assert list(whole.train_metrics_clientapp) == [1, 2, 3, 4]
    assert list(whole.evaluate_metrics_serverapp) == [0, 1, 2, 3, 4]


# Three replies a step: in the census, at its end, within rounds, between them, before the end.
@pytest.mark.parametrize("replies", [0, 2, 3, 4, 6, 8, 9, 11, 12, 14])
def test_a_run_that_is_killed_after_any_reply_ends_as_if_it_had_not_been(
    replies, network, whole, tmp_path
):
    store = tmp_path / "run.db"
    first = Grid(dies_after=replies)
    with pytest.raises(Stopped):
        started(network, first, store)
    second = Grid()
    assert plain(started(network, second, store)) == plain(whole)
    # Whose reply is in the store is not asked again.
    assert sum(second.sent.values()) == 5 * SILOS - replies


def test_killed_again_and_again(network, whole, tmp_path):
    store = tmp_path / "run.db"
    for _ in range(5 * SILOS - 1):
        with pytest.raises(Stopped):
            started(network, Grid(dies_after=1), store)
    assert plain(started(network, Grid(), store)) == plain(whole)


def test_a_run_that_is_over_says_all_of_it_again_and_asks_nobody(network, whole, tmp_path):
    store = tmp_path / "run.db"
    started(network, Grid(), store)
    grid = Grid()
    again = started(network, grid, store)
    assert not grid.sent and plain(again) == plain(whole)
    page = again.to_html()
    assert "Over all 4 rounds together" in page and "epsilon 4" in page
    assert "0 of 4" not in page and again.noise_to_signal == whole.noise_to_signal > 0
    assert list(again.table()["round"]) == [f"round {number}" for number in range(1, 5)]


def test_a_store_keeps_one_model_a_round_and_not_every_silos(network, tmp_path):
    store = tmp_path / "run.db"
    started(network, Grid(), store)
    with sqlite3.connect(store) as kept:
        sizes = kept.execute("SELECT LENGTH(content) FROM reply WHERE step > 0").fetchall()
        (answers,) = kept.execute("SELECT COUNT(*) FROM answer").fetchone()
    assert sizes == [(0,)] * (4 * SILOS) and answers == 4


def test_a_store_of_another_run_is_refused(network, tmp_path):
    store = tmp_path / "run.db"
    started(network, Grid(), store)
    with pytest.raises(ValueError, match=r"one with learning_rate = None, here 0\.2"):
        started(network, Grid(), store, learning_rate=0.2)
    other = network.with_arrays({name: array + 1 for name, array in network.arrays.items()})
    with pytest.raises(ValueError, match="one with network = "):
        started(other, Grid(), store)
    (tmp_path / "run.npz").write_bytes(b"PK\x03\x04 a store of before" * 100)
    with pytest.raises(ValueError, match="Expected a store that can be made or written"):
        started(network, Grid(), tmp_path / "run.npz")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM answer WHERE step = 1",
        "UPDATE answer SET content = x'00' WHERE step = 1",
        "UPDATE answer SET counts = '{' WHERE step = 1",
        "UPDATE answer SET counts = '{}' WHERE step = 1",
        "UPDATE fact SET value = '{' WHERE name = 'salt'",
    ],
)
def test_a_damaged_store_is_refused_by_name_and_asks_nobody(damage, finished, network, tmp_path):
    store = tmp_path / "run.db"
    store.write_bytes(finished)
    with sqlite3.connect(store) as kept:
        kept.execute(damage)
    kept.close()
    grid = Grid()
    with pytest.raises(ValueError, match=r"run\.db, which is damaged: .* Put a copy of the file"):
        started(network, grid, store)
    assert not grid.sent


@pytest.fixture(scope="module")
def finished(network, tmp_path_factory):
    """Return the store of a run that is over."""
    store = tmp_path_factory.mktemp("finished") / "run.db"
    started(network, Grid(), store)
    return store.read_bytes()


def test_pages_of_garbage_are_refused_by_name(finished, network, tmp_path):
    store = tmp_path / "run.db"
    store.write_bytes(finished[:4096] + b"U" * (len(finished) - 4096))
    with pytest.raises(
        ValueError, match=r"run\.db, which is damaged|made or written, got .*run\.db"
    ):
        started(network, Grid(), store)


class Losing(Grid):
    """Silos that are away in some rounds, or whose answers are lost."""

    away = frozenset({"3"})

    def _handle(self, message):
        reply = super()._handle(message)
        return None if message.metadata.group_id in self.away else reply


def test_a_run_that_ended_early_goes_on_when_silos_are_back(network, whole, tmp_path):
    store = tmp_path / "run.db"
    strategy = RecordDpSgd(network, **PLAN)
    about = {"num_nodes": SILOS, "seed": 7, "store": store, "evaluate_fn": evaluated}
    early = strategy.start(Losing(), timeout=0.2, **about)
    assert early.ended_early and "trained in 2 of 4 rounds" in repr(early)
    assert early.epsilon == early.train_metrics_clientapp[3]["epsilon-spent"] < 4.0
    assert plain(strategy.start(Grid(), **about)) == plain(whole)


# -------------------------------------------------------------- with operators' ledgers


@pytest.mark.slow
def test_deployed_silos_pay_once_however_often_the_server_dies(network, tmp_path, monkeypatch):
    """Through ledgers and the processes that train: no answer is given twice."""
    monkeypatch.setattr(delivery, "_AGAIN_AFTER", (0.0,))
    store, terms = tmp_path / "run.db", {**PLAN, "num_rounds": 2}
    about = {"num_nodes": 2, "store": store}
    replies = {}
    for dies_after in (3, 1, None):
        grid = Grid(2, dies_after=dies_after, ledgers=tmp_path)
        strategy = RecordDpSgd(network, **terms)
        if dies_after is None:
            result = strategy.start(grid, **about)
        else:
            with pytest.raises(Stopped):
                strategy.start(grid, **about)
        for node in (1, 2):
            with sqlite3.connect(tmp_path / f"{node}.db") as ledger:
                found = {row[0] for row in ledger.execute("SELECT digest FROM reply")}
            assert replies.get(node, set()) <= found
            replies[node] = found
    assert {node: len(found) for node, found in replies.items()} == {1: 2, 2: 2}  # rounds
    assert list(result.train_metrics_clientapp) == [1, 2] and not result.privacy.seeded
    assert result.num_reports == 4 and result.epsilon == pytest.approx(4.0, rel=1e-2)
    for node in (1, 2):
        (cost,) = SqliteLedger(tmp_path / f"{node}.db").spent().values()
        assert cost.epsilon == 4.0  # the plan, once


class Late(Grid):
    """Silos whose first answers are paid for and never come."""

    def _handle(self, message):
        reply = super()._handle(message)
        return None if message.metadata.group_id == "1" else reply


@pytest.mark.slow
def test_silos_whose_answers_never_came_hold_the_plan_and_the_error_says_so(network, tmp_path):
    grid, store = Late(1, ledgers=tmp_path), tmp_path / "run.db"
    with pytest.raises(
        TooFewReports, match=r"up to 1 users, but they may have spent budget"
    ) as refused:
        RecordDpSgd(network, **PLAN).start(grid, num_nodes=1, timeout=1.0, store=store)
    assert "is charged the whole plan: epsilon 4, delta 1e-05" in f"{refused.value}"
    (cost,) = SqliteLedger(tmp_path / "1.db").spent().values()
    assert (cost.epsilon, cost.delta) == (4.0, 1e-5)


# ------------------------------------------------------------------- before anybody pays


def never(context):
    raise AssertionError("No data are read for a run that is refused.")


@pytest.mark.parametrize(("dim", "records", "q"), [(4, 4, 1.2), (40, 4, 3.6)])
def test_a_run_that_noise_would_drown_is_refused_before_anybody_pays(dim, records, q, tmp_path):
    terms = {**PLAN, "epsilon": 2.0}
    strategy = RecordDpSgd(linear_network(dim), **terms)
    assert strategy._noise(SILOS, SILOS * records).noise_to_signal == pytest.approx(q, rel=0.1)
    grid = Grid(records=records, ledgers=tmp_path, loads=never)
    with pytest.raises(TooFewReports, match="The noise would drown the network") as refused:
        strategy.start(grid, num_nodes=SILOS, store=tmp_path / "run.db")
    # In the words of the plan, with a number of records that would do.
    assert str(refused.value) == plan(strategy, num_users=SILOS, rows_per_user=records).refusal
    enough = int(
        str(refused.value).split("Enough would be ")[1].split(" records")[0].replace(",", "")
    )
    assert not strategy._drowned(SILOS, enough) and strategy._drowned(SILOS, enough - 1)
    assert grid.trainings() == 0 and "force=True" in str(refused.value)
    for node in grid.contexts:
        assert not SqliteLedger(tmp_path / f"{node}.db").spent()


def test_the_refused_run_is_forced_to_and_says_what_to_expect():
    terms = {**PLAN, "epsilon": 2.0, "num_rounds": 1}
    grid = Grid(records=3)
    with pytest.raises(TooFewReports, match=r"got 3 silos of 3 records"):
        RecordDpSgd(linear_network(DIM), **terms).start(grid, num_nodes=SILOS)
    result = RecordDpSgd(linear_network(DIM), **terms, force=True).start(grid, num_nodes=SILOS)
    assert result.noise_to_signal > 1 and "expect a loss of accuracy" in result.notes[0]


def test_the_census_is_free_and_public(tmp_path):
    """It says what the operator has declared, and reads nothing."""
    grid = Grid(records=RECORDS, ledgers=tmp_path, loads=never)
    strategy = RecordDpSgd(linear_network(DIM), **PLAN)
    with strategy.opened(grid, num_nodes=SILOS) as run:
        assert (run.num_users, run.num_records) == (SILOS, SILOS * RECORDS)
    assert set(grid.sent) == {("", node) for node in grid.contexts}


def test_nodes_that_do_not_train_on_records_are_no_silos():
    from ldp_flower import Users
    from ldp_flower.clients import NetworkUsersApp

    users = Users.from_rows(np.zeros((3, DIM)), np.zeros(3))
    grid = InProcessGrid(NetworkUsersApp(lambda context: users, seed=1), 2)
    with pytest.raises(TooFewReports, match="No node declares how many records it trains on"):
        RecordDpSgd(linear_network(DIM), **PLAN).start(grid, num_nodes=2)


def test_what_flowers_signature_has_besides_is_refused():
    strategy = RecordDpSgd(linear_network(DIM), **PLAN)
    for given in ({"num_rounds": 3}, {"initial_arrays": strategy._arguments(None, 0, None)}):
        with pytest.raises(ValueError, match="Expected no initial_arrays, num_rounds or"):
            strategy.start(Grid(), **given)
