"""The operator's node against a run that brings code of its own."""

import json
import os
import re
import shlex
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import yaml
from federation import GUIDE, Deployment, write

from ldp_flower import Numeric, Schema
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = pytest.mark.deployment

NODE = GUIDE.parent / "node"
UNIT = shlex.split(
    re.search("^ExecStart=(.*)$", (NODE / "ldp-flower-node.service").read_text(), re.MULTILINE)[1]
)
PATHS = [*filter(None, [os.environ.get("PYTHONPATH")])]  # where another Flower may be
USERS = 80
THETA = np.array([0, 0, 0.9, 0, 0, 0, 0, -0.4, 0])  # the intercept first
SIGN = Numeric(-1, 1, centre=0, scale=1)
SCHEMA = Schema({f"x{i}": SIGN for i in range(8)}, target="y", bounds=SIGN)
OTHER = Schema(SCHEMA.columns | {"x3": Numeric(-2, 2, centre=0, scale=1)}, "y", SIGN)
SITE = """
import json
from pathlib import Path

from ldp_flower import Schema
from ldp_flower.clients import LdpClientApp

schema = Schema.from_dict(json.loads(Path(__file__).with_name("schema.json").read_text()))
app = LdpClientApp(schema.loader(user_column="person"))
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
schema = ""
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
    data = np.genfromtxt(context.node_config["data-path"], delimiter=",", skip_header=1)
    return Message(RecordDict({"raw": ArrayRecord([data])}), reply_to=message)


app.train()(raw)
""",
    "hostile/server_app.py": """
import json
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

from ldp_flower import Schema
from ldp_flower.strategies import NonInteractiveIht, PrivateRegression

app = ServerApp()


def raw(grid):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(0.5)
    messages = [Message(RecordDict(), dst_node_id=node, message_type="train") for node in nodes]
    replies = grid.send_and_receive(messages, timeout=60)
    return [[reply.error.code, reply.error.reason] if reply.has_error() else [0, ""]
            for reply in replies]


@app.main()
def main(grid, context):
    answers = {"train": raw(grid)}
    try:
        schema = Schema.from_dict(json.loads(context.run_config["schema"]))
        PrivateRegression(schema, epsilon=8.0).start(grid, num_nodes=3, timeout=60)
    except ValueError as error:
        answers["schema"] = str(error)
    # One question: each starts processes, which takes seconds.
    strategy = NonInteractiveIht(9, sparsity=2, epsilon=8.0)
    answers["coef"] = strategy.start(grid, num_nodes=3, timeout=60).to_dict()["coef"]
    Path(context.run_config["output"]).write_text(json.dumps(answers))
""",
}


