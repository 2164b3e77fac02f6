"""The wire format is what docs/wire-format.md says: clients in Python and in JavaScript agree."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.guarantee.packing import pack, unpack
from ldp_flower.randomizers.two_level import TwoLevel
from ldp_flower.strategies import Counts, Means

ROOT = Path(__file__).parents[2]
FOLDER, PACKAGE = ROOT / "simulations" / "wire_client", ROOT / "packaging" / "npm"
KEPT = json.loads((FOLDER / "vectors.json").read_text("utf-8"))
# Answers messages of many users, each with a ledger of its own.
SEVERAL = """
const { Client, FileLedger } = await import(process.env.CLIENT);
const { createInterface } = await import("node:readline");
const ledgers = {};
for await (const line of createInterface({ input: process.stdin })) {
  const { user, ledger, message } = JSON.parse(line);
  if (!(ledger in ledgers)) { FileLedger.create(ledger); ledgers[ledger] = new FileLedger(ledger); }
  console.log(JSON.stringify(new Client(user, ledgers[ledger]).answer(message)));
}
"""
node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js (nodejs of Debian)")
pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def test_the_vectors_are_what_this_client_replies():
    from simulations.wire_client.vectors import vectors

    assert vectors() == KEPT
    assert {vector["reply"].get("error", [0])[0] for vector in KEPT} == {0, 100, 101, 103}


@pytest.mark.parametrize("table", ["questions", "transformations", "mechanisms"])
def test_the_tables_of_the_page_are_those_of_the_code(table):
    from simulations.wire_client.tables import TABLES

    page = (ROOT / "docs" / "wire-format.md").read_text("utf-8")
    shown = page.partition(f"<!-- {table} -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown.splitlines() == list(TABLES[table]())


@node
def test_the_package_passes_its_own_tests():
    """They compare its bytes with the vectors, and the law of its reports."""
    done = subprocess.run(
        ["node", "--test", str(PACKAGE)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)[1]) >= len(KEPT) + 4


@node
def test_both_draw_at_the_same_thresholds():
    settings = [(e, n) for e in (1e-6, 0.1, 1 / 3, 1.0, 7.5, 100.0) for n in (1, 2, 3, 100, 254)]
    script = (
        f"import {{ threshold }} from {json.dumps(str(PACKAGE / 'client.js'))};"
        f"for (const [e, n] of {json.dumps(settings)}) console.log(threshold(e, n).toString());"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        **{"capture_output": True, "text": True, "check": True, "timeout": 60},
    )
    assert list(map(int, done.stdout.split())) == [
        TwoLevel(epsilon, 1, num).threshold for epsilon, num in settings
    ]


def test_the_package_has_what_it_names():
    about = json.loads((PACKAGE / "package.json").read_text("utf-8"))
    assert about["license"] == "Apache-2.0" and "dependencies" not in about
    named = [path for entry in about["exports"].values() for path in entry.values()]
    assert {path.removeprefix("./") for path in named} == set(about["files"])
    assert all((PACKAGE / name).exists() for name in about["files"])


@node
def test_what_was_spent_is_spent(tmp_path):
    """Eight reports of epsilon 0.5 each are 4, also over two processes with one ledger."""
    vector = KEPT[0]
    steps = [{**vector["query"]["config"], "step": step} for step in range(1, 11)]
    messages = [{**vector["query"], "config": config} for config in steps]
    (tmp_path / "user.json").write_text(json.dumps(vector["user"]))
    create = ["node", PACKAGE / "node.js", "--create", tmp_path / "ledger.json"]
    subprocess.run(create, check=True, timeout=60)
    replies = []
    for some in (messages[:5], messages[5:]):
        done = subprocess.run(
            ["node", PACKAGE / "node.js", tmp_path / "user.json", tmp_path / "ledger.json"],
            input="".join(json.dumps(message) + "\n" for message in some),
            **{"capture_output": True, "text": True, "check": True, "timeout": 60},
        )
        replies += map(json.loads, done.stdout.splitlines())
    assert [reply.get("error", [0])[0] for reply in replies] == [0] * 8 + [102] * 2


class Elsewhere:
    """Nodes that hand their messages to the other client as JSON, with a row for each node."""

    def __init__(self, rows, folder):
        self.rows, self.folder = rows, folder
        self.app = ClientApp()
        self.app.query("census")(self.census)
        self.app.query("report")(self.report)

    def __enter__(self):
        self.process = subprocess.Popen(
            ["node", "--input-type=module", "-e", SEVERAL],
            env={**os.environ, "CLIENT": str(PACKAGE / "node.js")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def send(self, number, message):
        user = {"group": number, "features": self.rows[number - 1], "max-epsilon": 4.0}
        asked = {"user": user, "ledger": str(self.folder / str(number)), "message": message}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def census(self, message, context):
        found = self.send(context.node_id, {"type": "query.census"})["census"]
        # In a simulation all nodes are simulated: a strategy takes no others beside them.
        return Message(
            RecordDict({"census": MetricRecord({**found, "simulated": 1})}), reply_to=message
        )

    def report(self, message, context):
        query = Query.from_record_dict(message.content)
        layout, payload = pack(query.question.to_wire()[1])
        config = {"version": 1, "layout": layout, **query.to_config()}
        texts = {name: str(config[name]) for name in ("salt", "low", "high")}
        body = {"type": "query.report", "config": config | texts, "payload": payload.hex()}
        found = self.send(context.node_id, body)
        arrays = unpack(found["config"]["layout"], bytes.fromhex(found["payload"]))
        return Message(Report(arrays).to_record_dict(), reply_to=message)


@pytest.mark.slow
@node
@pytest.mark.parametrize("strategy", [Counts, Means])
def test_a_strategy_estimates_from_the_other_clients_reports(strategy, tmp_path):
    from simulations.wire_client.vectors import SCHEMA

    rng = np.random.default_rng(0)
    ages, jobs = rng.uniform(18, 80, 600), rng.choice(3, 600, p=[0.6, 0.3, 0.1])
    kind = SCHEMA.kind("age")
    rows = np.column_stack([np.ones(600), kind.coded(ages), np.eye(3)[jobs]]).tolist()
    with Elsewhere(rows, tmp_path) as elsewhere:
        grid = InProcessGrid(elsewhere.app, len(rows))
        column = "job" if strategy is Counts else ["age"]
        result = strategy(SCHEMA, column, epsilon=1.0).start(grid, num_nodes=len(rows))
    assert result.num_reports == len(rows) and not any(step.rejected for step in result.steps)
    estimates = result.estimates()
    truth = np.bincount(jobs) / 600 if strategy is Counts else [ages.mean()]
    # The system's randomness: 5 standard errors, once in a million runs by chance.
    assert (np.abs(estimates.values - truth) < 5 * estimates.std_errors).all()
