"""``kill -9`` between any two lines of a client that answers permanently: one secret, one payment.

Every 11th line of some 1,100 here; ``LDP_FLOWER_LINES=1`` takes all, in some six minutes.
``tests/deployment/test_series_kills.py`` kills the processes of a real SuperNode.
"""

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from deployed_node import ask
from dies_at import die_at

from ldp_flower import Categories, Schema
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.questions import TableCell
from ldp_flower.randomizers import HadamardBit

USERS, WEEKS = 12, 10
APART = int(os.environ.get("LDP_FLOWER_LINES", "11"))  # lines from one kill to the next
SCHEMA = Schema({"sort": Categories([*"abc"])})
FIRST = Query(
    TableCell(np.array(SCHEMA.places("sort")), np.array([3.0])),
    *(HadamardBit(1.0, 4), 7, 0, HASH_END, 1, WEEKS, True),
)


def answer(path, week):
    """Return the bytes of a week's report, of a client that was just started."""
    everyone = np.arange(USERS)
    table = {"sort": np.array([*"abc"])[everyone % 3]}
    users = SCHEMA.users(table, groups=everyone, ids=everyone)
    config = {"max-epsilon": 1.0, "ledger-path": str(path), "allow-public-changes": True}
    reply = ask(LdpClientApp(lambda context: users), replace(FIRST, step=week), config)
    return Report.from_record_dict(reply.content).to_bytes()


def _killed_at(line, path, week):
    """Answer, and die before so many lines of the client and of the ledger have run."""
    die_at(line)
    answer(path, week)
    os._exit(0)


def dies(line, path, week):
    """Whether a client dies before it has answered, killed at this line."""
    process = multiprocessing.get_context("fork").Process(
        target=_killed_at, args=(line, path, week)
    )
    process.start()
    process.join()
    assert process.exitcode in (-signal.SIGKILL, 0)
    return process.exitcode != 0


def kept(path):
    """Return the secrets on a ledger, what was paid, and how many replies there are."""
    with closing(sqlite3.connect(path)) as connection:
        secrets = connection.execute("SELECT user, series, content FROM secret").fetchall()
        (paid,) = connection.execute("SELECT TOTAL(epsilon) FROM charge").fetchone()
        (replies,) = connection.execute("SELECT COUNT(*) FROM reply").fetchone()
    return secrets, paid, replies


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills as POSIX does")
def test_killed_at_any_line_of_ten_weeks_it_has_one_secret_and_pays_once(tmp_path):
    """Lines one after the other, through all weeks of one series, until each week outlives them."""
    line, kills, ledgers = 1, 0, 0
    while True:
        path = tmp_path / f"{ledgers}.db"
        SqliteLedger.create(path)
        ledgers, before = ledgers + 1, kills
        found, secrets = [], None
        for week in range(1, WEEKS + 1):
            for _ in range(5 if week == 1 else 1):  # of the week in which the secrets are drawn
                kills += dies(line, path, week)
                line += APART
                drawn, paid, _ = kept(path)
                assert len(drawn) in (0, USERS) and paid in (0.0, USERS)
                assert secrets in (None, [], drawn)  # what was drawn once stays
                secrets = drawn
            found.append(answer(path, week))
            secrets, paid, replies = kept(path)
            assert drawn in ([], secrets)
            assert len(secrets) == USERS == paid and replies == week
        assert set(found) == {found[0]}
        if kills == before:
            break
    assert kills > 700 / APART
