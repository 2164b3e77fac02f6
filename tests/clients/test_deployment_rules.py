"""Outside a simulation a client insists on its operator's policy and ledger."""

import dataclasses
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from deployed_node import NODE_ID, SALT, ask, query, report_in, users

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema
from ldp_flower.audit import recorded_queries
from ldp_flower.clients import LdpClientApp, Refusal
from ldp_flower.clients.users_node import of_columns
from ldp_flower.guarantee.budget import Cost, in_simulation
from ldp_flower.guarantee.messages import NodeKeys, Report
from ldp_flower.questions import Mean
from ldp_flower.strategies import Counts, Means
from ldp_flower.supernode.bookkeeping import charges, forget_replies

PATIENTS = users(8)
NAMELESS = dataclasses.replace(PATIENTS, ids=None)


class Unchecked:
    """Users of another class, two of them under one name."""

    ids = np.array(["patient-0000"] * len(PATIENTS))
    first, has_targets, num_features = None, True, PATIENTS.num_features
    take, partition = PATIENTS.take, PATIENTS.partition

    def __len__(self):
        return len(PATIENTS)


def load_patients(context):
    return PATIENTS


@pytest.fixture
def node_config(ledger, tmp_path):
    """Return an operator's choice: one report of epsilon 1 about each user, for life."""
    return {"max-epsilon": 1.0, "ledger-path": str(tmp_path / "ledger.db")}


def assert_refused(reply, code, *secrets):
    """Check an error reply; its text travels to the server and must say nothing about data."""
    assert reply.has_error()
    assert reply.error.code == code
    for secret in ("patient", *secrets):
        assert secret not in reply.error.reason


def test_these_tests_run_outside_a_simulation():
    assert not in_simulation()


def test_the_ledger_names_the_columns_that_are_asked_about(node_config, ledger):
    kinds = {"age": Numeric(0, 90), "job": Categories(["a", "b", "c"])}
    schema = Schema(kinds, "wage", Numeric(0, 9))
    table = {"age": [20.0] * 800, "job": ["a", "c"] * 400, "wage": [1.0] * 800}
    people = schema.users(table, groups=np.arange(800))
    app = LdpClientApp(lambda context: people)
    asked = [
        *recorded_queries(Counts(schema, "job", epsilon=0.5), people),
        *recorded_queries(Means(schema, ["wage"], epsilon=0.5), people),
    ]
    for each in asked:
        assert not ask(app, each, node_config).has_error()
    assert {row[3] for row in charges(ledger)} == {"table_cell of job", "table_cell of wage"}


def test_few_columns_are_named_and_none_where_a_question_is_about_all():
    names = [f"x{i}\n" for i in range(11)]
    told = of_columns(Mean(np.zeros(12), np.arange(12)), names)
    assert told == f" of {', '.join(f'x{i}?' for i in range(8))}, 4 more"
    assert of_columns(Mean(np.zeros(12), np.array([11])), names) == " of the target"
    assert of_columns(Mean(np.zeros(12)), names) == of_columns(Mean(np.zeros(1)), None) == ""


# ------------------------------------------------------------ what must be there, or else


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
@pytest.mark.parametrize(
    "changed",
    [
        {"max-epsilon": None},
        {"max-epsilon": -1.0},
        {"max-epsilon": float("nan")},
        {"max-epsilon": "1.0"},
        {"max-rows": 0},
        {"min-epsilon": -1.0},
        {"min-epsilon": True},
        {"max-width": 0},
        {"max-width": 2.5},
        {"reply-after": -0.5},
        {"rehearsal": 1},
        {"Rehearsal": True},
        {"max_rows": 1},
        {"ledger-path": None},
        {"ledger-path": 1},
        # What a simulation's node config looks like makes no simulation.
        {"max-epsilon": None, "ledger-path": None, "partition-id": 0, "num-partitions": 1},
    ],
    ids=str,
)
def test_without_a_valid_policy_and_ledger_nothing_is_answered(
    ledger, node_config, changed, question
):
    broken = {k: v for k, v in (node_config | changed).items() if v is not None}
    # Neither the app's author nor whoever submits the run can stand in for the operator.
    app = LdpClientApp(load_patients, PrivacyPolicy(1.0))
    reply = ask(app, question, broken, run_config=node_config)
    assert_refused(reply, Refusal.MISCONFIGURED)
    assert ledger.spent() == {}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max-epsilon": "2.0"}, "Expected max-epsilon to be a number, got '2.0'."),
        ({"max-epsilon": 0}, "Expected max-epsilon > 0, got 0."),
        ({"reply-after": "1"}, "Expected reply-after to be a number, got '1'."),
        ({"unit": "records"}, "Expected unit in ['user', 'record'], got 'records'."),
        ({"rehearsal": "true"}, "Expected rehearsal true or false, got 'true'."),
        ({"max_rows": 5}, "Expected the key 'max-rows', got 'max_rows'."),
    ],
    ids=str,
)
def test_the_operators_log_says_what_is_wrong_with_the_policy(node_config, changed, told, caplog):
    reply = ask(LdpClientApp(load_patients), query(1), node_config | changed)
    assert reply.error.reason == "The operator's policy is not valid."
    assert f"The operator's policy is not valid. {told}" in caplog.text


