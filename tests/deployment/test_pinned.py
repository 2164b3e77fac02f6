"""The operator's node against a run that brings code of its own."""

import json
from pathlib import Path

import numpy as np
import pytest
from federation import Deployment, write

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = pytest.mark.deployment

USERS = 1000
THETA = np.array([0, 0.9, 0, 0, 0, 0, -0.4, 0])
SITE = """
import numpy as np

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp


def load_users(context):
    with np.load(context.node_config["data-path"]) as data:
        return Users.from_rows(data["features"], data["targets"], groups=data["ids"])


app = LdpClientApp(load_users)
"""
HOSTILE = {
    "pyproject.toml": """
[project]
name = "hostile"
version = "1.0.0"

[tool.flwr.app]
publisher = "stranger"

[tool.flwr.app.components]
serverapp = "hostile.server_app:app"
clientapp = "hostile.client_app:app"

[tool.flwr.app.config]
output = ""
stolen = ""
""",
    "hostile/__init__.py": "",
    "hostile/client_app.py": """
import os
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

Path(os.environ["STOLEN"]).touch()
app = ClientApp()


def raw(message, context):
    data = np.load(context.node_config["data-path"])
    return Message(RecordDict({"raw": ArrayRecord([data["targets"]])}), reply_to=message)


app.train()(raw)
app.query("report")(raw)
""",
    "hostile/server_app.py": """
import json
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

from ldp_flower.strategies import LdpIht

app = ServerApp()


def raw(grid, kind):
    nodes = list(grid.get_node_ids())
    messages = [Message(RecordDict(), dst_node_id=node, message_type=kind) for node in nodes]
    replies = grid.send_and_receive(messages, timeout=60)
    return [[reply.error.code, reply.error.reason] if reply.has_error() else None
            for reply in replies]


@app.main()
def main(grid, context):
    answers = {kind: raw(grid, kind) for kind in ("train", "query.report")}
    if None not in answers["train"]:
        strategy = LdpIht(8, sparsity=2, epsilon=2.0, min_reports=5)
        answers["coef"] = strategy.start(grid, num_nodes=2, timeout=60).to_dict()["coef"]
    Path(context.run_config["output"]).write_text(json.dumps(answers))
""",
}


@pytest.fixture
def federation(tmp_path):
    write(tmp_path / "hostile", HOSTILE)
    write(tmp_path / "site", {"site_app.py": SITE})
    federation = Deployment(tmp_path)
    try:
        federation.start_superlink()
        yield federation
    finally:
        federation.stop()


def operator(folder, number):
    """Return a node's configuration and its ledger."""
    rng = np.random.default_rng(number)
    features = rng.choice([-1.0, 1.0], (USERS, len(THETA)))
    targets = features @ THETA + rng.normal(0, 0.04, USERS)
    ids = np.array([f"patient-{number}-{i}" for i in range(USERS)])
    data, path = folder / f"data-{number}.npz", folder / f"ledger-{number}.db"
    np.savez(data, ids=ids, features=features, targets=targets)
    ledger = SqliteLedger.create(path)
    return f'max-epsilon=2.0 ledger-path="{path}" data-path="{data}"', ledger


def answers_of(federation, folder, pinned):
    """Return what the hostile run got of two nodes, and these nodes' ledgers."""
    environment = {"PYTHONPATH": str(folder / "site"), "STOLEN": str(folder / "stolen")}
    operators = [operator(folder, number) for number in range(2)]
    for number, (node_config, _) in enumerate(operators):
        federation.start_supernode(
            f"node-{number}", node_config, environment=environment, pinned=pinned
        )
    output = folder / "answers.json"
    status, log = federation.run(folder / "hostile", f'output="{output}"')
    assert status == "finished:completed", log
    return json.loads(output.read_text()), [ledger for _, ledger in operators]


def test_no_line_of_a_run_is_executed_and_the_operators_app_answers(federation, tmp_path):
    answers, ledgers = answers_of(federation, tmp_path, ["--app", "site_app:app"])

    assert not (tmp_path / "stolen").exists()
    assert {code for code, _ in answers["train"]} == {104}
    assert {code for code, _ in answers["query.report"]} == {100}
    coef = np.array(answers["coef"])
    assert coef @ THETA > 0.6 * np.linalg.norm(coef) * np.linalg.norm(THETA)
    for ledger in ledgers:
        assert set(ledger.spent().values()) == {Cost(2.0)}
    assert not list(Path(tmp_path / "homes" / "node-0").rglob("*.py"))


def test_the_same_run_takes_everything_from_a_node_that_is_not_the_operators(federation, tmp_path):
    answers, ledgers = answers_of(federation, tmp_path, None)

    assert (tmp_path / "stolen").exists()
    assert answers == {"train": [None, None], "query.report": [None, None]}
    assert not ledgers[0].spent()
