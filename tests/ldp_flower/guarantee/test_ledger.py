import datetime
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict

from ldp_flower import PrivacyPolicy
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.ledger_file import FORMAT, LedgerError, LedgerFile
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.guarantee.studies import Study
from ldp_flower.supernode.bookkeeping import (
    InStudy,
    charges,
    forget_replies,
    renew_budgets,
    spent_in_studies,
)

POLICY = PrivacyPolicy(2.0, 0.1)
ONE = Cost(1.0)


@pytest.fixture(params=["state", "sqlite"])
def ledger(request, tmp_path):
    """Return a ledger of three users; the accounts of both kinds are 0, 1 and 2."""
    if request.param == "state":
        return StateLedger(RecordDict(), 3)
    return SqliteLedger.create(tmp_path / "ledger.db")


ALL = np.arange(3)


def pays(ledger, name, accounts, cost, policy, reply=b""):
    """Whether these users, all of them, pay for a new question now, and answer it."""
    claim = ledger.reserve(Entry(name), accounts, cost, policy)
    if claim.reply is not None or claim.attempts != 1 or not claim.users.all():
        return False
    return ledger.fulfil(name, reply) == reply


def reply(ledger, name, count=3):
    """Return what a ledger has stored: None if a question is new, or has no answer yet."""
    claim = ledger.claim(name, count)
    return None if claim is None else claim.reply


def test_users_are_debited_before_there_is_an_answer(ledger):
    assert ledger.claim("q1", 3) is None
    claim = ledger.reserve(Entry("q1"), ALL[:2], ONE, POLICY)
    assert (claim.users.tolist(), claim.attempts, claim.reply) == ([True] * 2, 1, None)
    assert ledger.affordable(ALL, Cost(1.5), POLICY).tolist() == [False, False, True]
    assert ledger.fulfil("q1", b"\x00reply") == reply(ledger, "q1") == b"\x00reply"
    assert ledger.affordable(ALL, ONE, POLICY).all()


def test_a_question_without_an_answer_is_the_same_users_whoever_can_pay_by_then(ledger):
    assert pays(ledger, "q0", ALL[1:2], Cost(1.5), POLICY)
    first = ledger.reserve(Entry("q1"), ALL, ONE, POLICY)
    assert first.users.tolist() == [True, False, True]
    assert pays(ledger, "q2", ALL[::2], ONE, POLICY)  # they have nothing left
    for attempts in (2, 3, 3):  # as far as they are counted
        again = ledger.reserve(Entry("q1"), ALL, ONE, POLICY)
        assert again.users.tolist() == [True, False, True]
        assert (again.attempts, again.reply) == (attempts, None)
    assert ledger.fulfil("q1", b"reply") == b"reply"
    assert ledger.reserve(Entry("q1"), ALL, ONE, POLICY).reply == b"reply"
    assert ledger.affordable(ALL, Cost(0.5), POLICY).tolist() == [False, True, False]


@pytest.mark.parametrize("number", [1, 7, 8, 9, 1000])
def test_who_answers_is_kept_of_any_number_of_users(tmp_path, number):
    names = np.array([f"user-{i}" for i in range(number)])
    ledger, some = SqliteLedger.create(tmp_path / "ledger.db"), np.arange(number) % 3 > 0
    if some.any():
        assert pays(ledger, "q0", names[some], Cost(2.0), POLICY)
    ledger.reserve(Entry("q1"), names, ONE, POLICY)
    claim = SqliteLedger(tmp_path / "ledger.db").claim("q1", number)
    assert (claim.users == ~some).all() and claim.attempts == 1


