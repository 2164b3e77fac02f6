"""Training that protects users with several records: draws, bounds, isolation, and who pays."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import Message
from test_network_app import LABELS, PLAN, ROWS, ChildOfThisProcess, content, deployed, network
from test_network_app import simulated as answered

from ldp_flower import InProcessGrid
from ldp_flower.clients import NetworkClientApp, Refusal
from ldp_flower.clients.private_training import network_app, steps
from ldp_flower.clients.private_training.child import ChildLimits
from ldp_flower.clients.private_training.network_gradients import tensors_of
from ldp_flower.clients.private_training.network_round import Round
from ldp_flower.clients.private_training.records import Form, Loaded, records_of_users
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.training import census
from ldp_flower.models import Limits, Network
from ldp_flower.models.graph import Graph, Operation, Reference, Tensor
from ldp_flower.randomness import SystemRandom
from ldp_flower.supernode.bookkeeping import charges

OF_USERS = replace(PLAN, records_per_user=4)
#: Patients of one to eight records, in any order.
SIZES = [1, 2, 3, 4, 5, 3, 1, 2, 1, 8] * 2
OWNERS = np.random.default_rng(1).permutation(np.repeat(np.arange(20), SIZES))
ENOUGH = 1500  # mebibytes of address space: a small round is trained in 1,200
NAMES = [f"patient {owner}" for owner in OWNERS]
COUNT = len(np.unique(OWNERS))


def app_of(records=ROWS, targets=LABELS, owners=NAMES, **arguments):
    return NetworkClientApp(lambda context: (records, targets, owners), **arguments)


def weights(reply):
    return reply.content["arrays"]["w"].numpy()


@pytest.fixture
def patients(node_config):
    """Return the configuration of a clinic whose patients trust it."""
    of_records = {"unit", "num-records"}
    kept = {key: value for key, value in node_config.items() if key not in of_records}
    return {**kept, "noise": "node"}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(network_app, "Child", ChildOfThisProcess)


@pytest.fixture
def silent(monkeypatch):
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: sums)


@pytest.mark.usefixtures("silent")
def test_steps_are_those_of_the_formula():
    """A patient's gradient is the mean of those of all its records, clipped once."""
    plan = replace(OF_USERS, sampling_rate=1.0, steps=4, max_grad_norm=0.8, records_per_user=8)
    found = weights(answered(app_of(), content(plan=plan)))
    theta, bias = np.zeros((4, 2)), network().arrays["b"]
    for _ in range(4):
        odds = np.exp(ROWS @ theta + bias)
        errors = odds / odds.sum(1, keepdims=True) - np.eye(2)[LABELS]
        each = ROWS[:, :, None] * errors[:, None]
        means = np.array([each[owner == OWNERS].mean(0) for owner in np.unique(OWNERS)])
        lengths = np.linalg.norm(means, axis=(1, 2), keepdims=True)
        assert 0 < (lengths > 0.8).mean() < 1
        theta -= 0.5 * (means * np.minimum(1.0, 0.8 / lengths)).sum(0) / COUNT
    np.testing.assert_allclose(found, theta, atol=1e-6)


class Uniforms:
    """A source that gives all users the same number."""

    def __init__(self, value):
        self.value = value

    def uniforms(self, shape):
        return np.full(shape, self.value)


@pytest.mark.parametrize("most", [1, 3, 8])
def test_each_record_of_a_user_is_equally_likely(most):
    """The first record is drawn by one number: 840 of them, 840 being a multiple of 1 to 8."""
    drawn = np.zeros(len(OWNERS))
    for step in range(840):
        counts = np.bincount(OWNERS, minlength=20)
        places = records_of_users(OWNERS, counts, most, Uniforms((step + 0.5) / 840))
        assert ((places >= 0).sum(1) == np.minimum(counts, most)).all()
        held = places >= 0
        owners = np.broadcast_to(np.arange(20)[:, None], places.shape)
        assert (OWNERS[places[held]] == owners[held]).all()
        assert len(np.unique(places[held])) == held.sum()
        drawn[places[held]] += 1
    sizes = np.bincount(OWNERS)[OWNERS]
    np.testing.assert_array_equal(drawn, 840 * np.minimum(most / sizes, 1))


