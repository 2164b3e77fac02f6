"""The command: what it makes of an app's folder, and what it refuses."""

import csv
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from flwr.app import MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from typer.testing import CliRunner

from ldp_flower.compare.capture import captured
from ldp_flower.compare.comparison_plan import ComparisonPlan, MethodRun
from ldp_flower.compare.nodes import AppNodes

application = import_module("ldp_flower.cli.app").app
TINY = Path(__file__).parents[1] / "compare" / "tiny_model.py"

PYPROJECT = """
[project]
name = "quick"
version = "1.0.0"

[tool.flwr.app]
publisher = "nobody"

[tool.flwr.app.components]
serverapp = "quick.server_app:app"
clientapp = "quick.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 3
learning-rate = 0.5
seed = 0

[tool.flwr.federations]
default = "local"

[tool.flwr.federations.local]
options.num-supernodes = 120
"""
CLIENT_APP = """
from quick.task import make_app

app = make_app()
"""
# In the form of Flower's quickstarts: main makes model, settings and strategy, and saves the model.
SERVER_APP = """
from pathlib import Path

from flwr.app import ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg, FedProx

from quick.task import INITIAL, evaluate

app = ServerApp()


@app.main()
def main(grid, context):
    assert len(list(grid.get_node_ids())) == 120
    strategy = FedAvg(fraction_train=0.5, min_available_nodes=10**6)
    config = ConfigRecord({"lr": context.run_config["learning-rate"]})
    result = strategy.start(
        grid=grid,
        initial_arrays=INITIAL,
        train_config=config,
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=evaluate,
    )
    Path("final.txt").write_text(str(result))
"""


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Return an app's folder; nothing of it stays imported."""
    package = tmp_path / "app" / "quick"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").touch()
    shutil.copy(TINY, package / "task.py")
    (package / "client_app.py").write_text(CLIENT_APP)
    (package / "server_app.py").write_text(SERVER_APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "quick"]:
        del sys.modules[name]


def command(package, *arguments):
    known = ("compare", str(package.parent), "--output", "out")
    return CliRunner().invoke(application, [*known, *arguments])


QUICKLY = ("--rounds", "2", "-m", "FedAvg", "-m", "LdpFedAvg", "--seeds", "1")


@pytest.mark.slow
def test_an_apps_folder_is_compared_and_the_same_command_goes_on(quick):
    told = command(quick, *QUICKLY, "--epsilons", "3", "4")
    assert told.exit_code == 0, told.output
    assert "120 nodes, 2 methods, 2 epsilons, 1 seed" in told.output
    with Path("out/cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 and {row["metric"] for row in rows} == {"accuracy"}
    assert "| LdpFedAvg | 3 | 3 | nobody |" in Path("out/table.md").read_text()
    assert Path("out/compare.png").stat().st_size > 5_000
    assert not Path("final.txt").exists()  # main went as far as start
    before = Path("out/cells.csv").read_bytes()
    assert command(quick, *QUICKLY, "--epsilons", "4").exit_code == 0
    assert Path("out/cells.csv").read_bytes() == before
    assert command(quick, *QUICKLY, "--epsilons", "4", "-c", "learning-rate=0.1").exit_code == 0
    assert len(Path("out/cells.csv").read_bytes()) > len(before)


def test_what_main_gives_to_start_is_what_nodes_are_sent(quick):
    sys.path.insert(0, str(quick.parent))
    server = (quick / "server_app.py").read_text()
    server = server.replace("FedAvg(", "FedProx(proximal_mu=0.3, arrayrecord_key='model', ")
    (quick / "server_app.py").write_text(server)
    seen = []
    client_app = ClientApp()

    @client_app.train()
    def train(message, context):
        seen.append(message.content)
        return message

    server_app = import_module("quick.server_app").app
    run_config = {"num-server-rounds": 1, "learning-rate": 0.25}
    app = captured(client_app, server_app, 120, run_config)
    assert app.strategy == "FedProx" and app.run_config == run_config
    with pytest.raises(ValueError, match="Expected a reply to a training message"):
        AppNodes(app, 120).check()  # it has no reply
    (content,) = seen
    assert isinstance(content, RecordDict)
    assert dict(content["config"]) == {"lr": 0.25, "proximal-mu": 0.3, "server-round": 1}
    assert list(content.array_records) == ["model"]
    app = replace(app, evaluate_fn=lambda number, arrays: MetricRecord({"score": 0.0}))
    ComparisonPlan(lambda seed: app, 120, rounds=1).run(MethodRun("", "LdpFedAvg", 4.0, 0))
    assert len(seen) == 1 + 120
    assert dict(seen[-1]["config"]) == dict(content["config"])
    assert list(seen[-1].array_records) == ["model"]


def without_evaluation(server):
    return server.replace("evaluate_fn=evaluate,", "")


@pytest.mark.parametrize(
    ("edit", "code", "text"),
    [
        (without_evaluation, 1, "--evaluate MODULE:FUNCTION"),
        (lambda s: s.replace("@app.main()", ""), 1, "Flower's message API (server_fn)"),
        (lambda s: s.replace("result = strategy.start(", "result = dict("), 1, "LegacyContext"),
        (lambda s: s.replace("initial_arrays=INITIAL", "initial_arrays=None"), 1, "NoneType"),
        (
            lambda s: s.replace("    strategy =", "    open('rows.csv')\n    strategy ="),
            1,
            "rows.csv",
        ),
        (
            lambda s: s.replace(
                "strategy = FedAvg(fraction_train=0.5, ", "strategy = Private("
            ).replace(
                "app = ServerApp()",
                "from ldp_flower.strategies import LdpFedAvg\n\n\n"
                "def Private(**options):\n    return LdpFedAvg(epsilon=1.0)\n\n\napp = ServerApp()",
            ),
            1,
            "got LdpFedAvg: use FedAvg in its place",
        ),
        (
            lambda s: s.replace("from flwr.app", "from flwr.nowhere"),
            2,
            "has no flwr.nowhere: the app",
        ),
    ],
)
def test_an_app_that_cannot_be_compared_is_told_what_to_change(quick, edit, code, text):
    server = quick / "server_app.py"
    server.write_text(edit(server.read_text()))
    told = command(quick, *QUICKLY)
    assert (told.exit_code, text in told.output) == (code, True), told.output
    assert "Traceback" not in told.output


def test_the_users_own_evaluation_takes_its_place(quick):
    server = quick / "server_app.py"
    server.write_text(without_evaluation(server.read_text()))
    arguments = ("--evaluate", "quick.task:evaluate", "-m", "untrained", "--seeds", "1")
    told = command(quick, *arguments)
    assert told.exit_code == 0, told.output
    assert "accuracy" in Path("out/table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--epsilons", "0"], "Expected epsilon > 0"),
        (["-m", "FedSGD"], "Expected methods in"),
        (["-c", "lr"], "Expected KEY=VALUE"),
        (["-c", "lr=1"], "no setting 'lr'"),
        (["-l", "mode=3"], "mode"),
        (["--evaluate", "quick.task"], "MODULE:NAME"),
        (["--evaluate", "quick.task:judge"], "cannot be imported"),
        (["--nodes", "200000"], "delta < 1 / num_nodes"),
    ],
)
def test_bad_arguments_are_named(quick, arguments, text):
    told = command(quick, *arguments)
    assert told.exit_code == 2 and text in told.output, told.output
    assert not Path("out").exists()