def test_what_a_version_before_has_reserved_is_answered_by_its_one_user(tmp_path):
    """It wrote no users and no attempts."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    ledger.reserve(Entry("q1"), USER, ONE, POLICY)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE reply SET content = ?", (b"reserved",))
        connection.commit()
    claim = ledger.reserve(Entry("q1"), USER, ONE, POLICY)
    assert (claim.users.tolist(), claim.attempts, claim.reply) == ([True], 2, None)
    assert ledger.fulfil("q1", b"reply") == b"reply" and ledger.spent() == {"a": ONE}


def test_the_first_reply_to_what_is_reserved_stays(tmp_path):
    ledger, user = SqliteLedger.create(tmp_path / "ledger.db"), np.array(["a"])
    ledger.reserve(Entry("q1"), user, Cost(0.1), POLICY)
    assert ledger.fulfil("q1", b"first") == ledger.fulfil("q1", b"second") == b"first"
    ledger.reserve(Entry("q2"), user, Cost(0.1), POLICY)
    forget_replies(ledger, days=0.0)
    assert ledger.fulfil("q2", b"late") == reply(ledger, "q2") == b""
    with pytest.raises(LedgerError, match="does not hold"):
        ledger.fulfil("q3", b"never paid")


def test_an_answered_query_is_never_charged_again(ledger):
    assert pays(ledger, "q1", ALL, ONE, POLICY, b"first")
    assert not pays(ledger, "q1", ALL, ONE, POLICY, b"second")
    assert reply(ledger, "q1") == b"first"
    assert ledger.affordable(ALL, ONE, POLICY).all()


def test_those_who_can_pay_are_debited_and_nothing_is_written_if_nobody_can(ledger):
    assert pays(ledger, "q1", ALL[:1], Cost(2.0), POLICY)
    assert not ledger.reserve(Entry("q2"), ALL[:1], ONE, POLICY).users.any()
    assert ledger.claim("q2", 1) is None
    assert ledger.reserve(Entry("q2"), ALL, ONE, POLICY).users.tolist() == [False, True, True]
    assert not ledger.affordable(ALL, Cost(2.0), POLICY).any()


def test_costs_add_up_without_tolerance(ledger):
    policy = PrivacyPolicy(0.3)
    for i in range(2):
        assert pays(ledger, f"q{i}", ALL, Cost(0.1), policy)
    # 0.1 + 0.1 + 0.1 > 0.3 in floating point: refused, the safe side
    assert not pays(ledger, "q2", ALL, Cost(0.1), policy)
    assert pays(ledger, "q2", ALL, Cost(0.09), policy)


def test_delta_has_a_budget_of_its_own(ledger):
    assert pays(ledger, "q1", ALL, Cost(0.1, 0.06), POLICY)
    assert not pays(ledger, "q2", ALL, Cost(0.1, 0.06), POLICY)
    assert pays(ledger, "q2", ALL, Cost(0.1, 0.0), POLICY)


PLAN = Cost(1.5, 0.01, plan="7 gaussian", steps=3)


def test_a_plan_is_paid_once_and_gives_no_more_reports_than_were_paid(ledger):
    for step in range(3):
        assert pays(ledger, f"q{step}", ALL[:2], PLAN, POLICY)
    assert ledger.affordable(ALL, PLAN, POLICY).tolist() == [False, False, True]
    assert not pays(ledger, "q3", ALL[:2], PLAN, POLICY)
    # 1.5 of 2 is spent, once, and what is left pays for something else.
    assert ledger.affordable(ALL, Cost(0.5), POLICY).all()
    assert ledger.affordable(ALL, Cost(0.6), POLICY).tolist() == [False, False, True]


def test_a_plan_that_has_begun_goes_on_when_nothing_is_left(ledger):
    assert pays(ledger, "q0", ALL, PLAN, POLICY)
    assert pays(ledger, "other", ALL, Cost(0.5), POLICY)
    assert pays(ledger, "q1", ALL, PLAN, POLICY)
    assert not ledger.affordable(ALL, Cost(0.01), POLICY).any()


def test_another_plan_is_another_cost(ledger):
    assert pays(ledger, "q0", ALL, PLAN, POLICY)
    other = Cost(1.5, 0.01, plan="8 gaussian", steps=3)
    assert not ledger.affordable(ALL, other, POLICY).any()


def test_users_may_be_at_different_places_of_a_plan(ledger):
    assert pays(ledger, "q0", ALL[:1], PLAN, POLICY)
    assert pays(ledger, "q1", ALL, PLAN, POLICY)
    assert pays(ledger, "q2", ALL, PLAN, POLICY)
    assert ledger.affordable(ALL, PLAN, POLICY).tolist() == [False, True, True]
    assert ledger.affordable(ALL, Cost(0.5), POLICY).all()


def test_sqlite_remembers_over_restarts_and_for_many_users(tmp_path):
    path = tmp_path / "ledger.db"
    names = np.array([f"user-{i}" for i in range(1201)])
    assert pays(SqliteLedger.create(path), "q", names, Cost(1.5), POLICY, b"r")
    again = SqliteLedger(path)
    assert reply(again, "q") == b"r"
    assert not again.affordable(names, ONE, POLICY).any()
    assert again.spent() == {name: Cost(1.5) for name in names}


def test_sqlite_remembers_plans_over_restarts(tmp_path):
    path = tmp_path / "ledger.db"
    pays(SqliteLedger.create(path), "q0", np.array(["a"]), PLAN, POLICY)
    again = SqliteLedger(path)
    assert pays(again, "q1", np.array(["a", "b"]), PLAN, POLICY)
    assert again.spent() == {"a": Cost(1.5, 0.01), "b": Cost(1.5, 0.01)}
    assert pays(again, "q2", np.array(["a"]), PLAN, POLICY)
    assert again.affordable(np.array(["a", "b"]), PLAN, POLICY).tolist() == [False, True]


def test_a_ledger_is_never_made_up(tmp_path):
    with pytest.raises(LedgerError, match="ldp-flower ledger init"):
        SqliteLedger(tmp_path / "missing.db")
    SqliteLedger.create(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="exists already"):
        SqliteLedger.create(tmp_path / "ledger.db")


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be read"])
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        SqliteLedger(path)


def test_another_applications_database_is_refused(tmp_path):
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE spent (user, epsilon, delta)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger"):
        SqliteLedger(path)


def test_only_the_operator_may_read_it(tmp_path):
    SqliteLedger.create(tmp_path / "ledger.db")
    assert os.stat(tmp_path / "ledger.db").st_mode & 0o077 == 0


def test_a_commit_is_on_the_disk_when_it_counts(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    with ledger.open() as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    assert level == 3  # EXTRA: with FULL a power failure can bring the journal back


def test_a_place_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(LedgerError, match="Cannot create"):
        SqliteLedger.create(tmp_path / "missing" / "ledger.db")


def test_the_book_has_every_charge_and_every_renewal(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    entry = Entry("q1", 2**63 + 5, "gradient", "Codebook")
    assert ledger.reserve(entry, np.array(["a", "b"]), Cost(1.0, 0.01), POLICY).users.all()
    ledger.fulfil("q1", b"reply")
    assert renew_budgets(ledger, ["b"]) == 1
    assert ledger.spent() == {"a": Cost(1.0, 0.01)}
    rows = [row[1:] for row in charges(ledger)]
    charge = (str(2**63 + 5), "gradient", "Codebook", 1.0, 0.01, "")
    assert sorted(rows) == [
        ("a", *charge),
        ("b", "", "renewal", "", -1.0, -0.01, ""),
        ("b", *charge),
    ]
    assert renew_budgets(ledger) == 1
    assert ledger.spent() == {}
    # What was answered is not answered anew: the same query still has its answer.
    assert reply(ledger, "q1") == b"reply"
    assert not pays(ledger, "q1", np.array(["a", "b"]), Cost(1.0), POLICY)


def test_dates_decide_what_is_kept_and_never_what_may_be_spent(tmp_path):
    path, user = tmp_path / "ledger.db", np.array(["a"])
    ledger = SqliteLedger.create(path)
    for name, date in (("q1", "-400 days"), ("q2", "+400 days"), ("q3", "+0 days")):
        assert pays(ledger, name, user, Cost(0.5), POLICY, b"reply")
        with closing(sqlite3.connect(path)) as connection:  # as a clock that is wrong dates it
            connection.execute(
                "UPDATE reply SET created = datetime('now', ?) WHERE digest = ?", (date, name)
            )
            connection.commit()
    assert forget_replies(ledger, days=90) == 1
    assert [reply(ledger, name) for name in ("q1", "q2", "q3")] == [b"", b"reply", b"reply"]
    assert forget_replies(ledger, days=0) == 2  # all, the future one too
    assert ledger.spent() == {"a": Cost(1.5)}
    assert not ledger.affordable(user, ONE, POLICY).any()


def test_what_is_left_of_a_plan_is_paid_anew_after_a_renewal(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    user = np.array(["a"])
    assert pays(ledger, "q0", user, PLAN, POLICY)
    assert renew_budgets(ledger) == 1
    assert pays(ledger, "q1", user, PLAN, POLICY)
    assert ledger.spent() == {"a": Cost(1.5, 0.01)}


def test_a_reply_that_is_no_longer_kept_is_not_given_again(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    assert pays(ledger, "q1", np.array(["a"]), Cost(0.1), POLICY, b"reply")
    assert forget_replies(ledger, days=1.0) == 0
    assert reply(ledger, "q1") == b"reply"
    assert forget_replies(ledger, days=0.0) == 1
    assert reply(ledger, "q1") == b"" and reply(ledger, "q2") is None
    assert not pays(ledger, "q1", np.array(["a"]), Cost(0.1), POLICY, b"other")
    assert ledger.spent() == {"a": Cost(0.1)}


def test_users_whom_the_ledger_does_not_know_are_an_error_and_renew_nobody(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    assert pays(ledger, "q1", np.array(["a", "b"]), Cost(1.0), POLICY, b"reply")
    with pytest.raises(LedgerError, match="knows no user 'nobody'"):
        renew_budgets(ledger, ["b", "nobody"])
    assert set(ledger.spent()) == {"a", "b"}
    assert renew_budgets(ledger, ["b"]) == 1
    assert renew_budgets(ledger, ["b"]) == 0  # it is known, and has spent nothing since


# ------------------------------------------------------------ what a ledger says about itself

RECORDS = PrivacyPolicy(2.0, 0.1, unit="record", num_records=3)
USER = np.array(["a"])


# What each format has added: tables, and columns of tables.
ADDED = {
    1: (["fact"], []),
    2: (["secret"], []),
    3: (["shared"], ["spent", "charge"]),
    4: (["study"], []),
}


def as_made_before(path, number=0):
    """Take from a ledger what the version of an older format did not write."""
    with closing(sqlite3.connect(path)) as connection:
        for tables, with_alone in (each for own, each in ADDED.items() if own > number):
            for table in tables:
                connection.execute(f"DROP TABLE {table}")
            for table in with_alone:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN alone")
        connection.execute(f"PRAGMA user_version={number}")


def test_spending_of_users_counts_for_records_but_not_the_other_way_round(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    for unit in ("user", "record"):  # nothing is spent: it may become either
        ledger.check(unit)
    assert pays(ledger, "q1", USER, Cost(0.5), POLICY)
    assert pays(ledger, "q2", USER, PLAN, RECORDS)
    ledger.check("record")
    with pytest.raises(LedgerError, match="single records"):
        ledger.check("user")
    with pytest.raises(LedgerError, match="single records"):
        pays(ledger, "q3", np.array(["b"]), Cost(0.1), POLICY)
    assert renew_budgets(ledger) == 1
    with pytest.raises(LedgerError, match="single records"):
        SqliteLedger(tmp_path / "ledger.db").check("user")
    assert reply(ledger, "q3") is None and ledger.spent() == {}


@pytest.mark.parametrize("told_by", ["plan", "mechanism", "nothing"])
def test_an_older_ledger_opens_and_its_answers_tell_what_it_is_about(tmp_path, told_by):
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    mechanism = "RecordGaussian" if told_by == "mechanism" else "Codebook"
    cost = PLAN if told_by == "plan" else ONE
    assert ledger.reserve(Entry("q1", 1, "gradient", mechanism), USER, cost, RECORDS).users.all()
    ledger.fulfil("q1", b"reply")
    as_made_before(path)
    older = SqliteLedger(path)
    assert older.spent() == {"a": Cost(cost.epsilon, cost.delta)}
    if told_by == "nothing":
        older.check("user")
        assert pays(older, "q2", USER, ONE, POLICY)
    else:
        with pytest.raises(LedgerError, match="single records"):
            older.check("user")
    older.check("record")
    assert reply(older, "q1") == b"reply"


def test_an_older_ledger_may_be_read_without_being_written(tmp_path):
    path = tmp_path / "ledger.db"
    assert pays(SqliteLedger.create(path), "q1", USER, ONE, POLICY)
    as_made_before(path)
    before = path.read_bytes()
    assert SqliteLedger(path).spent() == {"a": ONE}
    assert len(list(charges(SqliteLedger(path)))) == 1
    assert path.read_bytes() == before


def formats(*paths):
    """Return the numbers of ledgers' formats."""
    found = []
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            found.append(connection.execute("PRAGMA user_version").fetchone()[0])
    return found


