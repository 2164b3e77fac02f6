"""Help and completion: every text is shown, all names are known, and little is imported."""

import subprocess
import sys
import textwrap
from importlib import import_module
from typing import get_type_hints

import pytest
from typer.main import get_command_name
from typer.models import ArgumentInfo, OptionInfo
from typer.testing import CliRunner

from ldp_flower import __version__
from ldp_flower.audit.runs import audited_runs
from ldp_flower.cli import names
from ldp_flower.cli.plan import QUESTIONS
from ldp_flower.guarantee import budget
from ldp_flower.strategies.catalogue import PROTOCOLS

app = import_module("ldp_flower.cli.app").app


def commands(group, *above):
    """Yield each command with its words, from typer's own list."""
    for each in group.registered_commands:
        yield (*above, each.name or get_command_name(each.callback.__name__)), each.callback
    for each in group.registered_groups:
        yield from commands(each.typer_instance, *above, each.name)


COMMANDS = dict(commands(app))


def help_of(*words, columns=60):
    shown = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    return shown.stdout


def test_the_walk_finds_all_commands():
    assert {"run", "plan", "audit", "check"} < {words[0] for words in COMMANDS}
    assert len(COMMANDS) == 26 and ("ledger", "renew") in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_text_that_is_declared_is_shown(words):
    shown = help_of(*words, columns=400)
    hints = get_type_hints(COMMANDS[words], include_extras=True)
    declared = [
        each
        for hint in hints.values()
        for each in getattr(hint, "__metadata__", ())
        if isinstance(each, ArgumentInfo | OptionInfo) and not each.hidden
    ]
    assert declared
    for each in declared:
        assert each.help and each.help in shown


@pytest.mark.parametrize("words", [(), ("ledger",), *COMMANDS], ids=" ".join)
def test_help_fits_a_narrow_screen(words):
    assert max(map(len, help_of(*words).splitlines())) <= 60


def test_the_help_names_the_questions_and_the_protocols():
    shown = " ".join(help_of("plan").split())
    assert all(question in shown.split("Arguments")[0] for question in QUESTIONS)
    shown = " ".join(help_of("audit").split())
    assert f"PROTOCOL is one of: {', '.join(names.AUDITED)}." in shown


def test_the_names_are_those_of_the_protocols():
    assert tuple(PROTOCOLS) == names.PROTOCOLS
    assert {*names.AUDITED} == {*audited_runs(), names.OF_NETWORKS}
    assert names.NOISE == budget.NOISE
    assert set(QUESTIONS.values()) < set(names.PROTOCOLS)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("plan PrivateR", ["PrivateRegression"]),
        ("plan S", ["SparseMean", "SparseRegression", "Synthesize", "SmoothGlm", "Series"]),
        ("plan reg", ["regression"]),
        ("plan LdpF", ["LdpFedAvg"]),
        ("audit LdpF", []),
        ("audit Rec", ["RecordDpSgd"]),
        ("pro", ["protocols"]),
    ],
)
def test_names_complete(words, completed):
    environment = {
        "_LDP_FLOWER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"ldp-flower {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    shown = CliRunner(env=environment).invoke(app, prog_name="ldp-flower")
    assert shown.stdout.split() == completed


def test_a_mistyped_command_is_suggested_once():
    told = CliRunner().invoke(app, ["runn"])
    assert told.exit_code == 2 and told.stderr.count("Did you mean 'run'?") == 1
    told = CliRunner().invoke(app, ["ledger", "shw"])
    assert told.exit_code == 2 and told.stderr.count("Did you mean 'show'?") == 1


def test_help_version_and_completion_import_neither_numpy_nor_flower():
    """Nor any other part of this library: they would take seconds."""
    code = f"""
        import sys
        from typer.testing import CliRunner
        from ldp_flower.cli.app import app

        def invoke(arguments, **environment):
            shown = CliRunner(env=environment).invoke(app, arguments, prog_name="ldp-flower")
            assert shown.exit_code == 0 and shown.stdout, arguments

        invoke(["--version"])
        for words in {[(), ("ledger",), *COMMANDS]}:
            invoke([*words, "--help"])
        complete = {{"_LDP_FLOWER_COMPLETE": "complete_bash", "COMP_CWORD": "2"}}
        for line in ("ldp-flower plan Pri", "ldp-flower audit Ldp", "ldp-flower run --"):
            invoke([], COMP_WORDS=line, **complete)
        print(*sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    loaded = set(subprocess.check_output(command, text=True).split())
    heavy = {"numpy", "scipy", "sklearn", "pandas", "matplotlib", "flwr", "ray", "torch"}
    assert not loaded & heavy
    own = {name for name in loaded if name.startswith("ldp_flower.")}
    assert {name for name in own if not name.startswith("ldp_flower.cli")} == set()


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "ldp_flower.cli", "--version"]
    assert subprocess.check_output(command, text=True).strip() == f"ldp-flower {__version__}"
