"""The real thing: a SuperLink, two SuperNodes and an app, as processes on loopback."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from federation import Deployment, write

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = pytest.mark.deployment

USERS_PER_NODE = 1000
THETA = np.array([0, 0.9, 0, 0, 0, 0, -0.4, 0])

APP = {
    "pyproject.toml": """
[project]
name = "deployed"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "deployed.server_app:app"
clientapp = "deployed.client_app:app"

[tool.flwr.app.config]
output = ""
""",
    "deployed/__init__.py": "",
    "deployed/client_app.py": """
import numpy as np

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp


def load_users(context):
    with np.load(context.node_config["data-path"]) as data:
        return Users.from_rows(data["features"], data["targets"], groups=data["ids"])


app = LdpClientApp(load_users)
""",
    "deployed/server_app.py": """
import json
from pathlib import Path

from flwr.serverapp import ServerApp

from ldp_flower import Numeric, Schema
from ldp_flower.strategies import Means, NonInteractiveIht

SCHEMA = Schema({f"x{j}": Numeric(-2, 2) for j in range(1, 8)}, "y", Numeric(-2, 2))
app = ServerApp()


@app.main()
def main(grid, context):
    # One question: each starts processes, which takes seconds.
    strategy = NonInteractiveIht(8, sparsity=2, epsilon=2.0)
    result = strategy.start(grid, num_nodes=2, timeout=60)
    means = Means(SCHEMA, "y", epsilon=0.5, min_reports=5).start(grid, num_nodes=2, timeout=60)
    told = {"mean": means.means[0, 0], "error": means.std_error[0, 0]}
    Path(context.run_config["output"]).write_text(json.dumps(result.to_dict() | told))
""",
}


@pytest.fixture
def deployment(tmp_path):
    write(tmp_path / "app", APP)
    federation = Deployment(tmp_path)
    try:
        federation.start_superlink()
        yield federation
    finally:
        federation.stop()


class Operator(NamedTuple):
    """Whoever runs a SuperNode, and has set it up once."""

    node_config: str
    ledger: SqliteLedger
    patients: list[str]

    @classmethod
    def number(cls, number, folder):
        rng = np.random.default_rng(number)
        patients = [f"patient-{number}-{i}" for i in range(USERS_PER_NODE)]
        features = rng.choice([-1.0, 1.0], (USERS_PER_NODE, len(THETA)))
        targets = features @ THETA + rng.normal(0, 0.04, USERS_PER_NODE)
        data, path = folder / f"data-{number}.npz", folder / f"ledger-{number}.db"
        np.savez(data, ids=np.array(patients), features=features, targets=targets)
        node_config = f'max-epsilon=2.5 ledger-path="{path}" data-path="{data}"'
        return cls(node_config, SqliteLedger.create(path), patients)


@pytest.mark.slow
def test_a_budget_is_spent_once_whatever_restarts(deployment, tmp_path):
    operators = [Operator.number(number, tmp_path) for number in range(2)]
    everything = [{name: Cost(2.5) for name in operator.patients} for operator in operators]
    _, second_node = [
        deployment.start_supernode(f"node-{number}", operator.node_config)
        for number, operator in enumerate(operators)
    ]

    status, log = deployment.run(tmp_path / "app", f'output="{tmp_path / "first.json"}"')

    assert status == "finished:completed", log
    result = json.loads((tmp_path / "first.json").read_text())
    assert result["num_users"] == result["num_reports"] == 2 * USERS_PER_NODE
    assert result["privacy"]["epsilon"] == 2.0
    assert not result["privacy"]["seeded"]
    # The mean of targets is 0. Of 300 simulated runs like this one none was further than 3.1 of
    # its standard errors away, and these were between .14 and .27.
    assert abs(result["mean"]) < 5 * result["error"]
    assert 0.1 < result["error"] < 0.4
    # In 300 simulated runs like this one the correlation was never below 0.83.
    coef = np.array(result["coef"])
    assert coef @ THETA > 0.6 * np.linalg.norm(coef) * np.linalg.norm(THETA)
    assert [operator.ledger.spent() for operator in operators] == everything

    # The restarted node is a new one to Flower and remembers nothing but its ledger.
    second_node.terminate()
    second_node.wait()
    deployment.start_supernode("node-1", operators[1].node_config)

    status, log = deployment.run(tmp_path / "app", f'output="{tmp_path / "second.json"}"')

    assert status == "finished:failed", log
    assert "2 x error 102: No addressed user can afford this query" in log
    assert not (tmp_path / "second.json").exists()
    assert [operator.ledger.spent() for operator in operators] == everything
