"""The wire format is what docs/wire-format.md says: this client and another one reply the same."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.guarantee.messages import Query, Report, pack, unpack
from ldp_flower.strategies import Counts, Means

FOLDER = Path(__file__).parents[2] / "simulations" / "wire_client"
CLIENT = FOLDER / "client.mjs"
KEPT = json.loads((FOLDER / "vectors.json").read_text("utf-8"))
# Answers messages of many users, each with a ledger of its own.
SEVERAL = """
const { Client } = await import(process.env.CLIENT);
const { createInterface } = await import("node:readline");
for await (const line of createInterface({ input: process.stdin })) {
  const { user, ledger, message } = JSON.parse(line);
  console.log(JSON.stringify(new Client(user, ledger).answer(message)));
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

    page = (FOLDER.parents[1] / "docs" / "wire-format.md").read_text("utf-8")
    shown = page.partition(f"<!-- {table} -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown.splitlines() == list(TABLES[table]())


def asked(user, messages, folder, words=()):
    """Return what the other client replies to messages, one after the other."""
    (folder / "user.json").write_text(json.dumps(user))
    done = subprocess.run(
        ["node", str(CLIENT), str(folder / "user.json"), str(folder / "ledger.json")],
        input="".join(json.dumps(message) + "\n" for message in messages),
        env={**os.environ, "RECORDED_WORDS": " ".join(words)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@node
@pytest.mark.parametrize("vector", KEPT, ids=lambda vector: vector["name"])
def test_another_client_replies_the_same(vector, tmp_path):
    messages = [{"type": "query.census"}, vector["query"], vector["query"]]
    census, reply, again = asked(vector["user"], messages, tmp_path, vector["words"])
    assert vector["census"] in (None, census.get("census"))
    assert reply == again == vector["reply"]


@node
def test_what_was_spent_is_spent(tmp_path):
    """Eight reports of epsilon 0.5 each are 4."""
    vector = KEPT[0]
    steps = [{**vector["query"]["config"], "step": step} for step in range(1, 11)]
    messages = [{**vector["query"], "config": config} for config in steps]
    replies = asked(vector["user"], messages, tmp_path)
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
            env={**os.environ, "CLIENT": str(CLIENT)},
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
