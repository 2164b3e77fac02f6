"""One bad cell on a node: the census answers, all users report, and the others as they would."""

import datetime
import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from deployed_node import NODE_ID, SALT, ask
from flwr.app import Message

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.clients.statistics import public_block
from ldp_flower.clients.users_node import UsersNode
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Query, Report
from ldp_flower.questions import (
    WIRE_TYPES,
    AboutFeatures,
    ClassShare,
    ClassStep,
    ColumnMeans,
    CorrelatedFeatures,
    Curvature,
    FrequentItems,
    Gradient,
    Labels,
    Mean,
    Ranking,
    RankingCurve,
    Record,
    Rotated,
    Standardised,
)
from ldp_flower.randomizers import (
    Codebook,
    HybridMechanism,
    KRandomizedResponse,
    RandomizedResponse,
    SubsetHypercube,
)
from ldp_flower.randomness import KeyedRandom

DIM, USERS, BAD = 2, 6, 2
NAMES = [f"patient-{i}" for i in range(USERS)]
CELLS = [
    "n/a",
    "",
    "7",
    "x" * 500_000,
    "\ud800",
    10**400,
    2**63,
    None,
    np.nan,
    np.inf,
    1.7e308,
    True,
    [1.0, 2.0],
    {"a": 1},
    2j,
    np.timedelta64(5, "ns"),
    datetime.datetime(2020, 1, 1),
    pd.NA,
]
SCHEMA = Schema({"age": Numeric(0, 100)}, "score", Numeric(-1, 1))


def gradient():
    question = Gradient(np.array([0.5, -0.25]), feature_bound=1.0, residual_bound=1.0)
    return Query(question, SubsetHypercube(2.0, DIM), SALT, 0, HASH_END, 1)


def items():
    question = FrequentItems(set_size=1, domain_size=512)
    return Query(question, KRandomizedResponse(2.0, 512), SALT, 0, HASH_END, 1)


def rows(cell, place):
    table = [[1.0, float(i)] for i in range(USERS)]
    if place == "row":
        table[BAD] = cell
    else:
        table[BAD][1] = cell
    return table


def in_objects(column):
    array = np.empty(len(column), object)
    for i, entry in enumerate(column):
        array[i] = entry
    return array


NUMBERS = [0.5] * USERS


def column(cell, others):
    return [cell if i == BAD else other for i, other in enumerate(others)]


LOADERS = {
    "list": lambda c: Users.from_rows(rows(c, "cell"), NUMBERS, NAMES, num_features=DIM),
    "row": lambda c: Users.from_rows(rows(c, "row"), NUMBERS, NAMES, num_features=DIM),
    "ragged": lambda c: Users.from_rows(
        column([1.0, c, 3.0], rows(0.0, "cell")), NUMBERS, NAMES, num_features=DIM
    ),
    "frame": lambda c: Users.from_rows(
        pd.DataFrame({"one": 1.0, "x": in_objects(column(c, range(USERS)))}), NUMBERS, NAMES
    ),
    "targets": lambda c: Users.from_rows(np.ones((USERS, DIM)), column(c, NUMBERS), NAMES),
    "constructor": lambda c: Users(
        rows(c, "cell"), in_objects(column(c, NUMBERS)), np.arange(USERS + 1), np.array(NAMES)
    ),
    "schema": lambda c: Users.from_rows(
        SCHEMA.features({"age": column(c, range(USERS))}),
        SCHEMA.targets({"score": column(c, NUMBERS)}),
        NAMES,
    ),
    "items": lambda c: Users.from_items(column(c, [5] * USERS), NAMES, num_bits=9),
    "texts": lambda c: Users.from_items(column(c, ["JFK"] * USERS), NAMES, num_bits=9),
}


def question_for(loader):
    return items() if loader in ("items", "texts") else gradient()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: repr(cell)[:20])
