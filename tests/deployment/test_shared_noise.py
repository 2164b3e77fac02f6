"""Ten operators' nodes that share their noise, and one or two of them killed on the way."""

import json

import numpy as np
import pandas as pd
import pytest
from federation import Deployment, write

from ldp_flower import Numeric, Schema
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.peers import Peer
from ldp_flower.guarantee.peers_file import create_key, write_peers
from ldp_flower.randomizers import BallSum

pytestmark = pytest.mark.deployment

NODES, USERS, DISHONEST = 10, 100, 2
EPSILON, DELTA = 2.0, 1e-6
SCHEMA = Schema({"age": Numeric(20, 80)}, "stay", Numeric(0, 30))

APP = {
    "pyproject.toml": """
[project]
name = "shared"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "shared.server_app:app"
clientapp = "shared.client_app:app"

[tool.flwr.app.config]
output = ""
schema = ""
nodes = 10
timeout = 60.0
strategy = "Means"
store = ""
""",
    "shared/__init__.py": "",
    "shared/client_app.py": "from flwr.clientapp import ClientApp\napp = ClientApp()\n",
    "shared/server_app.py": """
import json
from pathlib import Path

from flwr.serverapp import ServerApp

from ldp_flower import Schema
from ldp_flower.strategies import Means, PrivateRegression

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    schema = Schema.from_dict(json.loads(config["schema"]))
    given = {"epsilon": 2.0, "noise": "shared"}
    strategy = {
        "Means": lambda: Means(schema, "stay", **given),
        "PrivateRegression": lambda: PrivateRegression(schema, **given),
    }[config["strategy"]]()
    result = strategy.start(
        grid,
        num_nodes=config["nodes"],
        timeout=config["timeout"],
        store=config["store"] or None,
    )
    Path(config["output"]).write_text(json.dumps(result.to_dict()))
""",
}


class Hospitals:
    """Operators with keys of their own, who have pinned each other's."""

    def __init__(self, folder, number):
        self.folder = folder
        self.names = [f"hospital-{i}" for i in range(number)]
        self.federation = Deployment(folder)
        write(folder / "app", APP)
        (folder / "schema.json").write_text(json.dumps(SCHEMA.to_dict()))
        made = [self._made(name, seed) for seed, name in enumerate(self.names)]
        self.tables = pd.concat([table for table, _ in made])
        for name in self.names:
            write_peers(folder / f"{name}.toml", [peer for _, peer in made])

    def _made(self, name, seed):
        rng = np.random.default_rng([71, seed])
        age = rng.uniform(20, 80, USERS)
        stay = np.clip(0.2 * age + rng.normal(0, 3, USERS), 0, 30)
        people = [f"{name}-{i}" for i in range(USERS)]
        table = pd.DataFrame({"person": people, "age": age, "stay": stay})
        table.to_csv(self.folder / f"{name}.csv", index=False)
        (self.folder / f"{name}.csv").chmod(0o600)
        SqliteLedger.create(self.folder / f"{name}.db")
        key = create_key(self.folder / f"{name}.key").public_key().public_bytes_raw()
        return table, Peer(name, key)

    def start(self, name):
        file = self.folder / name
        self.federation.start_supernode(
            name,
            f'max-epsilon=2.0 max-delta=1e-5 noise="shared" max-dishonest={DISHONEST} '
            f'ledger-path="{file}.db"',
            pinned=[
                *("--table", f"{file}.csv", "--schema", str(self.folder / "schema.json")),
                *("--user-column", "person", "--key", f"{file}.key", "--peers", f"{file}.toml"),
            ],
        )

    def config(self, **given):
        settings = {
            "output": str(self.folder / "result.json"),
            "schema": json.dumps(SCHEMA.to_dict()),
            "nodes": len(self.names),
            **given,
        }
        return " ".join(
            f"{name}={json.dumps(value) if name != 'schema' else repr(value)}"
            for name, value in settings.items()
        )

    def ledger(self, name):
        return SqliteLedger(self.folder / f"{name}.db")


@pytest.fixture
def hospitals(tmp_path):
    made = Hospitals(tmp_path, NODES)
    try:
        made.federation.start_superlink()
        for name in made.names:
            made.start(name)
        yield made
    finally:
        made.federation.stop()


@pytest.mark.long
def test_ten_hospitals_share_their_noise(hospitals):
    status, log = hospitals.federation.run(hospitals.folder / "app", hospitals.config())
    assert status == "finished:completed", log
    result = json.loads((hospitals.folder / "result.json").read_text())
    honest = NODES - DISHONEST - 1
    alone = BallSum(EPSILON, DELTA, honest=honest).alone
    assert result["privacy"]["noise"] == "shared" and result["privacy"]["alone"] == alone
    for name in hospitals.names:
        spent = hospitals.ledger(name).spent()
        assert len(spent) == USERS and set(spent.values()) == {Cost(EPSILON, DELTA, alone=alone)}
    print(result["means"])