def test_an_older_ledger_becomes_one_of_todays_when_it_is_answered_from(tmp_path, caplog):
    path, copy, cost = tmp_path / "ledger.db", tmp_path / "ledger.db.format-0", Cost(0.5)
    assert pays(SqliteLedger.create(path), "q1", USER, cost, POLICY, b"one")
    as_made_before(path)
    copy.write_bytes(b"of an upgrade that was interrupted")
    copy.chmod(0o600)

    older, other = SqliteLedger(path), SqliteLedger(path)
    assert pays(older, "q2", USER, cost, POLICY, b"two")
    assert pays(other, "q3", USER, cost, POLICY, b"three")  # it was opened before

    assert formats(path, copy) == [FORMAT, 0]
    assert caplog.text.count("is now of format") == 1
    assert copy.stat().st_mode & 0o077 == 0
    assert SqliteLedger(copy).spent() == {"a": cost}
    assert SqliteLedger(path).spent() == {"a": Cost(1.5)}


STUDY = Study("s", ("mean",), ("x",), ("user",), 1.0, 2, datetime.date(2999, 1, 1))


@pytest.mark.parametrize("number", range(FORMAT))
def test_what_was_spent_before_a_ledger_knew_studies_is_in_none(tmp_path, number):
    path, cost = tmp_path / "ledger.db", Cost(0.5, alone=0.5 if number < 3 else 0.75)
    assert pays(SqliteLedger.create(path), "q1", USER, cost, POLICY, b"one")
    as_made_before(path, number)
    before = path.read_bytes()
    plain = Cost(0.5) if number < 3 else cost
    assert spent_in_studies(SqliteLedger(path)) == {"": InStudy(1, plain, 0)}
    assert SqliteLedger(path).spent() == {"a": plain}
    assert path.read_bytes() == before

    ledger = SqliteLedger(path)
    assert ledger.affordable(USER, ONE, POLICY, STUDY).all()
    assert ledger.reserve(Entry("q2"), USER, ONE, POLICY, study=STUDY).users.all()
    assert spent_in_studies(ledger) == {"": InStudy(1, plain, 0), "s": InStudy(1, ONE, 1)}
    assert formats(path, tmp_path / f"ledger.db.format-{number}") == [FORMAT, number]


