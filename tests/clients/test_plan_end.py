"""The end of a plan: what is given back, what is answered no more, and a process that dies."""

import os
import signal

import numpy as np
import pytest
from dies_at import die_at
from flwr.app import RecordDict

from ldp_flower import PrivacyPolicy
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.supernode.bookkeeping import charges, renew_budgets

POLICY, STEPS = PrivacyPolicy(2.0, 0.1, noise="shared", max_dishonest=0), 5
PLAN = Cost(1.6, 0.01, "run plan", STEPS, alone=3.0)
ALL = np.arange(3)


def epsilon_after(reports):
    """Epsilon of the plan's first reports; of four it would be the whole one's."""
    return {1: 0.6, 2: 1.0, 3: 1.3, 4: 1.6}[reports]


@pytest.fixture(params=["state", "sqlite"])
def ledger(request, tmp_path):
    if request.param == "state":
        return StateLedger(RecordDict(), 3)
    return SqliteLedger.create(tmp_path / "ledger.db")


def answers(ledger, name, accounts=ALL, cost=PLAN):
    """Return the users who answer a question, which is then answered."""
    claim = ledger.reserve(Entry(name), accounts, cost, POLICY)
    if claim.users.any():
        ledger.fulfil(name, name.encode())
    return np.asarray(accounts)[claim.users].tolist()


def left(ledger):
    """Return how often a twentieth of epsilon alone, and of epsilon, each user can still spend."""
    steps = np.arange(1, 161) / 20
    able = [
        [ledger.affordable(ALL, Cost(0.0, alone=each), POLICY) for each in steps],
        [ledger.affordable(ALL, Cost(each, alone=0.0), POLICY) for each in steps],
    ]
    return np.count_nonzero(able, axis=1).tolist()


def test_each_user_gets_back_what_the_reports_left_cost(ledger):
    assert answers(ledger, "1") == [0, 1, 2] and answers(ledger, "2", ALL[:2]) == [0, 1]
    assert left(ledger) == [[100, 100, 100], [8, 8, 8]]
    ledger.end_plan(ALL, PLAN, epsilon_after)
    for _ in range(2):  # once
        given = [112, 112, 120], [20, 20, 28]
        assert all(abs(np.subtract(left(ledger), given)).max(axis=1) <= 1)
        ledger.end_plan(ALL, PLAN, epsilon_after)
    for name in ("3", "4"):
        assert answers(ledger, name) == []  # not even where a report of it would be paid
    assert ledger.claim("1", 3).reply == b"1"  # what was answered comes again
    assert answers(ledger, "5", cost=Cost(0.9)) == [0, 1, 2]
    other = Cost(0.2, 0.01, "another plan", STEPS)
    ledger.end_plan(ALL, other, epsilon_after)  # of which nothing was paid
    assert answers(ledger, "6", ALL[2:], other) == [2]


def test_nothing_is_given_back_of_a_plan_that_is_used_up(ledger):
    for number in range(STEPS):
        answers(ledger, str(number), ALL if number < STEPS - 1 else ALL[:1])
    before = left(ledger)
    ledger.end_plan(ALL, PLAN, epsilon_after)  # four reports cost all of it
    assert left(ledger) == before
    assert answers(ledger, "another") == []  # users 1 and 2 had one report left


def test_what_takes_long_is_computed_while_others_can_write(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    answers(ledger, "1")
    other = SqliteLedger(tmp_path / "ledger.db", timeout=0.1)

    def slowly(reports):
        other.check("user")
        return epsilon_after(reports)

    ledger.end_plan(ALL, PLAN, slowly)
    assert [each.epsilon for each in ledger.spent().values()] == pytest.approx([0.6] * 3)


def test_a_report_that_is_not_computed_yet_counts_and_is_computed(ledger):
    ledger.reserve(Entry("1"), ALL, PLAN, POLICY)
    ledger.end_plan(ALL, PLAN, epsilon_after)
    claim = ledger.reserve(Entry("1"), ALL, PLAN, POLICY)
    assert claim.users.all() and ledger.fulfil("1", b"late") == b"late"
    assert answers(ledger, "2") == []


def test_the_book_has_what_is_given_back(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    answers(ledger, "1")
    ledger.end_plan(ALL, PLAN, epsilon_after)
    rows = [row[1:2] + row[3:4] + row[5:] for row in charges(ledger)]
    assert rows.count(("0", "renewal", -1.0, 0.0, "")) == 1 and len(rows) == 6
    assert ledger.spent()["0"].epsilon == pytest.approx(0.6)
    renew_budgets(ledger)
    ledger.end_plan(ALL, PLAN, epsilon_after)
    assert not ledger.spent()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills as POSIX does")
def test_a_process_that_dies_has_ended_the_plan_or_not(tmp_path):
    """Killed before each line of what it does: all users have all of it back, or none."""
    killed = ended = 0
    for line in range(1, 400, 9):
        path = tmp_path / f"{line}.db"
        ledger = SqliteLedger.create(path)
        answers(ledger, "1")
        if not (child := os.fork()):
            die_at(line)
            SqliteLedger(path).end_plan(ALL, PLAN, epsilon_after)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        spent = {round(cost.epsilon, 6) for cost in SqliteLedger(path).spent().values()}
        assert spent in ({1.6}, {0.6})
        ended += spent == {0.6}
        assert bool(answers(SqliteLedger(path), "2", ALL)) == (spent == {1.6})
        if not os.WIFSIGNALED(status):
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
    assert killed > 8 and 0 < ended < killed
