"""Series on a SuperNode that is another process, and another node, with other users, each week."""

import json

import pytest
from federation import Deployment, write

from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = [pytest.mark.deployment, pytest.mark.slow]

STAY, COME, WEEKS = 300, 30, 2

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
    "weekly/client_app.py": """
from pathlib import Path

from ldp_flower.clients import LdpClientApp

from .data import SCHEMA


def load_users(context):
    names = Path(context.node_config["names"]).read_text().split()
    sorts = ["abc"[int(name[1:]) % 3] for name in names]
    return SCHEMA.users({"sort": sorts}, groups=names, ids=names)


app = LdpClientApp(load_users)
""",
    "weekly/server_app.py": """
import json
from pathlib import Path

from flwr.serverapp import ServerApp

from ldp_flower.strategies import Counts, Series

from .data import SCHEMA

app = ServerApp()


@app.main()
def main(grid, context):
    folder, week = Path(context.run_config["folder"]), context.run_config["week"]
    for memoised in (False, True):
        asked = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
        name = "memoised" if memoised else "panels"
        series = Series(asked, collections=2, memoised=memoised, store=folder / f"{name}.db")
        result = series.start(grid, num_nodes=1, timeout=100.0, collection=week)
        (folder / f"{name}.json").write_text(json.dumps(result.to_dict()))
""",
}


def test_users_keep_their_panels_and_their_noise_on_nodes_that_are_restarted(tmp_path):
    federation = Deployment(tmp_path)
    write(tmp_path / "app", APP)
    path, names = tmp_path / "ledger.db", tmp_path / "names"
    ledger = SqliteLedger.create(path)
    stay = [f"m{user:03d}" for user in range(STAY)]
    config = f'max-epsilon=8.0 ledger-path="{path}" allow-public-changes=true names="{names}"'
    try:
        federation.start_superlink()
        for week in range(1, WEEKS + 1):
            # Others are there each week, before those who stay, as a node sorts users by name.
            names.write_text(" ".join([f"a{week}{user:02d}" for user in range(COME)] + stay))
            node = federation.start_supernode("node", config)
            status, log = federation.run(tmp_path / "app", f'folder="{tmp_path}" week={week}')
            assert status == "finished:completed", log
            node.terminate()
            node.wait()
    finally:
        federation.stop()
    panels, memoised = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("panels", "memoised")
    )
    assert panels["users"] == memoised["users"] == [STAY + COME] * WEEKS
    assert panels["reports"] == panels["asked"] and memoised["reports"] == [STAY + COME] * WEEKS
    assert panels["no_budget"] == memoised["no_budget"] == 0
    assert memoised["change"][1:] == [[0.0] * 3] * (WEEKS - 1)
    # Whoever stayed has been in one panel, and has paid the memoised series once.
    spent = {user: cost.epsilon for user, cost in ledger.spent().items()}
    assert all(spent[user] == 8.0 for user in stay)
    assert len(spent) == STAY + COME * WEEKS and set(spent.values()) == {4.0, 8.0}
    assert list(spent.values()).count(8.0) == sum(panels["reports"])
