"""``ldp-flower check APP``: what a run would be refused for, before it."""

import itertools
import json
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from ldp_flower.audit.app.loading import declared_nodes, flat_settings, project_of

cli = import_module("ldp_flower.cli.app")
NAMES = (f"checked{i}" for i in itertools.count())
PROJECT = """
[project]
name = "checked"
version = "1.0.0"
[tool.flwr.app.components]
serverapp = "{name}.server:app"
clientapp = "{name}.client:app"
[tool.flwr.app.config]
rounds = 3
"""
SERVER = """
import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from ldp_flower.strategies import LdpFedAvg

app = ServerApp()

@app.main()
def main(grid, context):
    strategy = LdpFedAvg(epsilon=2.0ARGUMENTS)
    strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=context.run_config["rounds"])
"""
CLIENT = """
from flwr.clientapp import ClientApp
from ldp_flower.clients import LdpUpdateMod

def needs_more(message, context, call_next):
    raise KeyError("nobody sends this")

app = ClientApp(mods=[MODS])

@app.train()
def train(message, context):
    message.content["arrays"]  # which a census has none of
    raise SystemExit("a check trains nothing")
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks an app of which some parts are replaced."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def checked(*options, arguments="", mods="LdpUpdateMod()", project=""):
        name = next(NAMES)
        package = tmp_path / name / name
        package.mkdir(parents=True)
        (package.parent / "pyproject.toml").write_text(PROJECT.format(name=name) + project)
        (package / "__init__.py").touch()
        (package / "server.py").write_text(SERVER.replace("ARGUMENTS", arguments))
        (package / "client.py").write_text(CLIENT.replace("MODS", mods))
        given = ["check", str(package.parent), *map(str, options)]
        found = CliRunner().invoke(cli.app, given)
        return found.exit_code, " ".join((found.stdout + found.stderr).split())

    return checked


def test_an_app_that_starts_is_not_trained(check):
    assert check("--nodes", 60) == (
        0,
        "A run with 60 nodes starts. This check has sent nothing but the census.",
    )


@pytest.mark.parametrize(
    ("options", "project", "nodes"),
    [
        ([], "", 4),
        ([], "num-nodes = 19", 19),
        (["-c", "rounds=1"], "num-nodes = 19", 19),
        (
            [],
            '[tool.flwr.federations]\ndefault = "local"\n'
            "[tool.flwr.federations.local]\noptions.num-supernodes = 10",
            10,
        ),
    ],
)
def test_too_few_nodes_are_refused_with_the_number_that_is_tried(check, options, project, nodes):
    code, told = check(*options, project=project)
    needed = 20 if options else 60
    assert code == 2
    assert f"With {nodes} nodes: {nodes} users are too few for 3 parameters" in told
    assert f"At least {needed} users are needed" in told
    assert "With LdpUpdateMod each node is one user. For few silos use RecordDpSgdMod" in told
    assert told.endswith(
        f"With {needed} nodes, the run starts (ldp-flower run APP --nodes {needed})."
    )


def test_as_json_a_check_has_the_nodes_that_are_needed(check):
    code, told = check("--nodes", 4, "--json")
    found = json.loads(told)
    assert code == 2 and (found["nodes"], found["nodes_needed"]) == (4, 60)
    assert set(found) == {"problems", "doubts", "facts", "nodes", "nodes_needed"}
    code, told = check("--nodes", 60, "--json")
    found = json.loads(told)
    assert code == 0 and (found["nodes"], found["nodes_needed"]) == (60, None)
    assert len(found["facts"]) == 1 and not found["problems"] + found["doubts"]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"arguments": ", fraction_evaluate=0.5"}, "Remove fraction_evaluate=0.5: nodes are never"),
        ({"mods": "needs_more, LdpUpdateMod()"}, "came from a mod before LdpUpdateMod"),
        ({"mods": ""}, "put an instance first, ClientApp(mods=[LdpUpdateMod()])"),
        ({"mods": "LdpUpdateMod"}, "LdpUpdateMod is passed as a class"),
        (
            {"mods": "__import__('flwr.client.typing')"},
            "needs the module 'flwr.client.typing'. flwr 1.",
        ),
        (
            {"mods": "__import__('flwr.client.typing')"},
            " has no flwr.client.typing: the app was written for an older Flower.",
        ),
        (
            {"mods": "__import__('no_such_package')"},
            "Install it beside ldp-flower: this command installs nothing.",
        ),
        ({"mods": "Unknown()"}, "cannot be imported: NameError: name 'Unknown' is not defined"),
    ],
    ids=str,
)
def test_what_a_run_is_refused_for_is_told_before_it(check, parts, told):
    code, found = check("--nodes", 60, **parts)
    assert code == 2 and told in found


def test_a_server_of_flowers_own_is_not_said_to_be_private(check, tmp_path, monkeypatch):
    """Of Flower's strategies nothing is known, the mods may protect what they ask for."""
    monkeypatch.setattr(
        sys.modules[__name__],
        "SERVER",
        SERVER.replace(
            "ldp_flower.strategies import LdpFedAvg", "flwr.serverapp.strategy import *"
        ).replace("LdpFedAvg(epsilon=2.0ARGUMENTS)", "FedAvg(fraction_evaluate=0.0)"),
    )
    code, found = check()
    assert code == 2 and "starts with a message (train) that no strategy of ldp-flower" in found


def test_what_is_no_app_and_options_without_effect_are_refused(check, tmp_path):
    def said(*given):
        found = CliRunner().invoke(cli.app, ["check", *map(str, given)])
        return found.exit_code, found.stderr

    assert said(tmp_path)[0] == 2 and "no pyproject.toml" in said(tmp_path)[1]
    assert "Expected no options of a node" in said(tmp_path, "--table", "x.csv")[1]
    assert "Expected --nodes and --config with" in said("max-epsilon=2.0", "--nodes", 3)[1]
    code, found = check("-c", "epochs=3")
    assert code == 2 and "no setting 'epochs'" in found


@pytest.mark.parametrize(
    ("own", "flowers", "expected"),
    [("", "", None), ("", "30", 30), ("7", "30", 7), ("0", "", None)],
)
def test_an_app_declares_its_number_of_nodes_by_itself_or_by_flowers_federation(
    own, flowers, expected, tmp_path
):
    text = PROJECT + (f"num-nodes = {own}\n" if own else "")
    if flowers:
        text += (
            '[tool.flwr.federations]\ndefault = "here"\n[tool.flwr.federations.here]\n'
            f"options.num-supernodes = {flowers}\n"
        )
    (tmp_path / "pyproject.toml").write_text(text)
    project = project_of(tmp_path)
    assert declared_nodes(project, flat_settings(project["app"]["config"])) == expected
