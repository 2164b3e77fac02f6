"""Scores of users by a network: what a node computes, sends, charges and refuses."""

import dataclasses

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from deployed_node import SALT, ask, report_in
from test_network_app import MISFITS, network

from ldp_flower import Users
from ldp_flower.clients import NetworkUsersApp, Refusal
from ldp_flower.clients.private_training.on_rows import NetworkStatistic, shifted_score
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, ErrorCode, Query, Report
from ldp_flower.models import Limits, Network
from ldp_flower.questions import NetworkGradient, NetworkScore
from ldp_flower.questions.sums import SQUARE
from ldp_flower.randomizers import BallSum, RandomizedResponse
from ldp_flower.randomizers.discrete_gaussian import SIGMA
from ldp_flower.strategies.runtime.named_study import NamedStudy

DIM, COUNT, BOUND = 4, 30, 0.7
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3 * COUNT, DIM))
LABELS = (ROWS[:, 0] + 0.5 * RNG.standard_normal(3 * COUNT) > 0).astype(float)
PEOPLE = Users(ROWS, LABELS, 3 * np.arange(COUNT + 1), np.array([f"p{i:02}" for i in range(COUNT)]))
ARRAYS = {"w": np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)}
ACCURACY = NetworkScore.of(network().with_arrays(ARRAYS), 1.0, True, True)
LOSS = NetworkScore.of(network().with_arrays(ARRAYS), BOUND, False, True)


def query(question=ACCURACY, step=1, epsilon=2.0, width=2, radius=ACCURACY.radius):
    mechanism = BallSum(epsilon, 1e-6, width, 10_000, 1, radius=radius)
    return Query(question, mechanism, SALT, 0, HASH_END, step)


def statistic():
    return NetworkStatistic(Limits(), shifted_score)


def scores(question, users=PEOPLE):
    return values_of(
        users.take, np.arange(len(users)), query(question), {NetworkScore: statistic()}
    )


def logits(rows):
    return rows.astype(np.float32) @ ARRAYS["w"] + network().arrays["b"]


def by_hand(rows, labels, accuracy):
    odds = logits(rows)
    if accuracy:
        return (odds.argmax(1) == labels).astype(float)
    odds -= np.log(np.exp(odds).sum(1, keepdims=True))
    return -odds[np.arange(len(rows)), labels.astype(int)]


@pytest.mark.parametrize("question", [ACCURACY, LOSS])
def test_a_score_is_the_mean_over_rows_with_its_square(question):
    means = by_hand(ROWS, LABELS, question.accuracy).reshape(-1, 3).mean(axis=1)
    expected = np.clip(means / question.bound, 0, 1)
    assert question.accuracy or (means > BOUND).any()
    found = scores(question)
    np.testing.assert_allclose(found[:, 0], expected - 0.5, atol=1e-6)
    np.testing.assert_allclose(found[:, 1], SQUARE * (expected**2 - 0.5), atol=1e-6)
    assert (np.linalg.norm(found, axis=1) <= question.radius).all()
    plain = dataclasses.replace(question, squares=False)
    mechanism = RandomizedResponse(1.0, plain.radius)
    asked = dataclasses.replace(query(plain), randomizer=mechanism)
    alone = values_of(PEOPLE.take, np.arange(COUNT), asked, {NetworkScore: statistic()})
    assert np.array_equal(alone, found[:, :1]) and plain.radius == 0.5


@pytest.mark.parametrize("question", [ACCURACY, LOSS])
def test_rows_that_cannot_be_scored_do_not_count(question):
    own, labels = ROWS[:3], LABELS[:3]
    usual = statistic()(own, labels, question)
    more = np.concatenate([own, own]), np.concatenate([labels, [2.0, -1.0, 0.5]])
    assert np.array_equal(statistic()(*more, question), usual)
    for rows in (np.zeros((0, DIM)), own):
        assert np.isnan(statistic()(rows, np.full(len(rows), 7.0), question)).all()
    huge = statistic()(np.full((1, DIM), 1e300), np.ones(1), LOSS)
    assert np.array_equal(huge, [0.5, SQUARE / 2])  # a loss that overflows is the bound


def test_a_users_score_has_the_same_bits_whatever_others_hold():
    alone = statistic()(ROWS[:3], LABELS[:3], LOSS)
    for rows in (0, 1, 100):
        for number in (np.nan, 1e300, 0.5):
            features = np.concatenate([np.full((rows, DIM), number), ROWS[:3]])
            users = Users(
                features, np.r_[np.zeros(rows), LABELS[:3]], np.array([0, rows, rows + 3])
            )
            assert scores(LOSS, users)[1].tobytes() == alone.tobytes()


