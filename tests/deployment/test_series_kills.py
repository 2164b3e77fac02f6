"""``kill -9`` of the processes of a real SuperNode over ten weeks of a memoised series.

``tests/clients/test_series_kill.py`` does the same to the client alone, at far more lines. Not part
of the usual tests: ``pytest -m faults``.
"""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from federation import Deployment, wait_for, write

from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = [pytest.mark.deployment, pytest.mark.faults]

USERS, WEEKS = 200, 10
KILLED = (1, 3, 6, 10)  # weeks: Flower takes a minute to notice each
LINES = 900  # of the client and the ledger that run after data are loaded, or somewhat more

APP = {
    "pyproject.toml": """
[project]
name = "weekly"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "weekly.server_app:app"
clientapp = "weekly.client_app:app"

[tool.flwr.app.config]
folder = ""
week = 1
""",
    "weekly/__init__.py": "",
    "weekly/data.py": """
from ldp_flower import Categories, Schema

SCHEMA = Schema({"sort": Categories([*"abc"])})
""",
    "weekly/dies_at.py": Path(__file__).parents[1].joinpath("clients", "dies_at.py").read_text(),
    # Dies before so many lines have run, if it finds a file that says so.
    "weekly/client_app.py": """
from pathlib import Path

import numpy as np

from ldp_flower.clients import LdpClientApp

from .data import SCHEMA
from .dies_at import die_at


def load_users(context):
    config = context.node_config
    folder, everyone = Path(config["folder"]), np.arange(config["users"])
    (folder / "asked").open("a").write("x")
    if (place := folder / "kill").exists() and (folder / "asked").stat().st_size % 2 == 0:
        die_at(int(place.read_text()), lambda: place.rename(place.with_suffix(".done")))
    table = {"sort": np.array([*"abc"])[everyone % 3]}
    return SCHEMA.users(table, groups=everyone, ids=everyone)


app = LdpClientApp(load_users)
""",
    "weekly/server_app.py": """
import json
from pathlib import Path

from flwr.serverapp import ServerApp

from ldp_flower.strategies import Counts, Series, TooFewReports

from .data import SCHEMA

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    folder = Path(config["folder"])
    asked = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
    series = Series(asked, collections=10, memoised=True, store=folder / "series.db")
    try:
        result = series.start(grid, num_nodes=1, timeout=100.0, collection=config["week"])
    except TooFewReports as lost:
        (folder / "lost").open("a").write(f"{lost}" + chr(10))
        return
    (folder / f"{config['week']}.json").write_text(json.dumps(result.to_dict()))
""",
}


def answers(path):
    """Return what arrived of each week, in their order, without the census."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT step, content FROM reply WHERE content NOT NULL")
        return [content for step, content in sorted(rows) if step % (1 << 16)]


def test_killed_processes_have_the_same_bits_and_pay_once(tmp_path):
    federation = Deployment(tmp_path)
    write(tmp_path / "app", APP)
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    rng, deaths = random.Random(7), 0
    try:
        federation.start_superlink()
        config = f'max-epsilon=4.0 ledger-path="{path}" allow-public-changes=true'
        federation.start_supernode("node", f'{config} folder="{tmp_path}" users={USERS}')
        for week in range(1, WEEKS + 1):
            (tmp_path / "asked").write_text("")
            if week in KILLED:
                (tmp_path / "kill").write_text(str(rng.randint(1, LINES)))
            while not (tmp_path / f"{week}.json").exists():
                run = federation.submit(tmp_path / "app", f'folder="{tmp_path}" week={week}')
                wait_for(lambda: federation.status(run).startswith("finished"), 1)  # noqa: B023
                assert federation.status(run) == "finished:completed"
                if not (tmp_path / f"{week}.json").exists():  # the census is kept: one call only
                    (tmp_path / "asked").write_text("x")
            deaths += (tmp_path / "kill.done").exists()
            (tmp_path / "kill.done").unlink(missing_ok=True)
            (tmp_path / "kill").unlink(missing_ok=True)
    finally:
        federation.stop()
    assert deaths >= len(KILLED) - 1  # one of them may outlive its line
    assert len((tmp_path / "lost").read_text().splitlines()) == deaths
    found = answers(tmp_path / "series.db")
    assert len(found) == WEEKS and len(set(found)) == 1
    assert [cost.epsilon for cost in ledger.spent().values()] == [4.0] * USERS
    assert len(list(ledger.book())) == USERS
    result = json.loads((tmp_path / f"{WEEKS}.json").read_text())
    assert result["reports"] == [USERS] * WEEKS
    assert all(error == 0 for week in result["change_std_error"][1:] for error in week)