def test_the_operators_log_warns_once_of_a_misspelt_key(node_config, caplog):
    misspelt = node_config | {"reherasal": True, "data-path": "patients.csv"}
    app = LdpClientApp(load_patients)
    for question in (query(1), None):
        assert ask(app, question, misspelt).has_content()
    assert caplog.text.count("'reherasal'") == caplog.text.count("do you mean 'rehearsal'?") == 1
    assert "data-path" not in caplog.text


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
def test_a_missing_ledger_is_not_made_up(tmp_path, question):
    missing = tmp_path / "never-created.db"
    node_config = {"max-epsilon": 1.0, "ledger-path": str(missing)}
    reply = ask(LdpClientApp(load_patients), question, node_config)
    assert_refused(reply, Refusal.MISCONFIGURED, str(tmp_path))
    assert not missing.exists()


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
@pytest.mark.parametrize(
    "app",
    [
        LdpClientApp(load_patients, seed=0),
        LdpClientApp(lambda context: NAMELESS),
        LdpClientApp(lambda context: Unchecked()),
    ],
    ids=["seeded client", "users without ids", "users of another class"],
)
def test_an_app_made_for_simulations_is_refused(ledger, node_config, app, question):
    assert_refused(ask(app, question, node_config), Refusal.MISCONFIGURED)
    assert ledger.spent() == {}


def test_a_failure_to_load_the_data_says_nothing_about_the_data(ledger, node_config):
    def load_damaged(context):
        raise ValueError("patient-0003 has blood pressure 181")

    reply = ask(LdpClientApp(load_damaged), query(1), node_config)
    assert_refused(reply, Refusal.FAILED, "181")
    assert ledger.spent() == {}


# --------------------------------------------------------------------------- the happy path


def test_what_cannot_be_paid_is_not_sent(ledger, node_config, tmp_path):
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        # SQLite fails in the middle of the payment, as on a full disk.
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON charge "
            "BEGIN SELECT RAISE(ROLLBACK, 'disk of patient 17 is full'); END"
        )
    reply = ask(LdpClientApp(load_patients), query(1), node_config)
    assert_refused(reply, Refusal.MISCONFIGURED, "full", "17", str(tmp_path))
    assert ledger.spent() == {}
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("DROP TRIGGER full")
    assert not ask(LdpClientApp(load_patients), query(1), node_config).has_error()
    assert set(ledger.spent().values()) == {Cost(1.0)}


def test_an_answer_is_paid_for_by_everyone_who_gave_it(ledger, node_config):
    census = ask(LdpClientApp(load_patients), None, node_config)
    assert census.content["census"]["users"] == len(PATIENTS)
    assert ledger.spent() == {}  # being counted is free
    assert isinstance(report_in(ask(LdpClientApp(load_patients), query(1), node_config)), bytes)
    assert ledger.spent() == {name: Cost(1.0) for name in PATIENTS.ids}


def test_a_second_different_question_is_refused(ledger, node_config):
    app = LdpClientApp(load_patients)
    ask(app, query(1), node_config)
    assert_refused(ask(app, query(2), node_config), Refusal.EXHAUSTED)
    assert ledger.spent() == {name: Cost(1.0) for name in PATIENTS.ids}


def test_the_same_question_gets_the_same_bytes_for_free_also_after_a_restart(ledger, node_config):
    app = LdpClientApp(load_patients)
    first = report_in(ask(app, query(1), node_config))
    again = report_in(ask(app, query(1), node_config))
    restarted = report_in(ask(LdpClientApp(load_patients), query(1), node_config))
    assert isinstance(first, bytes)
    assert first == again == restarted
    assert ledger.spent() == {name: Cost(1.0) for name in PATIENTS.ids}


