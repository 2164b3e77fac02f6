"""``kill -9`` of real SuperNodes with noise at the node, at each place of an answer.

A node dies before its users have paid, after that, when the noisy sum is on its ledger, or when
the server has the sum. ``test_kills.py`` kills nodes with noise at the user at random moments.
"""

import json
import os
import sqlite3
import time
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from federation import FORGOTTEN, Deployment, wait_for, write
from sklearn.metrics import r2_score

from ldp_flower import Numeric, Schema
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.strategies.runtime.result import Result

pytestmark = pytest.mark.deployment

PLACES = ("asked", "paid", "kept", "heard")  # where a node dies
WHOLE = ""  # where a node does not die
USERS = 400  # on each node
EPSILON, DELTA = 4.0, 1e-6
SLOPES = (20.0, -10.0)
MEANS = (0.5, -0.5, 15.0)  # of x, of z, and of y, which follows from the slopes
SCHEMA = Schema({"x": Numeric(-1, 1), "z": Numeric(-1, 1)}, "y", Numeric(-40, 40))
OTHER_FLOWER = [*filter(None, [os.environ.get("PYTHONPATH")])]

# The operator's app, which waits for its death where a file says so.
SITE = """
import json
import time
from pathlib import Path

from ldp_flower import Schema
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger

HERE = Path(__file__).parent


def perhaps_the_end(place):
    if (left := HERE / place).exists():
        number = int(left.read_text()) - 1
        left.write_text(str(number))
        if not number:
            (HERE / "reached").touch()
            time.sleep(3600)


def stopping(method, before, after):
    def call(*arguments):
        perhaps_the_end(before)
        returned = method(*arguments)
        perhaps_the_end(after)
        return returned

    return call


SqliteLedger.reserve = stopping(SqliteLedger.reserve, "asked", "paid")
SqliteLedger.fulfil = stopping(SqliteLedger.fulfil, "noisy", "kept")
schema = Schema.from_dict(json.loads((HERE / "schema.json").read_text()))
app = LdpClientApp(schema.loader(user_column="person"))
"""

APP = {
    "pyproject.toml": """
[project]
name = "asking"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "asking.server_app:app"
clientapp = "asking.server_app:none"

[tool.flwr.app.config]
folder = ""
strategy = ""
epsilon = 1.0
num-nodes = 1
held = 1
""",
    "asking/__init__.py": "",
    # Asks the held step when all nodes are there again.
    "asking/server_app.py": """
import json
import time
from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from ldp_flower import Schema
from ldp_flower.strategies import Means, PrivateRegression

app = ServerApp()
none = ClientApp()


@app.main()
def main(grid, context):
    config = context.run_config
    folder, push = Path(config["folder"]), grid.push_messages

    def push_to_all(messages):
        if messages[0].metadata.group_id == str(config["held"]):
            while not (folder / "back").exists():
                time.sleep(0.1)
            while len(list(grid.get_node_ids())) < config["num-nodes"]:
                time.sleep(0.1)
        return push(messages)

    grid.push_messages = push_to_all
    schema = Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    settings = {"epsilon": config["epsilon"], "noise": "node"}
    if config["strategy"] == "Means":
        strategy = Means(schema, ["x", "z", "y"], **settings)
    else:
        strategy = PrivateRegression(schema, **settings)
    store = folder / "run.db"
    result = strategy.start(grid, num_nodes=config["num-nodes"], timeout=240, store=store)
    (folder / "result.json").write_text(json.dumps(result.to_dict()))
""",
}


def table_of(number):
    """Return a node's table."""
    rng = np.random.default_rng(number)
    x, z = rng.uniform(0, 1, USERS), rng.uniform(-1, 0, USERS)
    y = SLOPES[0] * x + SLOPES[1] * z + rng.normal(0, 1, USERS)
    names = [f"patient-{number}-{user}" for user in range(USERS)]
    return pd.DataFrame({"x": x, "z": z, "y": y, "person": names})


def read(path, query):
    """Return the rows that a query finds in a file; none if there is no table yet."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def sums_on(ledger):
    """Return the noisy sums on a node's ledger, without places that are reserved for one."""
    found = read(ledger, "SELECT content FROM reply ORDER BY number")
    return [content for (content,) in found if content and not content.startswith(b"reserved")]