def test_users_without_records_have_no_places():
    nobody = records_of_users(np.zeros(0, np.intp), np.zeros(3, np.intp), 2, SystemRandom())
    assert nobody.tolist() == [[-1, -1]] * 3


ODD = {
    "one record": lambda rows, goals: (rows[:1], goals[:1]),
    "many": lambda rows, goals: (np.repeat(rows, 40, 0), np.repeat(goals, 40)),
    "others": lambda rows, goals: (-30 * rows, 1 - goals),
    "not a number": lambda rows, goals: (np.full_like(rows, math.nan), goals),
    "infinite": lambda rows, goals: (np.full_like(rows, math.inf), goals),
    "huge": lambda rows, goals: (np.full_like(rows, 3e38), goals),
    "one of them huge": lambda rows, goals: (np.r_[rows[:1], rows[1:] * 1e38], goals),
    "no class": lambda rows, goals: (rows, np.full_like(goals, -1)),
    "far class": lambda rows, goals: (rows, np.full_like(goals, 1 << 40)),
}


def with_odd(odd, place=9):
    """Return the records with others of one patient, who comes last: others move places."""
    own = place == OWNERS
    rows, goals = odd(ROWS[own], LABELS[own])
    owners = np.r_[OWNERS[~own], np.full(len(rows), place)]
    return np.r_[ROWS[~own], rows], np.r_[LABELS[~own], goals], owners


def drawn(loaded, most=1000, slots=range(20)):
    """Return the data of one round."""
    form = Form.of(network(), Limits())
    return Loaded.of(*loaded).of_users(form, np.array(slots), most, 4, Uniforms(0.4))[0]


@pytest.mark.parametrize("odd", ODD)
def test_no_bit_of_another_users_gradient_depends_on_a_user(odd):
    """Whatever the records of one are, and however many."""
    task = Round(network(), replace(OF_USERS, sampling_rate=1.0), "sgd", 0.5, 20, Limits())
    kept = tensors_of(task.network, True)
    before, after = (
        task._gradients(drawn(data)).of(kept, np.arange(20))
        for data in (with_odd(lambda *same: same), with_odd(ODD[odd]))
    )
    others = [user for user in range(20) if user != 9]
    assert torch.equal(before[1], after[1])  # who has records
    moved = 0
    for name in before[0]:
        bits = [each[0][name].view(torch.int32) for each in (before, after)]
        assert torch.equal(bits[0][others], bits[1][others])
        moved += not torch.equal(bits[0][9], bits[1][9])
    assert moved


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("odd", ODD)
def test_a_user_moves_a_sum_by_its_bound_at_most(odd):
    plan = replace(OF_USERS, sampling_rate=0.7, steps=1, num_rounds=1, max_grad_norm=0.3)
    data = with_odd(lambda *same: same), with_odd(ODD[odd])
    found = [weights(answered(app_of(*each, seed=1), content(plan=plan))) for each in data]
    moved = np.linalg.norm(found[1] - found[0]) / 0.5 * 0.7 * COUNT
    assert found[1].any() and moved <= 2 * 0.3 * (1 + 1e-5)


@pytest.mark.parametrize("odd", ODD)
def test_the_size_of_a_rounds_data_is_public(odd):
    """No memory that a process needs for it depends on how many records a user has."""
    data = [drawn(with_odd(lambda *same: same)), drawn(with_odd(ODD[odd]))]
    for each in data:
        assert each.records.shape == (80, 4) and each.targets.shape == (80,)
        assert each.held.shape == (20, 4)
        assert not each.records[~each.held.ravel()].any()
    others = np.arange(20) != 9
    assert np.array_equal(data[0].held[others], data[1].held[others])
    rows = [each.records.reshape(20, 4, 4)[others] for each in data]
    assert rows[0].tobytes() == rows[1].tobytes()