def test_a_study_pays_from_its_share_and_counts_its_steps(ledger):
    policy = PrivacyPolicy(9.0, 0.1)
    half = Cost(0.5)

    def paid(name, accounts, cost=half, study=STUDY):
        return ledger.reserve(Entry(name), accounts, cost, policy, study=study).users.tolist()

    assert paid("q1", ALL[:2]) == [True, True]
    assert paid("q1", ALL[:2]) == [True, True]  # the same again is the same step
    assert paid("q2", ALL, Cost(0.75), replace(STUDY, id="t")) == [True] * 3
    assert ledger.affordable(ALL, Cost(0.75), policy, STUDY).tolist() == [False, False, True]
    assert paid("q3", ALL, Cost(0.75)) == [False, False, True]
    assert ledger.is_over(STUDY) and not ledger.is_over(replace(STUDY, id="t"))
    assert paid("q4", ALL[:1]) == [False]
    assert paid("q3", ALL) == [False, False, True]
    more = replace(STUDY, steps=3)
    assert paid("q4", ALL[:1], study=replace(more, until=datetime.date(2020, 1, 1))) == [False]
    assert paid("q4", ALL[:1], Cost(0.1, 1e-9), more) == [False]  # it has no delta
    assert paid("q4", ALL[:1], Cost(0.1, alone=0.9), more) == [False]
    assert paid("q4", ALL[:1], study=more) == [True]


