"""A client with noise at the node: what it sends, charges and refuses, and what a user moves."""

import dataclasses

import numpy as np
import pytest
from deployed_node import SALT, ask, report_in
from flwr.app import Message

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpClientApp, Refusal
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.questions import CellShares, Labels, Mean, Moments, RidgeMove, Shortened
from ldp_flower.randomizers import BallSum, CellSum
from ldp_flower.randomizers.discrete_gaussian import SIGMA

DIM, COUNT = 3, 60
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3 * COUNT, DIM))
NAMES = np.array([f"person-{i:03}" for i in range(COUNT)])
PEOPLE = Users(ROWS, ROWS[:, 0] - ROWS[:, 1], 3 * np.arange(COUNT + 1), NAMES)


def query(step=1, parts=4000, epsilon=2.0, question=None, mechanism=None):
    randomizer = mechanism or BallSum(epsilon, 1e-6, DIM, parts)
    return Query(question or Mean(np.zeros(DIM)), randomizer, SALT, 0, HASH_END, step)


@pytest.fixture
def node_config(ledger, tmp_path):
    path = str(tmp_path / "ledger.db")
    return {"max-epsilon": 3.0, "max-delta": 1e-5, "noise": "node", "ledger-path": path}


def app(users=PEOPLE):
    return LdpClientApp(lambda context: users)


def sum_in(reply):
    arrays = Report.from_bytes(report_in(reply)).arrays
    assert set(arrays) == {"count", "noisy_sum"}
    return int(arrays["count"][0]), arrays["noisy_sum"]


def test_one_sum_leaves_for_all_users(node_config):
    count, found = sum_in(ask(app(), query(), node_config))
    mechanism = query().randomizer
    means = ROWS.reshape(COUNT, 3, DIM).mean(axis=1)
    shortened = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
    assert count == COUNT and found.dtype == np.int64
    assert (np.abs(found - shortened.sum(axis=0) * mechanism.one) < 7 * SIGMA).all()


def test_a_plan_is_paid_with_its_first_report_and_ends_with_its_parts(ledger, node_config):
    for step in (1, 2):
        sum_in(ask(app(), query(step), node_config))
        assert ledger.spent() == dict.fromkeys(NAMES.tolist(), Cost(2.0, 1e-6))
    # 2,000 parts are left, whatever they are for.
    assert ask(app(), query(3), node_config).error.code == Refusal.EXHAUSTED
    cells = CellShares(np.array([0]), np.array([1.0]))
    other = query(4, question=cells, mechanism=CellSum(2.0, 1e-6, 1, 2000))
    sum_in(ask(app(), other, node_config))
    assert ask(app(), query(5, parts=1500), node_config).error.code == Refusal.EXHAUSTED
    # Another run is another plan.
    another = dataclasses.replace(query(1), salt=SALT + 1)
    assert ask(app(), another, node_config).error.code == Refusal.EXHAUSTED
    assert len(ledger.spent()) == COUNT


def test_the_same_question_gets_the_same_bytes_and_costs_nothing(ledger, node_config):
    first = report_in(ask(app(), query(), node_config))
    again = report_in(ask(app(), query(), node_config))
    assert first == again
    sum_in(ask(app(), query(2), node_config))
    sum_in(ask(app(), query(3, parts=2000), node_config))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"noise": "user"}, Refusal.FORBIDDEN),
        ({"max-delta": 1e-7}, Refusal.FORBIDDEN),
        ({"max-epsilon": 1.0}, Refusal.FORBIDDEN),
        ({"min-epsilon": 1.0}, Refusal.FORBIDDEN),
        ({"noise": "server"}, Refusal.MISCONFIGURED),
    ],
    ids=str,
)
def test_operators_decide(ledger, node_config, change, code):
    assert ask(app(), query(), node_config | change).error.code == code
    assert not ledger.spent()


def test_without_a_word_of_the_operator_it_is_refused(ledger, node_config):
    del node_config["noise"]
    assert ask(app(), query(), node_config).error.code == Refusal.FORBIDDEN
    assert not ledger.spent()


def test_public_features_do_not_come_with_a_sum(node_config):
    asked = query(question=Labels(1, 1.0), mechanism=BallSum(2.0, 1e-6, 1, 4000))
    reply = ask(app(), asked, node_config | {"features-public": True})
    assert reply.error.code == Refusal.MALFORMED


QUESTIONS = {
    "mean": (Mean(np.zeros(DIM)), BallSum(50.0, 1e-6, DIM)),
    "cells": (CellShares(np.array([0, 1]), np.array([2.0])), CellSum(50.0, 1e-6, 2)),
    "moments": (Moments(np.array([DIM]), np.zeros(0), -2.0, 2.0), BallSum(50.0, 1e-6, 3)),
    "move": (
        Shortened(RidgeMove(np.full(DIM, 0.1), np.zeros(DIM)), 0.5, 0.1),
        BallSum(50.0, 1e-6, DIM + 1),
    ),
}
VALUES = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0]


def total(users, name):
    """Return the sum with the noise of a seed, which two data sets share."""
    question, mechanism = QUESTIONS[name]
    grid = InProcessGrid(LdpClientApp(lambda context: users, seed=3), 1)
    asked = Query(question, mechanism, SALT, 0, HASH_END, 1)
    (node,) = grid.get_node_ids()
    (reply,) = grid.send_and_receive([Message(asked.to_record_dict(), node, "query.report")])
    return Report.from_record_dict(reply.content).arrays["noisy_sum"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_user_moves_the_sum_by_its_bound_and_nothing_else(name):
    """Any of its entries, and how many rows it has: the noise is that of a seed, the same."""
    mechanism = QUESTIONS[name][1]
    usual = total(PEOPLE, name)
    for value in VALUES:
        for cell in (0, DIM - 1, "target", "all", "rows"):
            features, targets = ROWS.copy(), PEOPLE.targets.copy()
            offsets = PEOPLE.offsets
            if cell == "target":
                targets[6:9] = value
            elif cell == "rows":
                keep = np.r_[0:6, 9 : 3 * COUNT]
                features, targets = features[keep], targets[keep]
                offsets = np.r_[offsets[:3], offsets[3:] - 3]
            elif cell == "all":
                features[6:9], targets[6:9] = value, value
            else:
                features[7, cell] = value
            changed = total(Users(features, targets, offsets, NAMES), name)
            moved = int(((changed - usual) ** 2).sum())
            assert moved <= mechanism.diameter**2 * mechanism.one**2 + 0.5