def guides_command(beginning):
    """Return the guide's command that begins so."""
    (line,) = re.findall(rf"^{beginning}.*$", GUIDE.read_text(), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.slow
def test_no_line_of_a_run_is_executed_and_the_operators_app_answers(tmp_path):
    """Of three nodes two are their operators', by the guide and by its unit; one is a plain one."""
    write(tmp_path / "hostile", HOSTILE)
    plain = json.dumps(SCHEMA.to_dict())
    write(tmp_path / "etc", {"site_app.py": SITE, "schema.json": plain})
    settings = (NODE / "node.toml").read_text().replace("reply-after = 5.0", "")
    settings = settings.replace("/var/lib/ldp-flower/ledger.db", str(tmp_path / "1.db"))
    (tmp_path / "etc" / "node.toml").write_text(settings.replace("epsilon = 2.0", "epsilon = 8.0"))
    federation = Deployment(tmp_path, secure=True)
    ledgers = []
    try:
        federation.start_superlink()
        for number in range(3):
            table_of(number).to_csv(tmp_path / f"{number}.csv", index=False)
            ledgers.append(SqliteLedger.create(tmp_path / f"{number}.db"))
            federation.register(f"node-{number}")
        python = [os.pathsep.join([str(tmp_path / "etc"), *PATHS])]
        environments = [
            {"PYTHONPATH": python[0], "STOLEN": str(tmp_path / f"stolen-{number}")}
            for number in range(3)
        ]
        places = {"ca.crt": tmp_path / "ca.crt", "node-0": tmp_path / "node-0", "=2.0": "=8.0"}
        places |= {"/var/lib/flower/ledger.db": tmp_path / "0.db", "table.csv": tmp_path / "0.csv"}
        by_guide = guides_command("ldp-flower supernode --app")
        federation.start_documented("node-0", by_guide, places, environments[0])
        places = {
            "/opt/ldp-flower/bin/": "",
            "/etc/ldp-flower/ca.crt": tmp_path / "ca.crt",
            "/etc/ldp-flower/node-0": tmp_path / "node-1",
            "/etc/ldp-flower": tmp_path / "etc",
            "/var/lib/ldp-flower/patients.csv": tmp_path / "1.csv",
        }
        federation.start_documented("node-1", UNIT, places, environments[1])
        node_config = f'max-epsilon=8.0 ledger-path="{tmp_path}/2.db" data-path="{tmp_path}/2.csv"'
        federation.start_supernode("node-2", node_config, environment=environments[2])
        output, schema = tmp_path / "answers.json", json.dumps(OTHER.to_dict())
        settings = f"output=\"{output}\" schema='{schema}'"
        status, log = federation.run(tmp_path / "hostile", settings)
    finally:
        federation.stop()
    assert status == "finished:completed", log
    answers = json.loads(output.read_text())

    # The run's own code was in one place, where it took everything.
    assert [path.name for path in tmp_path.glob("stolen-*")] == ["stolen-2"]
    assert sorted(code for code, _ in answers["train"]) == [0, 104, 104]
    for number in range(2):
        home = tmp_path / "homes" / f"node-{number}"
        assert not [path for path in home.rglob("*") if path.suffix in (".py", ".fab")]
    assert list((tmp_path / "homes" / "node-2").rglob("client_app.py"))

    # The operators' own answered, after they were asked about the right schema.
    assert "of 2 with another one" in answers["schema"] and "column x3" in answers["schema"]
    # In 300 simulated runs like this one the correlation was never below 0.83.
    coef = np.array(answers["coef"])
    assert coef @ THETA > 0.6 * np.linalg.norm(coef) * np.linalg.norm(THETA)
    assert [len(ledger.spent()) for ledger in ledgers] == [USERS, USERS, 0]
    assert {cost for ledger in ledgers for cost in ledger.spent().values()} == {Cost(8.0)}
    told = (tmp_path / "node-1.log").read_text()
    paid = re.findall(
        r"a reply of .*1\.csv after .* (\d+) of \1 users paid epsilon 8, delta 0\.", told
    )
    assert sum(map(int, paid)) == USERS
    assert len(set(re.findall("'stranger/hostile' '1.0.0', SHA-256 ([0-9a-f]{64})", told))) == 1


def test_the_unit_and_the_container_run_the_same_command(tmp_path):
    (service,) = yaml.safe_load((NODE / "compose.yaml").read_text())["services"].values()
    entry = re.search(r"^ENTRYPOINT (.*)$", (NODE / "Dockerfile").read_text(), re.MULTILINE)[1]
    assert [*json.loads(entry), *shlex.split(service["command"])][1:] == UNIT[1:]
    assert any(":exec" in mount for mount in service["tmpfs"])  # Docker's own are not


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path):
    unit = (NODE / "ldp-flower-node.service").read_text()
    installed = unit.replace(UNIT[0], shutil.which("true"))
    (tmp_path / "ldp-flower-node.service").write_text(installed)
    command = ["systemd-analyze", "verify", str(tmp_path / "ldp-flower-node.service")]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    (tmp_path / "ldp-flower-node.service").write_text(installed.replace("UMask=", "Umask="))
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Umask" in verified.stderr


def table_of(number):
    """Return a node's table."""
    rng = np.random.default_rng(number)
    features = rng.choice([-1.0, 1.0], (USERS, 8))
    targets = features @ THETA[1:] + rng.normal(0, 0.04, USERS)
    frame = pd.DataFrame(features, columns=list(SCHEMA.columns)).assign(y=targets.clip(-1, 1))
    return frame.assign(person=[f"patient-{number}-{i}" for i in range(USERS)])