@pytest.mark.parametrize("loader", LOADERS)
def test_a_bad_cell_silences_nobody(loader, cell, tmp_path):
    SqliteLedger.create(tmp_path / "ledger.db")
    node_config = {"max-epsilon": 2.0, "ledger-path": str(tmp_path / "ledger.db")}
    app = LdpClientApp(lambda context: LOADERS[loader](cell))  # loads at every message
    census = ask(app, None, node_config)
    assert dict(census.content["census"])["users"] == USERS
    reply = ask(app, question_for(loader), node_config)
    arrays = Report.from_record_dict(reply.content).arrays
    assert arrays["slots"].tolist() == list(range(USERS)) and len(arrays["reports"]) == USERS


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: repr(cell)[:20])
@pytest.mark.parametrize("loader", LOADERS)
def test_a_bad_cell_changes_no_other_users_report(loader, cell):
    def reports(entry):
        app = LdpClientApp(lambda context: LOADERS[loader](entry), seed=3)
        message = Message(question_for(loader).to_record_dict(), 1, "query.report")
        (reply,) = InProcessGrid(app, 1).send_and_receive([message])
        return Report.from_record_dict(reply.content).arrays["reports"]

    others = np.arange(USERS) != BAD
    ordinary = "LGA" if loader == "texts" else 1
    np.testing.assert_array_equal(reports(cell)[others], reports(ordinary)[others])


def test_a_bad_category_silences_nobody():
    class Unprintable:
        def __str__(self):
            raise KeyError("secret")

    kind = Categories(["a", "b"])
    cells = [*CELLS, Unprintable(), 10**5000, "b"]
    np.testing.assert_array_equal(
        kind.standardise(cells), [*[[0, 0]] * (len(cells) - 1), [-0.5, 0.5]]
    )


# ---------------------------------------------------------- records that are not finite

MIXED = Users(
    np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, -1.0], [1.0, 1.0], [np.inf, 1.0], [0.5, 0.5]]),
    np.array([0.5, 0.25, -0.5, np.nan, 0.5, 0.25]),
    np.array([0, 3, 5, 6]),
)
CLEAN = Users(
    np.array([[1.0, 2.0], [3.0, -1.0], [np.nan, 1.0], [0.5, 0.5]]),
    np.array([0.5, -0.5, np.nan, 0.25]),
    np.array([0, 2, 3, 4]),
)


@pytest.mark.parametrize(
    ("question", "randomizer"),
    [
        (Gradient(np.ones(DIM), residual_bound=1.0), Codebook(2.0, DIM)),
        (Mean(np.zeros(DIM)), Codebook(2.0, DIM)),
        (CorrelatedFeatures(1), KRandomizedResponse(2.0, DIM)),
        (Curvature(np.ones(DIM), cap=9.0), RandomizedResponse(2.0)),
        (Record(feature_bound=4.0, target_bound=1.0), Codebook(2.0, DIM + 1)),
    ],
)
def test_a_record_that_is_not_finite_costs_its_user_that_record_alone(question, randomizer, caplog):
    asked = (np.arange(3), Query(question, randomizer, SALT, 0, HASH_END, 1))
    with caplog.at_level(logging.WARNING):
        found = values_of(MIXED.take, *asked)[[0, 2]]
    assert "Records that are not finite and are left out: 1." in caplog.text
    np.testing.assert_array_equal(found, values_of(CLEAN.take, *asked)[[0, 2]])
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "question",
    [
        ClassShare(1.0, 3),
        Ranking(np.ones(DIM), 1.0, 0.5, 3),
        RankingCurve(np.ones(DIM), 1.0, 0.5, np.array([0.5, -0.5]), 3),
        ClassStep(np.ones(DIM), 0.5, 1.0, 3),
        ClassStep(np.ones(DIM), 0.5, 1.0, 3, weighted=True),
    ],
)
def test_a_user_without_a_known_label_is_no_example_of_another_class(question, caplog):
    """It reports as one without rows; the log stays short however many classes are asked for."""
    width = question.width(DIM)
    randomizer = SubsetHypercube(2.0, width)
    x, y = np.ones((5, DIM)), np.array([1.0, np.nan, np.nan, 7.5, 0.0])
    users = Users(x, y, np.array([0, 1, 3, 4, 5, 5]))
    query = Query(question, randomizer, SALT, 0, HASH_END, 1)
    values = values_of(users.take, np.arange(5), query)
    states = np.zeros(5, np.uint64)
    reports = randomizer.randomize(values, KeyedRandom(states), states)
    for user in (1, 2):
        np.testing.assert_array_equal(reports[user], reports[4])
        assert not np.nan_to_num(values[user]).any()
    assert values[0].any() and values[3].any()
    asked = replace(query, question=replace(question, num_classes=1 << 16))
    caplog.clear()
    values_of(users.take, np.arange(5), asked)
    assert "1 of 5 rows have a label other than 0 to 65535" in caplog.text
    assert len(caplog.text) < 1000