@pytest.mark.parametrize(
    ("strategy", "step", "places"),
    [
        pytest.param("Means", 1, (*PLACES, WHOLE), marks=pytest.mark.long),
        pytest.param("Means", 1, (*PLACES, *PLACES, WHOLE, WHOLE), marks=pytest.mark.long),
        pytest.param("PrivateRegression", 20, ("asked", "kept", WHOLE), marks=pytest.mark.long),
    ],
)
def test_users_of_killed_nodes_pay_a_plan_once(tmp_path, strategy, step, places):
    """A node dies at each of these places of a step, and answers the steps after it."""
    fate = {f"node-{number}": place for number, place in enumerate(places)}
    sites = {name: tmp_path / "sites" / name for name in fate}
    ledgers = {name: site / "ledger.db" for name, site in sites.items()}
    tables = {name: table_of(number) for number, name in enumerate(fate)}
    plain = json.dumps(SCHEMA.to_dict())
    write(tmp_path / "app", APP)
    write(tmp_path, {"schema.json": plain})
    federation = Deployment(tmp_path, secure=True)

    def start(name):
        federation.start_supernode(
            name,
            f'max-epsilon={EPSILON} max-delta={DELTA} noise="node" ledger-path="{ledgers[name]}" '
            f'data-path="{sites[name] / "table.csv"}"',
            environment={"PYTHONPATH": os.pathsep.join([str(sites[name]), *OTHER_FLOWER])},
            pinned=["--app", "site_app:app"],
        )

    def arrived(name):
        """Return the sums of a node that the server has, in their order."""
        query = "SELECT content FROM reply WHERE step > 0 AND content NOT NULL ORDER BY step"
        own = sums_on(ledgers[name])
        return [content for (content,) in read(tmp_path / "run.db", query) if content in own]

    def kill_where_it_is_to_die(name):
        if fate[name] == "heard":
            wait_for(lambda: len(arrived(name)) == step)
        else:
            wait_for((sites[name] / "reached").exists)
        federation.kill(name)
        (sites[name] / fate[name]).unlink()

    try:
        federation.start_superlink()
        for name, place in fate.items():
            write(sites[name], {"site_app.py": SITE, "schema.json": plain})
            if place:
                (sites[name] / place).write_text(str(step))
            tables[name].to_csv(sites[name] / "table.csv", index=False)
            SqliteLedger.create(ledgers[name])
            federation.register(name)
            start(name)
        run = federation.submit(
            tmp_path / "app",
            f'folder="{tmp_path}" strategy="{strategy}" epsilon={EPSILON} '
            f"num-nodes={len(fate)} held={step + 1}",
        )
        killed = [name for name, place in fate.items() if place]
        for name in killed:
            kill_where_it_is_to_die(name)
        paid = {name: len(SqliteLedger(path).spent()) for name, path in ledgers.items()}
        sums = {name: sums_on(path) for name, path in ledgers.items()}
        time.sleep(FORGOTTEN)
        for name in killed:
            start(name)
        (tmp_path / "back").touch()
        wait_for(lambda: federation.status(run).startswith("finished"), pause=1)
        assert federation.status(run) == "finished:completed"
    finally:
        federation.stop()
    result = Result.from_dict(json.loads((tmp_path / "result.json").read_text()))
    reports = [each.reports for each in result.steps]
    without = [name for name in killed if fate[name] != "heard"]
    assert reports.pop(step) == (len(fate) - len(without)) * USERS
    assert set(reports[1:]) == {len(fate) * USERS} and len(reports) > 2
    for name, place in fate.items():
        if step == 1:
            assert paid[name] == (0 if place == "asked" else USERS)
        spent = SqliteLedger(ledgers[name]).spent()
        assert spent == dict.fromkeys(tables[name].person, Cost(EPSILON, DELTA))
        # What the server has is on the ledger, bit by bit, and what was there stays.
        kept = sums_on(ledgers[name])
        assert len(sums[name]) == (step - 1 if place in ("asked", "paid") else step)
        assert kept[: len(sums[name])] == sums[name]
        if place == "kept":
            del kept[step - 1]
        assert arrived(name) == kept
    everybody = pd.concat(tables.values())
    if strategy == "Means":
        # One of three estimates is 5 standard errors away in 600,000 runs.
        assert (np.abs(result.means[:, 0] - MEANS) < 5 * result.std_error[:, 0]).all()
        assert (result.std_error[:, 0] < [0.05, 0.05, 1.0]).all()
    else:
        r2 = r2_score(everybody.y, result.predict(everybody))
        assert r2 > 0.8 and abs(r2 - result.score) < 5 * result.score_std_error
