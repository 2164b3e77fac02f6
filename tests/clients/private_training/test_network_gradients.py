"""Sums of users' gradients of a network: what a node sends, charges and refuses."""

import dataclasses
import pickle

import numpy as np
import pytest
from deployed_node import SALT, ask, report_in
from flwr.app import Message
from nodes_of_peers import DISHONEST, HONEST, NAMES, USERS, Hospitals, values_of
from test_network_app import MISFITS, network

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import NetworkUsersApp, Refusal
from ldp_flower.clients.private_training.on_rows import NetworkStatistic, clipped_gradient
from ldp_flower.clients.values import values_of as users_values
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.models import Limits, Network
from ldp_flower.models.graph import Graph, Operation, Reference, Tensor
from ldp_flower.questions import Mean, NetworkGradient
from ldp_flower.randomizers import BallSum
from ldp_flower.randomizers.discrete_gaussian import SIGMA

DIM, COUNT, CLIP, TOLD = 4, 30, 0.9, 0.2
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3 * COUNT, DIM))
LABELS = (ROWS[:, 0] > 0).astype(float)
PEOPLE = Users(ROWS, LABELS, 3 * np.arange(COUNT + 1), np.array([f"p{i:02}" for i in range(COUNT)]))


def started():
    """Return the network with other parameters than zeros."""
    return network().with_arrays({"w": np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)})


QUESTION = NetworkGradient.of(started(), CLIP, TOLD)


def query(step=1, question=QUESTION, epsilon=2.0, parts=4000, honest=1, width=9):
    mechanism = BallSum(epsilon, 1e-6, width, parts, honest, radius=float(np.hypot(CLIP, TOLD)))
    return Query(question, mechanism, SALT, 0, HASH_END, step)


@pytest.fixture
def node_config(ledger, tmp_path):
    path = str(tmp_path / "ledger.db")
    return {"max-epsilon": 3.0, "max-delta": 1e-5, "noise": "node", "ledger-path": path}


def app(users=PEOPLE, **arguments):
    return NetworkUsersApp(lambda context: users, **arguments)


def gradients(rows, labels):
    """Return the mean gradient of softmax regression over some rows, by its formula."""
    w, b = started().arrays["w"], started().arrays["b"]
    odds = np.exp(rows @ w + b)
    errors = odds / odds.sum(1, keepdims=True) - np.eye(2)[labels.astype(int)]
    return (rows[:, :, None] * errors[:, None]).mean(0).ravel()


def answers(rows=ROWS, labels=LABELS):
    means = [gradients(rows[i : i + 3], labels[i : i + 3]) for i in range(0, len(rows), 3)]
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    told = np.where(lengths > CLIP, -TOLD, TOLD)
    return np.hstack([means * np.minimum(1, CLIP / lengths), told])


def test_a_value_is_the_clipped_mean_gradient_and_whether_it_was_clipped():
    expected = answers()
    assert 0 < (expected[:, -1] < 0).mean() < 1
    known = {NetworkGradient: pickle.loads(pickle.dumps(statistic()))}  # simulations send apps
    found = users_values(PEOPLE.take, np.arange(COUNT), query(), known)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def statistic(limits=None):
    return NetworkStatistic(limits or Limits(), clipped_gradient)


def test_a_user_without_rows_or_with_impossible_ones_has_no_gradient():
    nothing = statistic()(np.zeros((0, DIM)), np.zeros(0), QUESTION)
    assert not nothing[:-1].any() and nothing[-1] == TOLD
    huge = statistic()(np.full((1, DIM), 1e300), np.zeros(1), QUESTION)
    assert huge.tolist() == nothing.tolist()


def test_a_users_value_has_the_same_bits_whatever_others_hold():
    own, labels = ROWS[:3], LABELS[:3]
    alone = statistic()(own, labels, QUESTION)
    for rows in (0, 1, 3, 1000):
        for number in (np.nan, 1e300, 0.5):
            features = np.concatenate([np.full((rows, DIM), number), own, np.ones((1, DIM))])
            offsets = np.array([0, rows, rows + 3, rows + 4])
            users = Users(features, np.r_[np.zeros(rows), labels, 1.0], offsets)
            known = {NetworkGradient: statistic()}
            found = users_values(users.take, np.arange(3), query(), known)
            assert found[1].tobytes() == alone.tobytes()


def test_one_sum_leaves_for_all_users_who_pay_the_plan_once(ledger, node_config):
    reply = ask(app(), query(), node_config)
    arrays = Report.from_bytes(report_in(reply)).arrays
    mechanism = query().randomizer
    expected = answers().sum(axis=0) / mechanism.unit
    assert set(arrays) == {"count", "noisy_sum"} and arrays["count"] == COUNT
    assert (np.abs(arrays["noisy_sum"] - expected) < 7 * SIGMA).all()
    assert report_in(ask(app(), query(), node_config)) == report_in(reply)
    ask(app(), query(2), node_config)
    assert ledger.spent() == dict.fromkeys(PEOPLE.ids.tolist(), Cost(2.0, 1e-6))
    assert ask(app(), query(3), node_config).error.code == Refusal.EXHAUSTED