def test_an_accuracy_of_two_classes_by_one_output():
    import torch

    net = torch.nn.Linear(DIM, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = torch.tensor([[1.0, 0, 0, 0]]), 0.0
    two = Network.export(net, np.zeros(DIM, np.float32), "binary_cross_entropy")
    right = ((ROWS[:, 0] > 0) == LABELS).reshape(-1, 3).mean(axis=1)
    found = scores(NetworkScore.of(two, 1.0, True, True))
    np.testing.assert_allclose(found[:, 0], right - 0.5, atol=1e-6)


def test_one_sum_leaves_and_every_user_pays(ledger, tmp_path):
    config = {"max-epsilon": 2.0, "max-delta": 1e-5, "noise": "node"}
    config["ledger-path"] = str(tmp_path / "ledger.db")
    app = NetworkUsersApp(lambda context: PEOPLE)
    reply = ask(app, query(), config)
    arrays = Report.from_bytes(report_in(reply)).arrays
    expected = scores(ACCURACY).sum(axis=0) / query().randomizer.unit
    assert set(arrays) == {"count", "noisy_sum"} and arrays["count"] == COUNT
    assert (np.abs(arrays["noisy_sum"] - expected) < 7 * SIGMA).all()
    assert report_in(ask(app, query(), config)) == report_in(reply)
    assert ledger.spent() == dict.fromkeys(PEOPLE.ids.tolist(), Cost(2.0, 1e-6))
    assert ask(app, query(step=2), config).error.code == Refusal.EXHAUSTED


def test_what_is_no_network_is_refused_before_data_are_loaded(ledger, tmp_path):
    config = {"max-epsilon": 2.0, "max-delta": 1e-5, "noise": "node"}
    config["ledger-path"] = str(tmp_path / "ledger.db")
    unread = NetworkUsersApp(lambda context: pytest.fail())
    cut = dataclasses.replace(ACCURACY, text=ACCURACY.text[:-1])
    for question in (cut, *(NetworkScore.of(each, 1.0, True, True) for each in MISFITS.values())):
        assert ask(unread, query(question), config).error.code == Refusal.MALFORMED
    import torch

    of_numbers = Network.export(torch.nn.Linear(DIM, 1), np.zeros(DIM, np.float32), "mse")
    app = NetworkUsersApp(lambda context: PEOPLE)
    error = ask(app, query(NetworkScore.of(of_numbers, 1.0, True, True)), config).error
    assert error.code == Refusal.MALFORMED and "for an accuracy" in error.reason
    assert ask(app, query(width=3), config).error.code == Refusal.MALFORMED
    assert not ledger.spent()


def test_operators_approve_and_analysts_sign_one_network(ledger, tmp_path):
    key, file = Ed25519PrivateKey.generate(), tmp_path / "studies.toml"
    file.write_text(
        'format = 1\n[[study]]\nid = "digits"\nquestions = ["network_score"]\n'
        'columns = ["a", "b", "c", "d", "y"]\nnoise = ["node"]\nepsilon = 2.0\ndelta = 1e-6\n'
        "steps = 3\nuntil = 2099-01-01\n"
        f'signed-by = ["{key.public_key().public_bytes_raw().hex()}"]\n'
    )
    file.chmod(0o644)
    config = {"max-epsilon": 2.0, "max-delta": 1e-5, "noise": "node", "studies": str(file)}
    config["ledger-path"] = str(tmp_path / "ledger.db")
    app = NetworkUsersApp(lambda context: dataclasses.replace(PEOPLE, columns=list("abcdy")))
    signed = NamedStudy("digits", key).naming(query())
    other = NetworkScore.of(network(), 1.0, True, True)  # of other parameters
    for bad in (query(), dataclasses.replace(signed, question=other)):
        error = ask(app, bad, config).error
        assert error.code in (ErrorCode.NOT_APPROVED, ErrorCode.NOT_SIGNED)
    assert not ledger.spent()
    assert ask(app, signed, config).has_content() and len(ledger.spent()) == COUNT
    gradient = NetworkGradient.of(network(), 0.9, 0.2)
    asked = NamedStudy("digits", key).naming(query(gradient, 2, width=9, radius=1.0))
    assert ask(app, asked, config).error.code == ErrorCode.NOT_APPROVED
