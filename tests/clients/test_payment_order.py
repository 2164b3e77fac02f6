"""What is paid, and what leaves, if something goes wrong once data are looked at."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from deployed_node import ask, query, report_in, users
from test_update_mod import content, deployed
from test_update_mod import query as training
from test_user_update_mod import app_of, people, slots_in, up

from ldp_flower.clients import LdpClientApp, Refusal, respond, values
from ldp_flower.data.users import Users
from ldp_flower.guarantee.answer_lock import answering
from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.messages import Report
from ldp_flower.supernode.bookkeeping import renew_budgets

FAILURES = [ValueError, MemoryError, RecursionError, SystemExit, GeneratorExit, BaseException]
PEOPLE = users(12)


@pytest.fixture
def node_config(ledger, tmp_path):
    return {"max-epsilon": 2.0, "ledger-path": str(tmp_path / "ledger.db")}


def arrays_of(reply):
    return Report.from_record_dict(reply.content).arrays


def spent_of(ledger):
    return {name: cost.epsilon for name, cost in ledger.spent().items()}


# --------------------------------------------------------------------------- statistics


def test_what_is_spent_is_on_the_ledger_before_rows_are_looked_at(ledger, node_config, monkeypatch):
    honest, seen = Users.take, []

    def take(self, *given):
        seen.append(spent_of(ledger))
        return honest(self, *given)

    monkeypatch.setattr(Users, "take", take)
    assert ask(LdpClientApp(lambda context: PEOPLE), query(1), node_config).has_content()
    assert seen and all(each == dict.fromkeys(PEOPLE.ids, 1.0) for each in seen)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("place", ["compute", "values_of", "take"])
def test_whatever_fails_for_some_data_is_paid_and_answered_in_one_form(
    ledger, node_config, monkeypatch, failure, place
):
    app = LdpClientApp(lambda context: PEOPLE)
    usual = ask(app, query(1), node_config)

    def fail(*given):
        raise failure("patient-0003")

    where = {"take": Users, "compute": values, "values_of": respond}[place]
    monkeypatch.setattr(where, place, fail)
    failed = ask(app, query(2), node_config)
    forms = [{n: (a.dtype, a.shape) for n, a in arrays_of(r).items()} for r in (usual, failed)]
    assert forms[0] == forms[1]
    assert (arrays_of(failed)["slots"] == arrays_of(usual)["slots"]).all()
    assert spent_of(ledger) == dict.fromkeys(PEOPLE.ids, 2.0)
    again = ask(app, query(2), node_config)
    assert report_in(again) == report_in(failed)
    assert ask(app, query(3), node_config).error.code == Refusal.EXHAUSTED


def test_a_failure_gives_reports_of_the_centre(ledger, node_config, monkeypatch):
    """Their mean over 4,000 users is within five of its deviations; that of the data is not."""
    crowd = users(4000)
    app = LdpClientApp(lambda context: crowd)
    asked, means = query(1, epsilon=2.0), []
    for wrong in (False, True):
        if wrong:
            monkeypatch.setattr(respond, "values_of", lambda *given: 1 / 0)
            renew_budgets(ledger)
            asked = query(2, epsilon=2.0)
        summary = arrays_of(ask(app, asked, node_config))
        count = summary["count"][0]
        means.append(summary["sum"] / count)
        spread = np.sqrt((summary["sum_of_squares"] / count - means[-1] ** 2) / count)
        means[-1] = np.abs(means[-1] / spread).max()
    assert means[1] < 5 < means[0]


# ------------------------------------------------------------- an answer that is interrupted


def interrupted(message):
    raise KeyboardInterrupt


def test_those_who_have_paid_answer_it_again_and_nobody_else(ledger, node_config):
    """One of three users cannot pay at first. By the second time this one can, and others not."""
    config, crowd = node_config, people(3)
    policy = PrivacyPolicy(max_epsilon=2.0)
    assert ledger.reserve(Entry("before"), crowd.ids[1:2], Cost(1.0), policy).users.all()
    with pytest.raises(KeyboardInterrupt):
        deployed(app_of(crowd, interrupted)[0], content(), config)
    assert spent_of(ledger) == {"patient-000": 2.0, "patient-001": 1.0, "patient-002": 2.0}
    assert renew_budgets(ledger, ["patient-001"]) == 1
    app, trained = app_of(crowd, up)
    reply = deployed(app, content(), config)
    assert slots_in(reply) == [0, 2] and trained == [0.0, 2.0]
    assert spent_of(ledger) == {"patient-000": 2.0, "patient-002": 2.0}
    assert deployed(app, content(), config).content == reply.content
    other = deployed(app, content(training(step=2)), config)
    assert slots_in(other) == [1] and trained == [0.0, 2.0, 1.0]
    assert deployed(app, content(training(step=3)), config).error.code == Refusal.EXHAUSTED


def test_data_are_used_for_one_answer_twice_at_most(ledger, node_config, caplog):
    """A process that data end shows something of them each time."""
    crowd, times = people(3), []

    def counted(message):
        times.append(1)
        interrupted(message)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            deployed(app_of(crowd, counted)[0], content(), node_config)
    app, trained = app_of(crowd, up)
    reply = deployed(app, content(), node_config)
    assert slots_in(reply) == [0, 1, 2] and len(times) == 2 and not trained
    assert "given without data" in caplog.text
    assert deployed(app, content(), node_config).content == reply.content
    assert spent_of(ledger) == dict.fromkeys(crowd.ids, 2.0)


def _killed_while_it_trains(config):
    def dies(message):
        os.kill(os.getpid(), signal.SIGKILL)

    deployed(app_of(people(3), dies)[0], content(), config)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills as POSIX does")
def test_a_node_that_is_killed_between_payment_and_reply_answers_at_no_further_price(
    ledger, node_config
):
    process = multiprocessing.get_context("fork").Process(
        target=_killed_while_it_trains, args=(node_config,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    paid = dict.fromkeys(people(3).ids, 2.0)
    assert spent_of(SqliteLedger(node_config["ledger-path"])) == paid
    app, trained = app_of(people(3), up)
    other = deployed(app, content(training(step=2)), node_config)
    assert other.error.code == Refusal.EXHAUSTED and not trained
    reply = deployed(app, content(), node_config)
    assert slots_in(reply) == [0, 1, 2] and trained == [0.0, 1.0, 2.0]
    assert spent_of(ledger) == paid


def test_a_rehearsal_that_fails_spends_nothing(ledger, node_config, monkeypatch):
    monkeypatch.setattr(respond, "values_of", lambda *given: 1 / 0)
    reply = ask(LdpClientApp(lambda context: PEOPLE), query(1), node_config | {"rehearsal": True})
    assert arrays_of(reply) and ledger.spent() == {}


def test_copies_that_come_at_once_wait_for_one_answer(ledger, node_config, monkeypatch):
    """A copy must not count as an attempt that crashed, or others would be answered by noise."""
    honest, computing, going_on = values.compute, threading.Event(), threading.Event()
    computed = []

    def compute(*given):
        computed.append(1)
        computing.set()
        assert going_on.wait(30)
        return honest(*given)

    monkeypatch.setattr(values, "compute", compute)
    app = LdpClientApp(lambda context: PEOPLE)
    with ThreadPoolExecutor(3) as pool:
        copies = [pool.submit(ask, app, query(1), node_config) for _ in range(3)]
        assert computing.wait(30)
        assert not any(copy.done() for copy in copies)
        going_on.set()
        replies = [report_in(copy.result()) for copy in copies]
    assert replies[0] == replies[1] == replies[2]
    assert len(computed) == 1
    assert spent_of(ledger) == dict.fromkeys(PEOPLE.ids, 1.0)
    with SqliteLedger(node_config["ledger-path"]).open() as connection:
        (answers,) = connection.execute("SELECT COUNT(*) FROM reply").fetchone()
    assert answers == 1


def test_a_lock_ends_with_its_process_and_keeps_no_other_question_waiting(tmp_path):
    path, first, second = tmp_path / "locks", "ab" * 20, "cd" * 20
    with answering(path, first), answering(path, second):
        pass
    there = multiprocessing.get_context("fork").Event()

    def hold():
        with answering(path, first):
            there.set()
            signal.pause()

    holder = multiprocessing.get_context("fork").Process(target=hold)
    holder.start()
    assert there.wait(30)
    with answering(path, second):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    with answering(path, first):
        pass
    holder.join()