def test_a_ledger_that_cannot_be_copied_stays_what_it_is(tmp_path):
    path = tmp_path / "ledger.db"
    SqliteLedger.create(path)
    as_made_before(path)
    (tmp_path / "ledger.db.format-0").mkdir()
    with pytest.raises(LedgerError):
        pays(SqliteLedger(path), "q1", USER, ONE, POLICY, b"one")
    assert formats(path) == [0] and not SqliteLedger(path).spent()


def test_a_newer_ledger_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "ledger.db"
    SqliteLedger.create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=f"of format {FORMAT + 1}, which a newer ldp-flower"):
        SqliteLedger(path)
    assert path.read_bytes() == before


def test_no_two_ledgers_have_one_identity(tmp_path):
    found = set()
    for number in range(3):
        path = tmp_path / f"{number}.db"
        SqliteLedger.create(path)
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT value FROM fact WHERE name = 'identity'"
            found.add(connection.execute(query).fetchone()[0])
    assert len(found) == 3 and {len(identity) for identity in found} == {32}


def test_a_file_that_takes_the_ledgers_place_is_no_ledger_of_its_users(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    assert pays(ledger, "q1", USER, Cost(2.0), POLICY)
    shutil.copyfile(path, tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", path)  # of the same identity, in another place
    for attempt in (
        lambda: ledger.affordable(USER, ONE, POLICY),
        lambda: reply(ledger, "q1"),
        lambda: pays(ledger, "q2", np.array(["b"]), ONE, POLICY),
        lambda: renew_budgets(ledger),
        lambda: ledger.spent(),
    ):
        with pytest.raises(LedgerError, match="replaced"):
            attempt()
    path.unlink()
    with pytest.raises(LedgerError, match="unable to open"):
        ledger.spent()
    assert not path.exists()


def test_a_ledger_that_is_replaced_while_it_is_written_has_not_been_written(tmp_path):
    path, fresh = tmp_path / "ledger.db", tmp_path / "fresh.db"
    SqliteLedger.create(path)
    SqliteLedger.create(fresh)
    file = LedgerFile(path, 1.0)
    with pytest.raises(LedgerError, match="replaced"), file.transaction() as connection:
        connection.execute("INSERT INTO spent VALUES ('a', 1.0, 0.0)")
        os.replace(fresh, path)
    assert SqliteLedger(path).spent() == {}


def test_a_copy_of_the_file_shows_all_spending_whatever_another_tool_has_set(tmp_path, caplog):
    path, copied = tmp_path / "ledger.db", tmp_path / "copied.db"
    SqliteLedger.create(path)
    with closing(sqlite3.connect(path)) as tool:
        assert tool.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    ledger = SqliteLedger(path)
    assert "write-ahead" in caplog.text
    with ledger.open() as reader:  # as long as somebody reads, WAL would not be merged
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM renewal").fetchall()
        reader.execute("COMMIT")
        assert pays(ledger, "q1", USER, ONE, POLICY)
        shutil.copyfile(path, copied)
    assert SqliteLedger(copied).spent() == {"a": ONE}


def test_a_ledger_that_another_tool_holds_in_wal_is_refused(tmp_path):
    path = tmp_path / "ledger.db"
    SqliteLedger.create(path)
    ledger = SqliteLedger(path, timeout=0.1)
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("PRAGMA journal_mode=WAL")
        tool.execute("SELECT * FROM spent").fetchall()
        with pytest.raises(LedgerError, match="locked"):
            pays(ledger, "q1", USER, ONE, POLICY)
    assert pays(ledger, "q1", USER, ONE, POLICY)


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_ids_that_cannot_be_written_are_named(tmp_path, name):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    names = np.array(["a", name])
    for attempt in (
        lambda: ledger.affordable(names, ONE, POLICY),
        lambda: pays(ledger, "q1", names, ONE, POLICY),
    ):
        with pytest.raises(LedgerError, match="Expected ids of Unicode characters, got '"):
            attempt()
    assert ledger.spent() == {}


@pytest.mark.parametrize("path", ["x" * 5000, "~nobody-of-this-name/ledger.db", "a\0b"])
def test_a_path_that_cannot_be_one_is_a_ledgers_error(path):
    with pytest.raises(LedgerError, match="ledger"):
        SqliteLedger(path)
