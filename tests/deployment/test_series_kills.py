"""``kill -9`` of the processes of a real SuperNode over ten weeks of a memoised series.

``tests/clients/test_series_kill.py`` does the same to the client alone, at far more lines. Not part
of the usual tests: ``pytest -m faults``.
"""

import json
import random
import sqlite3
from contextlib import closing

import pytest
from federation import Deployment, wait_for, write
from weekly import APP

from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.supernode.bookkeeping import charges

pytestmark = [pytest.mark.deployment, pytest.mark.faults]

USERS, WEEKS = 200, 10
KILLED = (1, 3, 6, 10)  # weeks: Flower takes a minute to notice each
LINES = 900  # of the client and the ledger that run after data are loaded, or somewhat more


def answers(path):
    """Return what arrived of each week, in their order, without the census."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT step, content FROM reply WHERE content NOT NULL")
        return [content for step, content in sorted(rows) if step % (1 << 16)]


def test_killed_processes_have_the_same_bits_and_pay_once(tmp_path):
    federation = Deployment(tmp_path)
    write(tmp_path / "app", APP)
    (tmp_path / "names").write_text(" ".join(f"m{user:03d}" for user in range(USERS)))
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    rng, deaths = random.Random(7), 0
    try:
        federation.start_superlink()
        config = f'max-epsilon=4.0 ledger-path="{path}" allow-public-changes=true'
        federation.start_supernode("node", f'{config} folder="{tmp_path}"')
        for week in range(1, WEEKS + 1):
            (tmp_path / "asked").write_text("")
            if week in KILLED:
                (tmp_path / "kill").write_text(str(rng.randint(1, LINES)))
            result = tmp_path / f"memoised-{week}.json"
            while not result.exists():
                settings = f'folder="{tmp_path}" weeks={WEEKS} week={week}'
                run = federation.submit(tmp_path / "app", settings)
                wait_for(lambda: federation.status(run).startswith("finished"), 1)  # noqa: B023
                assert federation.status(run) == "finished:completed"
                if not result.exists():  # the census is kept: one call only
                    (tmp_path / "asked").write_text("x")
            deaths += (tmp_path / "kill.done").exists()
            (tmp_path / "kill.done").unlink(missing_ok=True)
            (tmp_path / "kill").unlink(missing_ok=True)
    finally:
        federation.stop()
    assert deaths >= len(KILLED) - 1  # one of them may outlive its line
    assert not (tmp_path / "lost").exists()  # the strategy has asked again, each time
    found = answers(tmp_path / "memoised.db")
    assert len(found) == WEEKS and len(set(found)) == 1
    assert [cost.epsilon for cost in ledger.spent().values()] == [4.0] * USERS
    assert len(list(charges(ledger))) == USERS
    last = json.loads(result.read_text())
    assert last["reports"] == [USERS] * WEEKS
    assert all(error == 0 for week in last["change_std_error"][1:] for error in week)