def test_the_app_can_tighten_the_operators_policy_but_not_loosen_it(ledger, node_config):
    strict = LdpClientApp(load_patients, PrivacyPolicy(0.5))
    assert_refused(ask(strict, query(1), node_config), Refusal.FORBIDDEN)
    lavish = LdpClientApp(load_patients, PrivacyPolicy(100.0))
    assert_refused(ask(lavish, query(1, epsilon=2.0), node_config), Refusal.FORBIDDEN)
    assert ledger.spent() == {}


# ------------------------------------------------- what else an operator may want and limit


def test_a_rehearsal_is_as_always_but_about_nothing_and_free(ledger, node_config):
    rehearsing = node_config | {"rehearsal": True}
    app = LdpClientApp(load_patients)
    census = ask(app, None, rehearsing).content["census"]
    assert census["rehearsing"] == 1
    replies = [ask(app, query(1), rehearsing) for _ in range(2)]
    assert not any(reply.has_error() for reply in replies)
    assert len({report_in(reply) for reply in replies}) == 2  # nothing is kept, nothing is paid
    assert ledger.spent() == {}
    # The real answer is as long as the rehearsed one.
    real = ask(app, query(1), node_config)
    assert len(report_in(real)) == len(report_in(replies[0]))
    assert ledger.spent() == {name: Cost(1.0) for name in PATIENTS.ids}
    # Whoever has spent it all is refused in a rehearsal, too.
    assert_refused(ask(app, query(2), rehearsing), Refusal.EXHAUSTED)


def test_a_rehearsed_report_says_nothing_about_data(ledger, node_config):
    """The values that are randomised do not depend on the patients."""
    node = {"max-epsilon": 1e5, "ledger-path": node_config["ledger-path"]}
    question = query(1, epsilon=100.0)  # as good as no noise
    sums = {}
    for rehearsal in (True, False):
        means = []
        for first, sign in ((1, 1.0), (101, -1.0)):
            people = dataclasses.replace(PATIENTS, targets=sign * PATIENTS.targets)
            means.append(many_means(people, question, first, node | {"rehearsal": rehearsal}))
        sums[rehearsal] = abs(means[0] - means[1])
    # The gradient's first coordinate is -1 and 1; of nothing it is 0, up to the noise.
    assert sums[False] > 1.9
    assert sums[True] < 0.6


def many_means(people, question, first, node_config):
    """Return the first coordinate's mean over 60 steps; each is a new question."""
    app = LdpClientApp(lambda context: people)
    found = []
    for step in range(first, first + 60):
        asked = dataclasses.replace(question, step=step)
        report = Report.from_record_dict(ask(app, asked, node_config).content)
        keys = NodeKeys(NODE_ID, 0, len(people))
        coins = keys.coins(SALT, step, report.arrays["slots"].astype(np.int64))
        found.append(asked.randomizer.mean(report.arrays["reports"], coins)[0])
    return np.mean(found)


def test_a_reply_leaves_no_sooner_than_the_operator_wants(node_config):
    waits = []
    for question in (query(1), None, query(1, epsilon=50.0)):  # answered, and refused
        started = time.monotonic()
        ask(LdpClientApp(load_patients), question, node_config | {"reply-after": 0.3})
        waits.append(time.monotonic() - started)
    assert min(waits) >= 0.3


@pytest.mark.parametrize(
    ("limit", "question"),
    [({"min-epsilon": 0.6}, query(1, epsilon=0.5)), ({"max-width": 3}, query(1))],
    ids=["min-epsilon", "max-width"],
)
def test_cheap_and_huge_questions_are_refused(ledger, node_config, limit, question):
    app = LdpClientApp(load_patients)
    assert_refused(ask(app, question, node_config | limit), Refusal.FORBIDDEN)
    assert ledger.spent() == {}


def test_an_answer_that_is_no_longer_kept_is_refused(ledger, node_config):
    app = LdpClientApp(load_patients)
    generous = node_config | {"max-epsilon": 5.0}
    assert not ask(app, query(1), generous).has_error()
    assert forget_replies(ledger, 0.0) == 1
    assert_refused(ask(app, query(1), generous), Refusal.GONE)
    assert not ask(app, query(2), generous).has_error()


def test_a_stored_answer_that_cannot_be_read_does_not_blame_the_message(ledger, node_config):
    app = LdpClientApp(load_patients)
    assert not ask(app, query(1), node_config).has_error()
    with closing(sqlite3.connect(node_config["ledger-path"])) as connection, connection:
        connection.execute("UPDATE reply SET content = ?", (b"torn",))
    assert_refused(ask(app, query(1), node_config), Refusal.MISCONFIGURED)
