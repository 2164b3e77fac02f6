"""The app's own code writes into everything that it is handed: no reply tells, no rule moves."""

import logging
import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from uuid import uuid4

import numpy as np
import pytest
from deployed_node import NODE_ID, ask, query, report_in, users
from flwr.app import (
    DEFAULT_TTL,
    Array,
    ArrayRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, PrivacyPolicy, Users
from ldp_flower.clients import LdpClientApp, LdpUpdateMod, Refusal
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import HASH_END, MessageError, Query
from ldp_flower.guarantee.training import census, with_query
from ldp_flower.models.graph import NetworkError
from ldp_flower.questions import NormalisedUpdate
from ldp_flower.randomizers import Codebook
from ldp_flower.supernode.bookkeeping import charges

PATIENTS = users(8)
MODEL = {"weight": np.array([0.5, -0.25, 1.0])}
WAIT = 0.2


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def training(step=1):
    """Return a question about an update."""
    mechanism = Codebook(1.0, 3, num_codewords=8)
    asked = Query(NormalisedUpdate(), mechanism, 1, 0, HASH_END, step)
    return with_query(RecordDict({"arrays": record(MODEL)}), asked)


def app_that(meddles, **arguments):
    """Return an app whose training does that to its arguments, and a step up."""
    app = ClientApp(mods=[LdpUpdateMod(**arguments)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        meddles(message, context)
        found = {"arrays": record({"weight": MODEL["weight"] + 1})}
        found["metrics"] = MetricRecord({"loss": 4.711})
        return Message(RecordDict(found), dst_node_id=0, message_type="train")

    return app


def deployed(app, sent, node_config):
    """Hand a message to an app as its SuperNode does; return it and the reply."""
    message = Message(sent, NODE_ID, "train", group_id="3")
    message.metadata.__dict__["_message_id"] = str(uuid4())
    before = dict(vars(message.metadata))
    return before, app(message, Context(1, NODE_ID, dict(node_config), RecordDict(), {}))


@pytest.fixture
def node_config(ledger, tmp_path):
    path = str(tmp_path / "ledger.db")
    return {"max-epsilon": 1.0, "ledger-path": path, "user-id": "patient-17"}


# ------------------------------------------------------------------- what a reply tells


def nothing(message, context):
    pass


def fails(message, context):
    raise ValueError


def is_slow(message, context):
    time.sleep(WAIT / 2)


@pytest.mark.parametrize("meddles", [nothing, fails, is_slow])
@pytest.mark.parametrize("sent", [training(), census(), RecordDict()], ids=["query", "census", ""])
def test_no_date_in_a_reply_of_training_is_before_it_may_leave(node_config, meddles, sent):
    asked, reply = deployed(app_that(meddles), sent, node_config | {"reply-after": WAIT})
    assert reply.metadata.created_at >= asked["_created_at"] + WAIT
    assert reply.metadata.ttl <= DEFAULT_TTL - WAIT + 1e-6  # what is left of the message's


@pytest.mark.parametrize(
    "question", [query(1), None, query(1, epsilon=50.0)], ids=["report", "census", "refusal"]
)
def test_no_date_in_a_reply_is_before_it_may_leave(node_config, question):
    started = time.time()
    app = LdpClientApp(lambda context: PATIENTS)
    reply = ask(app, question, node_config | {"reply-after": WAIT})
    assert reply.metadata.created_at >= started + WAIT
    assert reply.metadata.ttl <= DEFAULT_TTL - WAIT + 1e-6


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
@pytest.mark.parametrize(
    "error",
    [
        Refusal(4711, "patient-17 has it"),
        LedgerError("patient-17"),
        MessageError("patient-17"),
        NetworkError("patient-17"),
    ],
    ids=["own", "ledger's", "message's", "network's"],
)
@pytest.mark.parametrize("where", ["load_users", "seed"])
def test_errors_of_the_client_that_the_apps_code_raises_are_no_answers(
    node_config, question, error, where
):
    def raises(context):
        raise error

    app = LdpClientApp(**{"load_users": lambda context: PATIENTS, where: raises})
    reply = ask(app, question, node_config)
    assert reply.error.code == Refusal.FAILED
    assert reply.error.reason == "The client failed; its log says why."


def forges(message, context):
    for name, value in (
        ("group_id", "4711"),
        ("ttl", 4711.0),
        ("created_at", 4711.0),
        ("message_type", "query.patient"),
        ("dst_node_id", 4711),
        ("src_task_id", 4711),
        ("dst_task_id", 4711),
    ):
        setattr(message.metadata, name, value)
    for name in ("_message_id", "_src_node_id", "_run_id"):
        message.metadata.__dict__[name] = 4711
    message.content = RecordDict()
    context.run_id = context.node_id = 4711


def test_metadata_that_training_forges_do_not_leave(ledger, node_config):
    asked, reply = deployed(app_that(forges), training(), node_config)
    told = reply.metadata
    assert told.created_at >= asked["_created_at"]
    assert told.created_at + told.ttl == pytest.approx(asked["_created_at"] + asked["_ttl"])
    assert (told.message_type, told.group_id, told.run_id) == ("train", "3", 1)
    assert told.reply_to_message_id == asked["_message_id"]
    assert (told.src_node_id, told.dst_node_id) == (NODE_ID, asked["_src_node_id"])
    assert (told.src_task_id, told.dst_task_id) == (None, asked["_src_task_id"])
    ((_, _, run, *_),) = charges(ledger)
    assert run == "1"


class Odd(RecordDict):
    """Records that fail when they are read."""

    @property
    def metric_records(self):
        raise ValueError("patient 17")


def test_metrics_that_cannot_be_read_leave_a_reply_as_it_is(node_config):
    app = ClientApp(mods=[LdpUpdateMod(public_metrics=["loss"])])

    @app.train()
    def train(message, context):
        return Message(Odd({"arrays": record(MODEL)}), reply_to=message)

    _, reply = deployed(app, training(), node_config | {"public-metrics": "loss"})
    assert set(reply.content) == {"config", "arrays"}


# --------------------------------------------------------- what the operator has decided


@pytest.mark.parametrize("when", ["training", "seed"])
def test_what_training_writes_into_the_settings_decides_nothing(tmp_path, node_config, when):
    other = SqliteLedger.create(tmp_path / "other.db")

    def meddles(message, context):
        context.node_config |= {
            "public-metrics": "loss",
            "ledger-path": str(tmp_path / "other.db"),
            "user-id": "patient-18",
            "max-epsilon": 100.0,
        }
        context.node_config.pop("reply-after", None)

    arguments = {"public_metrics": ["loss"]}
    if when == "seed":
        app = app_that(nothing, seed=lambda context: meddles(None, context), **arguments)
    else:
        app = app_that(meddles, **arguments)
    asked, reply = deployed(app, training(), node_config | {"reply-after": WAIT})
    assert set(reply.content) == {"config", "arrays"}
    assert reply.metadata.created_at >= asked["_created_at"] + WAIT
    assert SqliteLedger(node_config["ledger-path"]).spent() == {"patient-17": Cost(1.0)}
    assert other.spent() == {}
    _, refused = deployed(app, training(2), node_config)
    assert refused.error.code == Refusal.EXHAUSTED


def test_what_a_loader_writes_into_the_settings_decides_nothing(tmp_path, ledger, node_config):
    other = SqliteLedger.create(tmp_path / "other.db")

    def load(context):
        context.node_config |= {"ledger-path": str(tmp_path / "other.db"), "max-epsilon": 100.0}
        context.node_config |= {"rehearsal": True, "reply-after": 0.0}
        context.run_id = context.node_id = 4711
        return PATIENTS

    started = time.time()
    app = LdpClientApp(load)
    census = ask(app, None, node_config.copy()).content["census"]
    assert (census["group"], census["rehearsing"]) == (NODE_ID, 0)
    reply = ask(app, query(1), node_config | {"reply-after": WAIT})
    assert isinstance(report_in(reply), bytes)
    assert reply.metadata.created_at >= started + WAIT
    assert ledger.spent() == {name: Cost(1.0) for name in PATIENTS.ids} and other.spent() == {}
    assert {run for _, _, run, *_ in charges(ledger)} == {"1"}
    assert ask(app, query(2), node_config.copy()).error.code == Refusal.EXHAUSTED


@pytest.mark.parametrize("how", ["replaces", "clears"])
def test_a_simulated_budget_outlives_what_training_does_to_the_state(how):
    seen = set()

    def meddles(message, context):
        seen.update(context.state)
        if how == "replaces":
            context.state = RecordDict({"own": MetricRecord({"rounds": 1})})
        else:
            context.state.clear()

    grid = InProcessGrid(app_that(meddles, policy=PrivacyPolicy(2.0)), 1)

    def send(step):
        return next(iter(grid.send_and_receive([Message(training(step), 1, "train")])))

    answers = [send(step) for step in (1, 2)]
    assert send(3).error.code == Refusal.EXHAUSTED
    assert [send(step).content for step in (1, 2)] == [each.content for each in answers]
    assert seen <= {"own"}
    assert ("own" in grid.contexts[1].state) == (how == "replaces")


# ------------------------------------------------------------------ what the operator learns


def test_training_that_fails_is_logged_once(node_config, caplog):
    _, reply = deployed(app_that(fails), training(), node_config)
    assert reply.has_content()
    (told,) = [each for each in caplog.records if each.exc_info]
    assert told.getMessage() == "Training failed; the user reports an update of 0."


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
def test_a_loader_that_leaves_the_process_is_a_failure_like_others(node_config, question):
    reply = ask(LdpClientApp(lambda context: sys.exit("patient 17")), question, node_config)
    assert reply.error.code == Refusal.FAILED and "17" not in reply.error.reason


@pytest.mark.parametrize("wrong", ["missing", "foreign", "cannot be written"])
def test_the_census_shows_a_ledger_that_cannot_be_used_before_data_are_loaded(
    node_config, tmp_path, wrong, caplog
):
    path = tmp_path / "ledger.db"
    if wrong == "missing":
        path.unlink()
    elif wrong == "foreign":
        path.write_bytes(b"a file of 100 bytes".ljust(100))
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON fact BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
    loaded = []
    replies = [ask(LdpClientApp(loaded.append), None, node_config)]
    replies.append(deployed(app_that(nothing), census(), node_config)[1])
    for reply in replies:
        assert reply.error.code == Refusal.MISCONFIGURED
        assert reply.error.reason == "The ledger cannot be used."
    assert not loaded
    told = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(told) == 2 and all(str(path) in each.getMessage() for each in told)


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
def test_ids_that_no_file_can_hold_are_refused_and_named(node_config, question, caplog):
    ids = np.array(["a", "b\ud800"])  # which Users refuse

    def nameless(context):
        return Users(np.ones((2, 4)), np.ones(2), np.arange(3), ids)

    reply = ask(LdpClientApp(nameless), question, node_config)
    assert reply.error.code == Refusal.FAILED
    assert r"Expected ids without NUL and surrogates, got 'b\ud800'." in caplog.text
    _, reply = deployed(app_that(nothing), training(), node_config | {"user-id": "b\ud800"})
    assert reply.error.code == Refusal.MISCONFIGURED


# ----------------------------------------------------------------------------- the ledger


def put_in_place(fresh, path):
    os.replace(fresh, path)


def write_over(fresh, path):
    shutil.copyfile(fresh, path)


@pytest.mark.parametrize("swap", [put_in_place, write_over])
@pytest.mark.parametrize("method", ["check", "claim", "reserve"])
def test_a_ledger_that_is_replaced_in_the_middle_of_a_query_pays_for_nothing(
    ledger, node_config, tmp_path, swap, method, monkeypatch
):
    """As its owner's spent one is, by a fresh one, after it was looked at."""
    path, fresh = tmp_path / "ledger.db", tmp_path / "fresh.db"
    SqliteLedger.create(fresh)
    looked = getattr(SqliteLedger, method)

    def swapped(self, *arguments):
        found = looked(self, *arguments)
        if fresh.exists():
            swap(fresh, path)
            fresh.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(SqliteLedger, method, swapped)
    reply = ask(LdpClientApp(lambda context: PATIENTS), query(1), node_config)
    monkeypatch.undo()
    assert reply.error.code == Refusal.MISCONFIGURED
    assert SqliteLedger(path).spent() == {}


@pytest.mark.parametrize("question", [query(1), None], ids=["report", "census"])
def test_a_ledger_of_records_serves_no_policy_about_users(ledger, node_config, question):
    silos = PrivacyPolicy(1.0, unit="record")
    plan = Cost(0.5, plan="7 gaussian", steps=3)
    assert ledger.reserve(Entry("q"), PATIENTS.ids[:1], plan, silos).users.all()
    app = LdpClientApp(lambda context: PATIENTS)
    assert ask(app, question, node_config).error.code == Refusal.MISCONFIGURED
    by_record = node_config | {"unit": "record", "num-records": 1}
    assert ask(app, question, by_record).has_content()
    # The app may make the operator's unit stricter, and then needs another ledger as well.
    strict = LdpClientApp(lambda context: PATIENTS, PrivacyPolicy(1.0))
    assert ask(strict, question, by_record).error.code == Refusal.MISCONFIGURED