@pytest.fixture
def one_thread(monkeypatch):
    """Every thread takes address space, so that more cores would need a higher limit."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")


def wide_network(numbers=4096):
    product = Operation("aten.mm.default", (Reference(None), Reference("w")), {})
    weight = Tensor("float32", (numbers, 1), True)
    graph = Graph(Tensor("float32", (numbers,)), {"w": weight}, (product,), Reference(0), "mse")
    return Network(graph, {"w": np.zeros((numbers, 1), np.float32)})


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_one_users_records_do_not_fill_the_memory_of_a_process(ledger, patients, caplog):
    """Twenty users, of whom one has 20,000 records: 330 MB, and the places of all have 1 MB."""
    rows = np.ones((20_019, 4096), np.float32)
    owners = np.r_[np.arange(20), np.zeros(19_999, np.int64)]
    app = app_of(rows, np.ones(20_019), owners, child_limits=ChildLimits(memory=ENOUGH))
    reply = deployed(app, content(plan=OF_USERS, net=wide_network()), patients)
    assert not reply.has_error(), reply.error
    assert weights(reply).any() and "without data" not in caplog.text


@pytest.mark.usefixtures("one_thread")
def test_a_round_whose_data_would_not_fit_is_refused_unpaid(ledger, patients):
    """The places of twenty users take 21 GB."""
    plan = replace(OF_USERS, records_per_user=1 << 16)
    rows, targets = np.ones((60, 4096), np.float32), np.ones(60)
    app = app_of(rows, targets, child_limits=ChildLimits(memory=ENOUGH))
    reply = deployed(app, content(plan=plan, net=wide_network()), patients)
    assert reply.error.code == Refusal.MALFORMED and "memory limit" in reply.error.reason
    assert ledger.spent() == {}


def test_the_operators_limit_of_rows_holds():
    data = drawn(with_odd(lambda *same: same), most=2)
    assert (data.held.sum(1) == np.minimum(np.bincount(OWNERS), 2)).all()
    first = np.flatnonzero(np.r_[OWNERS[OWNERS != 9], np.full((OWNERS == 9).sum(), 9)] == 19)[:2]
    rows = with_odd(lambda *same: same)[0]
    np.testing.assert_array_equal(
        np.sort(data.records[4 * 19 : 4 * 19 + 2], axis=0), np.sort(rows[first], axis=0)
    )


@pytest.mark.slow
def test_one_ledger_is_for_one_of_both_units(ledger, patients, node_config):
    """Otherwise a record would lose what the silo pays, and what its user pays."""
    both = deployed(app_of(), content(plan=OF_USERS), node_config | {"noise": "node"})
    assert both.error.code == Refusal.MISCONFIGURED
    assert deployed(app_of(), content(plan=OF_USERS), patients).has_content()
    later = deployed(app_of(), content(), node_config)
    assert later.error.code == Refusal.MISCONFIGURED
    assert len(ledger.spent()) == COUNT


@pytest.mark.usefixtures("quick")
def test_every_user_pays_the_plan_once(ledger, patients):
    first = deployed(app_of(), content(plan=OF_USERS), patients)
    assert dict(first.content["metrics"]) == {"num-examples": COUNT} and weights(first).any()
    everybody = dict.fromkeys(NAMES, Cost(2.0, 1e-5))
    assert ledger.spent() == everybody
    again = deployed(app_of(), content(plan=OF_USERS), patients)
    assert again.content["arrays"]["w"].data == first.content["arrays"]["w"].data
    assert deployed(app_of(), content(2, plan=OF_USERS), patients).has_content()
    assert ledger.spent() == everybody
    other = content(plan=OF_USERS, salt=6)
    assert deployed(app_of(), other, patients).error.code == Refusal.EXHAUSTED
    assert {row[4] for row in charges(ledger)} == {"UserDpSgd"}


@pytest.mark.usefixtures("quick", "silent")
def test_who_cannot_pay_is_left_out(ledger, patients):
    """The number that sums are divided by stays."""
    one = OWNERS == 3
    alone = app_of(ROWS[one], LABELS[one], np.array(NAMES)[one])
    assert deployed(alone, content(plan=OF_USERS, salt=1), patients).has_content()
    plan = replace(OF_USERS, sampling_rate=1.0, records_per_user=8)
    found = weights(deployed(app_of(), content(plan=plan), patients))
    nothing = np.where(one[:, None], np.float32(math.nan), ROWS)
    wanted = weights(answered(app_of(nothing), content(plan=plan)))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "plan", "code"),
    [
        ({"noise": "user"}, OF_USERS, Refusal.FORBIDDEN),
        ({"allow-inexact": False}, OF_USERS, Refusal.FORBIDDEN),
        ({"max-epsilon": 1.9}, OF_USERS, Refusal.FORBIDDEN),
        ({"max-delta": 1e-6}, OF_USERS, Refusal.FORBIDDEN),
        ({}, PLAN, Refusal.FORBIDDEN),  # whose unit is a record
        ({"ledger-path": None}, OF_USERS, Refusal.MISCONFIGURED),
    ],
    ids=str,
)
def test_the_operator_decides(ledger, patients, wrong, plan, code):
    config = {key: value for key, value in (patients | wrong).items() if value is not None}
    loaded = []
    app = NetworkClientApp(lambda context: loaded.append(1))
    assert deployed(app, content(plan=plan), config).error.code == code
    assert not loaded and ledger.spent() == {}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("owners", "code"),
    [
        (None, Refusal.MISCONFIGURED),
        (NAMES[1:], Refusal.FAILED),
        (np.arange(60) + 0.5, Refusal.FAILED),
        ([None, *NAMES[1:]], Refusal.FAILED),
        (np.array([NAMES]).T, Refusal.FAILED),
        (["", *NAMES[1:]], Refusal.FAILED),  # somebody whose name is missing
        ([f"{NAMES[0]} ", *NAMES[1:]], Refusal.FAILED),  # two accounts of one person
        (["e\u0301", "\u00e9", *NAMES[2:]], Refusal.FAILED),
        ([1, "1", *NAMES[2:]], Refusal.FAILED),
    ],
    ids=["none", "too few", "floats", "missing", "shape", "empty", "space", "accents", "mixed"],
)
def test_owners_that_name_nobody_are_refused(ledger, patients, owners, code):
    reply = deployed(app_of(owners=owners), content(plan=OF_USERS), patients)
    assert reply.error.code == code and "patient" not in reply.error.reason
    assert ledger.spent() == {}


@pytest.mark.usefixtures("quick")
def test_a_rehearsal_draws_nobody_and_spends_nothing(ledger, patients):
    found = [
        deployed(app_of(rows), content(plan=OF_USERS), patients | {"rehearsal": True})
        for rows in (ROWS, ROWS * 1e30)
    ]
    assert all(weights(each).any() for each in found) and ledger.spent() == {}


@pytest.mark.slow
def test_a_child_trains_users(ledger, patients):
    """In the process of a deployment, too."""
    reply = deployed(app_of(), content(plan=OF_USERS), patients)
    assert weights(reply).any() and len(SqliteLedger(patients["ledger-path"]).spent()) == COUNT


def test_the_census_counts_records_and_users():
    grid = InProcessGrid(app_of(), 1)
    (node,) = grid.get_node_ids()
    (reply,) = grid.send_and_receive([Message(census(), node, "train")])
    facts = reply.content["census"]
    assert (facts["records"], facts["owners"], facts["users"]) == (60, COUNT, 1)


@pytest.mark.usefixtures("quick")
def test_each_user_gets_back_the_rest_of_an_ended_plan(ledger, patients):
    plan = replace(OF_USERS, num_rounds=4, stoppable=True)
    assert deployed(app_of(), content(1, plan), patients).has_content()
    del (end := content(0, plan))["arrays"]
    assert deployed(app_of(), end, patients).has_content()
    spent = ledger.spent()
    assert len(spent) == COUNT and len(set(spent.values())) == 1
    assert spent["patient 1"].epsilon == pytest.approx(plan.epsilon_after(1))
    assert deployed(app_of(), content(2, plan), patients).error.code == Refusal.EXHAUSTED
