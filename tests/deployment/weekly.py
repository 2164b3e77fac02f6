"""An app that asks a series every week, for real SuperNodes; a node may be killed at a line."""

from pathlib import Path

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
kinds = "memoised"
weeks = 2
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

from ldp_flower.clients import LdpClientApp

from .data import SCHEMA
from .dies_at import die_at


def load_users(context):
    folder = Path(context.node_config["folder"])
    (folder / "asked").open("a").write("x")
    if (place := folder / "kill").exists() and (folder / "asked").stat().st_size % 2 == 0:
        die_at(int(place.read_text()), lambda: place.rename(place.with_suffix(".done")))
    names = (folder / "names").read_text().split()
    sorts = ["abc"[int(name[1:]) % 3] for name in names]
    return SCHEMA.users({"sort": sorts}, groups=names, ids=names)


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
    folder, week = Path(config["folder"]), config["week"]
    for kind in config["kinds"].split():
        asked = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
        series = Series(
            asked,
            collections=config["weeks"],
            memoised=kind == "memoised",
            store=folder / f"{kind}.db",
        )
        try:
            result = series.start(grid, num_nodes=1, timeout=100.0, collection=week)
        except TooFewReports as lost:
            (folder / "lost").open("a").write(f"{lost}" + chr(10))
            return
        (folder / f"{kind}-{week}.json").write_text(json.dumps(result.to_dict()))
""",
}
