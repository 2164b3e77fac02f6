"""How long a message takes an operator's node, and a plain one with the same app in the run.

Run as a script: both nodes are there at once and are asked in turn, for as many users as in the
census. The same operator's node answers a second time from a table, without an app.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import federation
import flwr
import numpy as np
from federation import Deployment, write
from test_pinned import HOSTILE, PATHS, SCHEMA, SITE, table_of

from ldp_flower.guarantee.ledger import SqliteLedger

MESSAGES = 6
federation.RUN_TIMEOUT = 900.0  # seconds; a busy machine takes minutes
SERVER = """
import json
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(0.5)
    seconds = {}
    for number in range(int(context.run_config["schema"])):
        for node in nodes:
            started = time.monotonic()
            (sent,) = grid.push_messages([Message(RecordDict(), node, "query.census")])
            while not (replies := list(grid.pull_messages([sent]))):
                time.sleep(0.05)
            users = replies[0].content["census"]["users"]
            seconds.setdefault(users, []).append(time.monotonic() - started)
    Path(context.run_config["output"]).write_text(json.dumps(seconds))
"""


def main():
    """Print the medians of plain node, pinned app and table, and their ratios to the first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = {"site_app.py": SITE, "schema.json": json.dumps(SCHEMA.to_dict())}
        app = HOSTILE | {
            "hostile/server_app.py": SERVER,
            "hostile/client_app.py": SITE,
            "hostile/schema.json": site["schema.json"],
            "pyproject.toml": HOSTILE["pyproject.toml"].replace(
                'publisher = "stranger"',
                'publisher = "stranger"\nfab-include = ["**/*.py", "**/*.json"]',
            ),
        }
        write(folder / "hostile", app)
        write(folder / "etc", site)
        nodes = Deployment(folder)
        environment = {"PYTHONPATH": os.pathsep.join([str(folder / "etc"), *PATHS])}
        try:
            nodes.start_superlink()
            for number in range(3):
                data, ledger = folder / f"{number}.csv", folder / f"{number}.db"
                table_of(number).iloc[number:].to_csv(data, index=False)
                SqliteLedger.create(ledger)
                node_config = f'max-epsilon=8.0 ledger-path="{ledger}"'
                pinned = ["--table", str(data), "--schema", str(folder / "etc" / "schema.json")]
                pinned += ["--user-column", "person"]
                if number < 2:
                    node_config += f' data-path="{data}"'
                    pinned = ["--app", "site_app:app"] if number else None
                nodes.start_supernode(
                    f"node-{number}", node_config, environment=environment, pinned=pinned
                )
            settings = f'output="{folder}/seconds.json" schema="{MESSAGES}"'
            status, log = nodes.run(folder / "hostile", settings)
            if status != "finished:completed":
                sys.exit(log)
        finally:
            nodes.stop()
        seconds = json.loads((folder / "seconds.json").read_text())
    medians = [float(np.median(each)) for _, each in sorted(seconds.items(), reverse=True)]
    for kind, median in zip(("plain", "pinned app", "table"), medians, strict=True):
        print(f"{flwr.__version__}  {kind:10}  {median:.2f} s  {median / medians[0]:.2f}")


if __name__ == "__main__":
    main()