def deep():
    """Return a network of three operations."""
    first = network()
    more = (Operation("aten.relu.default", (Reference(i),), {}) for i in range(2))
    operations = (*first.graph.operations, *more)
    graph = dataclasses.replace(first.graph, operations=operations, output=Reference(2))
    return Network(graph, first.arrays)


def narrow():
    graph = Graph(
        Tensor("float32", (3,)),
        {"w": Tensor("float32", (3, 2), True)},
        (Operation("aten.mm.default", (Reference(None), Reference("w")), {}),),
        Reference(0),
        "cross_entropy",
    )
    return Network(graph, {"w": np.zeros((3, 2), np.float32)})


def test_what_is_no_network_or_another_question_is_refused_unpaid(ledger, node_config):
    small = app(limits=Limits(operations=2))
    text, parameters = QUESTION.text, QUESTION.parameters
    forged = [
        *(NetworkGradient.of(wrong, CLIP, TOLD) for wrong in (*MISFITS.values(), deep())),
        NetworkGradient(text[:-1], parameters, CLIP, TOLD),
        NetworkGradient(np.full(9, 255, np.uint8), parameters, CLIP, TOLD),
        NetworkGradient(text.astype(np.int64), parameters, CLIP, TOLD),
        NetworkGradient(text, parameters[:-1], CLIP, TOLD),
        NetworkGradient(text, np.full_like(parameters, 1e300), CLIP, TOLD),
        NetworkGradient(text, parameters.astype(np.float32), CLIP, TOLD),
        Mean(np.zeros(DIM)),
    ]
    for question in forged:
        unread = NetworkUsersApp(lambda context: pytest.fail(), limits=Limits(operations=2))
        assert ask(unread, query(question=question), node_config).error.code == Refusal.MALFORMED
    narrower = query(question=NetworkGradient.of(narrow(), CLIP, TOLD), width=7)
    error = ask(small, narrower, node_config).error
    assert error.code == Refusal.MALFORMED and "rows of 3 numbers" in error.reason
    assert ask(small, query(width=8), node_config).error.code == Refusal.MALFORMED
    assert ask(small, query(), node_config | {"noise": "user"}).error.code == Refusal.FORBIDDEN
    assert ask(small, query(honest=4), node_config).error.code == Refusal.MALFORMED  # no set
    assert not ledger.spent()


def noisy_sum(users):
    """Return the sum with the noise of a seed, which two data sets share."""
    grid = InProcessGrid(app(users, seed=3), 1)
    (node,) = grid.get_node_ids()
    asked = query(epsilon=50.0, parts=10_000)
    (reply,) = grid.send_and_receive([Message(asked.to_record_dict(), node, "query.report")])
    return Report.from_record_dict(reply.content).arrays["noisy_sum"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 1e30, 5e-324, 0.0])
def test_one_user_moves_the_sum_by_its_bound_and_nothing_else(value):
    mechanism = query(epsilon=50.0, parts=10_000).randomizer
    usual = noisy_sum(PEOPLE)
    for cells in (np.s_[6:9], np.s_[7, 1]):
        features = ROWS.copy()
        features[cells] = value
        changed = noisy_sum(dataclasses.replace(PEOPLE, features=features))
        moved = int(((changed - usual) ** 2).sum())
        assert moved <= mechanism.diameter**2 * mechanism.one**2 + 0.5
    labels = LABELS.copy()
    labels[6:9] = value
    moved = int(((noisy_sum(dataclasses.replace(PEOPLE, targets=labels)) - usual) ** 2).sum())
    assert moved <= mechanism.diameter**2 * mechanism.one**2 + 0.5


class Trainers(Hospitals):
    """Hospitals whose nodes train networks, on rows of the class 0."""

    app = NetworkUsersApp


def test_shared_sums_of_gradients_cancel_their_masks(tmp_path):
    hospitals = Trainers(tmp_path, dim=DIM)
    asked = query(honest=HONEST, epsilon=1.0, parts=1000)
    found = hospitals.run(asked)
    rows = np.concatenate([values_of(name, DIM) for name in NAMES])
    means = np.array([gradients(row[None], np.zeros(1)) for row in rows])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    expected = (means * np.minimum(1, CLIP / lengths)).sum(axis=0) / asked.randomizer.unit
    assert (np.abs(found[:-1] - expected) < 7 * SIGMA * np.sqrt(len(NAMES))).all()
    for name in NAMES:
        assert set(hospitals.ledger(name).spent().values()) == {
            Cost(1.0, 1e-6, alone=asked.randomizer.alone)
        }
    cut = dataclasses.replace(QUESTION, text=QUESTION.text[:-1])
    assert hospitals.commit(NAMES[0], query(2, cut, honest=HONEST)) == Refusal.MALFORMED
    assert len(NAMES) >= HONEST + DISHONEST and USERS
