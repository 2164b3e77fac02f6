"""Users who train a network that comes as data: what they report, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord
from test_network_app import MISFITS, deployed, network, record_of

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import NetworkUsersApp, OneUser, Refusal
from ldp_flower.clients.private_training.on_rows import OnRows
from ldp_flower.clients.private_training.users_app import trained_on
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.training import NETWORK, LocalTraining
from ldp_flower.models import Limits, Network, interpreter
from ldp_flower.models.graph import Operation, Reference, Tensor
from ldp_flower.strategies import LdpFedAvg

USERS, ROWS = 200, 5


def people(seed=0, features=4):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(USERS * ROWS, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    names = [f"u{i:03d}" for i in np.repeat(np.arange(USERS), ROWS)]
    return Users.from_rows(rows, (rows[:, 0] > 0).astype(float), names)


def asked(**changes):
    arguments = {"text": network().graph.to_text(), "steps": 3, "learning_rate": 0.5, **changes}
    return LocalTraining(**arguments)


def test_a_users_training_is_plain_descent_on_its_rows():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(7, 4)), np.array([0, 1, 1, 0, 1, 0, 5.0])
    taught = OnRows(network(), Limits())
    found = trained_on(taught, OneUser(rows, labels, 3), asked())
    theta, bias = np.zeros((4, 2)), network().arrays["b"]
    for _ in range(3):  # the last row's class is none, and counts nothing
        odds = np.exp(rows @ theta + bias)
        errors = odds / odds.sum(1, keepdims=True) - np.eye(2)[labels.astype(int) % 2]
        errors[6] = 0
        theta -= 0.5 * rows.T @ errors / 7
    np.testing.assert_allclose(found["w"], theta, atol=1e-6)
    assert np.array_equal(found["b"], bias)
    nothing = trained_on(taught, OneUser(np.zeros((0, 4)), np.zeros(0), 3), asked())
    assert not nothing["w"].any()


def test_an_encoder_that_is_not_trained_runs_once_for_each_user(monkeypatch):
    """And changes nothing: the head is trained as if the encoder ran in every step."""
    plain = network()
    first = Operation("aten.mm.default", (Reference(None), Reference("e")), {})
    second = Operation("aten.addmm.default", (Reference("b"), Reference(0), Reference("w")), {})
    tensors = {**plain.graph.parameters, "e": Tensor("float32", (4, 4))}
    graph = replace(
        plain.graph, parameters=tensors, operations=(first, second), output=Reference(1)
    )
    turned = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]
    encoded = Network(graph, {**plain.arrays, "e": turned})
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(7, 4)), np.array([0, 1, 1, 0, 1, 0, 1.0])
    called, honest = [], interpreter.call

    def call(operation, values):
        called.append(operation.name)
        return honest(operation, values)

    monkeypatch.setattr(interpreter, "call", call)
    taught = OnRows(encoded, Limits())
    called.clear()  # of the check
    found = trained_on(taught, OneUser(rows, labels, 3), asked(text=graph.to_text()))
    assert called.count("aten.mm.default") == 1 and called.count("aten.addmm.default") == 3
    plainly = OnRows(plain, Limits())
    expected = trained_on(plainly, OneUser(rows @ turned, labels, 3), asked())
    np.testing.assert_allclose(found["w"], expected["w"], atol=1e-6)


def test_users_train_a_network_by_one_report_each():
    users = people()
    result = LdpFedAvg(epsilon=8.0, network=network()).start(
        InProcessGrid(NetworkUsersApp(lambda context: users, seed=1), 1), num_rounds=5, seed=2
    )
    assert result.num_reports == result.num_users == USERS
    arrays = {name: array.numpy() for name, array in result.arrays.items()}
    test = people(5)
    outputs = network().with_arrays(arrays).run(test.features.astype(np.float32))
    assert np.mean(outputs.argmax(1) == test.targets) > 0.85  # guessing: 0.5
    assert np.array_equal(arrays["b"], network().arrays["b"])


def test_arguments_are_checked():
    for changes, words in (
        ({"local_steps": 0}, "local_steps"),
        ({"local_learning_rate": -1.0}, "local_learning_rate > 0"),
        ({"trainable": ["w"]}, "Expected no trainable with a network"),
        ({"arrayrecord_key": NETWORK}, "Expected arrayrecord_key"),
    ):
        with pytest.raises(ValueError, match=words):
            LdpFedAvg(epsilon=1.0, network=network(), **changes)
    with pytest.raises(ValueError, match="Expected no local_steps without a network"):
        LdpFedAvg(epsilon=1.0, local_steps=3)
    with pytest.raises(ValueError, match="Expected no initial_arrays with a network"):
        LdpFedAvg(epsilon=1.0, network=network()).start(None, ArrayRecord([np.zeros(2)]))


def test_what_is_no_network_is_refused_before_data_are_loaded(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 8.0, "ledger-path": str(tmp_path / "ledger.db")}
    strategy = LdpFedAvg(epsilon=8.0, network=network())
    arguments = strategy._arguments(None, 1, None)

    def load(context):
        raise AssertionError

    app = NetworkUsersApp(load)
    for changes in ({"text": "[]"}, {"steps": -1}, {"learning_rate": "x"}, {"version": 9}):
        sent = strategy._message(1, record_of(network().arrays), arguments)
        sent[NETWORK] = type(sent[NETWORK])({**sent[NETWORK], **changes})
        assert deployed(app, sent, config).error.code == Refusal.MALFORMED
    for wrong in MISFITS.values():
        sent = strategy._message(1, record_of(wrong.arrays), arguments)
        sent[NETWORK] = type(sent[NETWORK])({**sent[NETWORK], "text": wrong.graph.to_text()})
        error = deployed(app, sent, config).error
        assert error.code == Refusal.MALFORMED and "Operation 1 " in error.reason
    sent = strategy._message(1, record_of(network().arrays), arguments)
    del sent[NETWORK]
    assert "networks that are sent as data" in deployed(app, sent, config).error.reason
    assert ledger.spent() == {}


def test_users_of_another_width_are_refused():
    users = people(features=3)
    grid = InProcessGrid(NetworkUsersApp(lambda context: users), 1)
    with pytest.raises(RuntimeError, match="The network takes rows of 4 numbers"):
        LdpFedAvg(epsilon=8.0, network=network()).start(grid, num_rounds=5)