def test_public_rows_do_not_tell_which_targets_are_finite():
    question = Labels(3, 1.0)
    query = Query(question, HybridMechanism(1.0, 3), SALT, 0, HASH_END, 1)
    x = np.arange(1.0, 9.0).reshape(4, 2)
    users = Users(x, np.array([np.nan, 0.5, -np.inf, 0.25]), np.array([0, 3, 4]))
    finite = Users(x, np.ones(4), users.offsets)
    np.testing.assert_array_equal(public_block(users, question), public_block(finite, question))
    values = values_of(users.take, np.arange(2), query)
    np.testing.assert_array_equal(values, [[0, 0.5, 0], [0.25, 0, 0]])


@pytest.mark.parametrize("users", [Users.from_rows(np.ones((4, DIM))), Users.from_items([1, 2])])
def test_what_is_asked_about_targets_that_are_none_is_refused(users):
    def reply(question):
        app = LdpClientApp(lambda context: users.partition(0, 1)[:2].finite(), seed=1)
        message = Message(question.to_record_dict(), 1, "query.report")
        (answer,) = InProcessGrid(app, 1).send_and_receive([message])
        return answer

    width = users.num_features
    mechanism = SubsetHypercube(2.0, width)
    zeros = np.zeros(width)
    about = (mechanism, SALT, 0, HASH_END, 1)
    refused = reply(Query(Gradient(zeros), *about))
    assert refused.error.code == 100
    assert refused.error.reason == "The node's users have no targets; see Users.from_rows."
    assert reply(Query(Mean(zeros), *about)).has_content()
    assert not users.take(np.arange(2), 1).has_targets


def test_which_statistics_are_about_features_alone():
    """Each of the others moves with the targets, or is asked in regressions only."""
    alone = {name for name, form in WIRE_TYPES.items() if issubclass(form.kinds[-1], AboutFeatures)}
    assert not Rotated(Mean(np.zeros(2)), np.ones(2), np.zeros(2)).needs_targets(2)
    assert Standardised(ColumnMeans(np.zeros(3)), np.zeros(3), np.ones(3)).needs_targets(2)
    assert alone == {
        *("mean", "weighted_mean", "outstanding_features", "distance_scale", "frequent_items"),
        *("drawn_items", "distance_octave", "score_octave", "squares", "shares_of_distance_octave"),
        *("projected_mean", "rotated_mean", "rotated_mean_bins", "shortened_mean"),
        *("mean_score", "standardised_mean_score", "item_shares", "mean_and_squares"),
        "score_shares",
    }


def test_a_node_shows_no_ids_and_no_rows():
    users = Users.from_rows(np.full((2, 2), 123.25), groups=["patient-a", "patient-b"])
    node = UsersNode(None, NodeKeys(NODE_ID, 0, 2), None, users.ids, 1, users)
    assert "patient" not in repr(node) and "123" not in repr(node)
