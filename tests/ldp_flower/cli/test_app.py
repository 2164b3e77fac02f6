"""The command line, and that nothing of a run stays behind."""

import csv
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

import ldp_flower
from ldp_flower.audit import Audit
from ldp_flower.cli.console import console, override
from ldp_flower.cli.run import Family, ended_by_signals
from ldp_flower.cli.screen import Screen
from ldp_flower.guarantee.arms import end_of_first, salt_of
from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, NodeKeys
from ldp_flower.strategies.catalogue import PROTOCOLS

cli = import_module("ldp_flower.cli.app")  # the package calls the application so

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tiny"
version = "1.0.0"
description = "An app that asks every node once"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "nobody"

[tool.flwr.app.components]
serverapp = "tiny.server_app:app"
clientapp = "tiny.client_app:app"

[tool.flwr.app.config]
num-nodes = 0
epsilon = 1.0
greeting = "hello"
crash = false
output-dir = ""
"""

SERVER_APP = """
import os
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    run = context.run_config
    print("home", os.environ["FLWR_HOME"], flush=True)
    if run["crash"]:
        raise ValueError("the server has had enough")
    while len(nodes := list(grid.get_node_ids())) < run["num-nodes"]:
        time.sleep(0.1)
    query = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in nodes]
    replies = [reply for reply in grid.send_and_receive(query) if reply.has_content()]
    print(run["greeting"], "from", len(replies), "nodes at epsilon", run["epsilon"])
    Path(run["output-dir"], "result.json").write_text("{}")
"""

CLIENT_APP = """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message, context):
    return Message(RecordDict(), reply_to=message)
"""


SERVER_OF_LDP = """
from flwr.serverapp import ServerApp

from ldp_flower.strategies import LdpIht

app = ServerApp()


@app.main()
def main(grid, context):
    LdpIht(dim=8, sparsity=2, epsilon=2.0).start(grid, num_nodes=context.run_config["num-nodes"])
"""

CLIENT_OF_LDP = """
from ldp_flower.clients import LdpClientApp


def load_users(context):
    raise ValueError("nothing is left")


app = LdpClientApp(load_users)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return the directory of a tiny Flower app."""
    package = tmp_path / "an app" / "tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server_app.py").write_text(SERVER_APP)
    (package / "client_app.py").write_text(CLIENT_APP)
    (package.parent / "pyproject.toml").write_text(PYPROJECT)
    return package.parent


def invoke(*arguments: object):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own, without the venv on the path."""
    return subprocess.run(
        [Path(sys.executable).with_name("ldp-flower"), "run", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=240,
    )


def assert_nothing_left(output: str) -> None:
    """Check that the run's home is gone, and every process that worked for it."""
    (home,) = re.findall(r"^home (\S+)$", output, re.MULTILINE)
    assert not Path(home).exists()
    for process in psutil.process_iter():
        try:
            left = home in " ".join(process.cmdline()) or home in process.environ().values()
        except psutil.Error:  # gone, or not ours
            continue
        assert not left, process


# --------------------------------------------------------------------------- run


@pytest.mark.slow
@pytest.mark.engine
def test_run_completes(tiny, tmp_path):
    done = run(tiny, "--nodes", 3, "--epsilon", 2, "-c", "greeting=good day", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "good day from 3 nodes at epsilon 2.0\n" in done.stdout
    results = tmp_path / "results" / "an app"
    assert f"Results: {results}\n" in done.stdout
    assert [path.name for path in results.iterdir()] == ["result.json"]
    assert "SuperNodes changed" not in done.stdout
    assert_nothing_left(done.stdout)


def line_of(text: str) -> int:
    (number,) = (i for i, line in enumerate(SERVER_APP.splitlines(), 1) if text in line)
    return number


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.parametrize("lacking", ["a package", pytest.param("data", marks=pytest.mark.long)])
def test_run_says_first_what_a_client_has_raised(tiny, tmp_path, lacking):
    """A package that is missing ends the run; data that cannot be read do where no node has any."""
    client = tiny / "tiny" / "client_app.py"
    without = f"import no_such_package\n{CLIENT_APP}"
    client.write_text(CLIENT_OF_LDP if lacking == "data" else without)
    (tiny / "tiny" / "server_app.py").write_text(SERVER_OF_LDP)
    done = run(tiny, "--nodes", 2, cwd=tmp_path)
    assert done.returncode == 1
    first, second, *_, last = done.stderr.splitlines()
    if lacking == "data":
        assert first == "Error: ValueError: nothing is left (tiny/client_app.py, line 6)"
        assert second.startswith("Then: TooFewReports: No node answered the census")
    else:
        missing = "ModuleNotFoundError: No module named 'no_such_package'"
        assert first == f"Error: {missing} (tiny/client_app.py, line 1)"
        assert second == "Install it beside ldp-flower: this command installs nothing."
    assert last.endswith(f"All tracebacks are in {tmp_path}/results/an app/flower.log")
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("tiny.server_app:app", "tiny.nowhere:app", "Unable to load module tiny.nowhere"),
        pytest.param("1.0\n", "[1.0]\n", "The value for key epsilon needs", marks=pytest.mark.long),
    ],
)
def test_run_says_first_what_flower_has_against_the_app(tiny, tmp_path, right, wrong, reason):
    (tiny / "pyproject.toml").write_text(PYPROJECT.replace(right, wrong))
    done = run(tiny, cwd=tmp_path)
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert first.startswith("Error: ") and reason in first
    assert last == f"Flower did not accept {tiny}."
    assert reason not in done.stdout


@pytest.mark.slow
@pytest.mark.engine
def test_run_fails(tiny, tmp_path):
    # A result of an earlier run is no result of this one.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text("{}")
    done = run(tiny, "-c", "crash=true", "--output", "out", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    first, second = done.stderr.splitlines()
    where = f"(tiny/server_app.py, line {line_of('has had enough')})"
    assert first == f"Error: ValueError: the server has had enough {where}"
    log = tmp_path / "out" / "flower.log"
    assert second == f"The run ended as failed. All tracebacks are in {log}"
    for text in ("Exit Code", "Traceback", "raised an exception"):
        assert text not in done.stdout + done.stderr
    assert f'File "{tiny}/tiny/server_app.py"' in log.read_text()
    assert_nothing_left(done.stdout)


def test_run_needs_an_app(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        outcome = invoke("run", path)
        assert outcome.exit_code == 2
        assert "no pyproject.toml" in outcome.stderr
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]\nname = 'x'\n")
    assert "no [tool.flwr.app]" in invoke("run", tmp_path).stderr
    project.write_text("[project\n")
    outcome = invoke("run", tmp_path)
    assert outcome.exit_code == 2
    assert "cannot be read" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--users", "9"], "no setting 'num-users'"),
        (["--seed", "1"], "Its settings ([tool.flwr.app.config] in pyproject.toml): crash, "),
        (["-c", "rounds=3"], "no setting 'rounds'"),
        (["-c", "epsilon"], "Expected -c KEY=VALUE"),
        (["-c", "epsilon=much"], "Expected float for 'epsilon', got 'much'"),
        (["-c", "output-dir=x"], "Use --output"),
        (["--nodes", "0"], "0"),
        (["--epsilon", "0"], "Expected 1e-06 <= epsilon <= 100, got 0.0."),
        (["--epsilon", "-1"], "Expected 1e-06 <= epsilon <= 100, got -1.0."),
        (["--epsilon", "nan"], "Expected 1e-06 <= epsilon <= 100, got nan."),
        (["-c", "epsilon=0"], "Expected 1e-06 <= epsilon <= 100, got 0.0."),
        (["-c", "epsilon=inf"], "Expected 1e-06 <= epsilon <= 100, got inf."),
        (["--seed", "-1"], "-1"),
        (["--users", "0"], "0"),
    ],
)
def test_run_refuses_what_the_app_does_not_know(tiny, arguments, message):
    outcome = invoke("run", tiny, *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_nothing_is_started_for_settings_that_cannot_work(tiny, monkeypatch):
    def start(*_):
        raise AssertionError

    monkeypatch.setattr(cli, "private_superlink", start)
    outcome = invoke("run", tiny, "--epsilon", "0")
    assert (outcome.exit_code, outcome.stdout) == (2, "")


def test_what_the_app_raised_is_kept_and_tracebacks_are_not_shown(monkeypatch, capsys):
    """Lines as flwr 1.41 logs them, with Ray 2.55."""
    monkeypatch.setattr(console, "width", 200)
    error = "\x1b[91mERROR \x1b[0m:     "
    lines = f"""\
{error}An exception was raised when processing a message by RayBackend
{error}ray::ClientAppActor.run() (pid=1, ip=192.0.2.2)
                  ^^^^^^^^^^^^^
  File "/somewhere/flwr/clientapp/client_app.py", line 161, in __call__
    return self._registered_funcs[full_name](message, context)
  File "/an/app/tiny/client_app.py", line 10, in query
    raise ValueError('the client has had enough')
ValueError: the client has had enough

The above exception was the direct cause of the following exception:

ray::ClientAppActor.run() (pid=1, ip=192.0.2.2)
  File "/somewhere/flwr/ray_actor.py", line 65, in run
    raise ClientAppException(str(ex)) from ex
flwr.clientapp.client_app.ClientAppException:
Exception ClientAppException occurred. Message: the client has had enough
(ClientAppActor pid=2) A query could not be answered.
(ClientAppActor pid=2) Traceback (most recent call last):
(ClientAppActor pid=2)   File "/an/app/tiny/client_app.py", line 10, in query
(ClientAppActor pid=2)     raise ValueError('the client has had enough')
(ClientAppActor pid=2) ValueError: the client has had enough
(ClientAppActor pid=2) Still here.
{error}Simulation raised an exception
Traceback (most recent call last):
  File "/an/app/tiny/server_app.py", line 5, in main
    raise the.Matter("so it goes")
the.Matter: so it goes
{error}Exit Code: 700

An unhandled exception occurred when running the simulation.

For more information, visit: <https://flower.ai/docs/framework/1.41/en/ref-exit-codes/700.html>
Another line.
{error}Exit Code: 202
It says what is wrong."""
    with Screen(Path("/an/app")) as screen:
        for line in lines.splitlines():
            screen.show(line)
    assert capsys.readouterr().out.splitlines() == [
        "(ClientAppActor pid=2) A query could not be answered.",
        "(ClientAppActor pid=2) Still here.",
        "Another line.",
        "Error: Exit Code: 202",
        "It says what is wrong.",
    ]
    assert screen.reasons == [
        "ValueError: the client has had enough (tiny/client_app.py, line 10)",
        "Matter: so it goes (tiny/server_app.py, line 5)",
    ]


def test_the_apps_own_number_of_nodes_is_the_default(tiny, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(cli, "_run", lambda app, nodes, *_: asked.append(nodes))
    monkeypatch.chdir(tmp_path)
    project = tiny / "pyproject.toml"
    for declared, arguments in ((0, ()), (240, ()), (240, ("--nodes", 3))):
        project.write_text(PYPROJECT.replace("num-nodes = 0", f"num-nodes = {declared}"))
        assert invoke("run", tiny, *arguments).exit_code == 0
    assert asked == [4, 240, 3]


def test_version():
    assert invoke("--version").stdout == f"ldp-flower {ldp_flower.__version__}\n"


def test_run_names_the_missing_extra(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    outcome = invoke("run", tiny)
    assert outcome.exit_code == 1
    assert 'pip install "ldp-flower[sim]"' in outcome.stderr


def test_override_takes_the_type_of_the_default():
    declared = {"epsilon": 1.0, "rounds": 3, "name": "a", "fast": False}
    texts = {"epsilon": "2", "rounds": "4", "name": "5", "fast": "true"}
    given = {key: override(declared, key, text) for key, text in texts.items()}
    assert given == {"epsilon": 2.0, "rounds": 4, "name": "5", "fast": True}
    assert [type(value) for value in given.values()] == [float, int, str, bool]
    assert override(declared, "name", '"quoted"') == "quoted"
    for key, text in {"rounds": "1.5", "fast": "1"}.items():
        with pytest.raises(ValueError, match=f"for '{key}'"):
            override(declared, key, text)


# ---------------------------------------------------------------------- processes


def test_family_ends_sessions_of_children_and_orphans():
    orphan = "import time; time.sleep(60)"
    child = f"""
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", {orphan!r}])
        print("ready", flush=True)
        time.sleep(60)
    """
    parent = f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", {textwrap.dedent(child)!r}], start_new_session=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(parent)]
    leader = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    with leader:
        assert leader.stdout.readline() == b"ready\n"
        family = Family(leader.pid)
        assert len(family.members()) == 3
        leader.kill()
        leader.wait()
        assert len(family.members()) == 2
        family.end(timeout=0.2)
        assert family.members() == set()


def test_a_signal_to_end_leaves_what_runs():
    started = time.monotonic()
    with pytest.raises(SystemExit, match="143"), ended_by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    assert time.monotonic() - started < 5


# ------------------------------------------------------------- ledger, protocols


def test_ledger(tmp_path):
    path = tmp_path / "ledger.db"
    assert invoke("ledger", "init", path).exit_code == 0
    again = invoke("ledger", "init", path)
    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert "0 users" in invoke("ledger", "show", path).stdout
    cost, policy = Cost(0.5, 1e-6), PrivacyPolicy(1.0, max_delta=1e-3)
    SqliteLedger(path).reserve(Entry("digest"), np.array(["N123", "[N456]"]), cost, policy)
    shown = invoke("ledger", "show", path)
    assert shown.exit_code == 0
    for text in ("N123", "[N456]", "0.5", "1e-06", "2 users"):
        assert text in shown.stdout


def test_the_arms_of_users_on_a_ledger(tmp_path):
    """They are the two halves of the users by the hashes that address them."""
    path, names = tmp_path / "ledger.db", [f"N{i}" for i in range(50)] + ["=1+1"]
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(names))
    keys = NodeKeys(0, 0, 51, SqliteLedger.create(path).numbers(np.array(names)))
    second = keys.addressed(salt_of("checkout"), end_of_first(0.3), HASH_END)
    shown = invoke("ledger", "arms", path, "checkout", ids, "--allocation", "0.3").stdout
    found = [line.split(",") for line in shown.splitlines()]
    assert found[0] == ["user", "arm"] and found[-1][0] == "'=1+1"
    assert [i for i, (_, arm) in enumerate(found[1:]) if arm == "1"] == second.tolist()
    assert 20 < len(second) < 48
    for arguments in ([tmp_path / "none.txt"], [ids, "--allocation", "1.5"]):
        assert invoke("ledger", "arms", path, "checkout", *arguments).exit_code == 2


def test_ledger_export_renew_and_forget(tmp_path):
    path = tmp_path / "ledger.db"
    entry, users = Entry("digest", 17, "gradient", "Codebook"), np.array(["N1", "N2"])
    SqliteLedger.create(path).reserve(entry, users, Cost(0.5), PrivacyPolicy(1.0))
    exported = invoke("ledger", "export", path).stdout.splitlines()
    assert exported[0] == "created,user,run,statistic,mechanism,epsilon,delta,study"
    assert [line.split(",", 1)[1] for line in exported[1:]] == [
        "N1,17,gradient,Codebook,0.5,0.0,",
        "N2,17,gradient,Codebook,0.5,0.0,",
    ]
    assert invoke("ledger", "renew", path).exit_code == 2
    assert invoke("ledger", "renew", path, "--all", "--user", "N1").exit_code == 2
    assert "1 user may spend again" in invoke("ledger", "renew", path, "--user", "N1").stdout
    unknown = invoke("ledger", "renew", path, "--user", "nobody")
    assert (unknown.exit_code, unknown.stderr) == (1, "Error: The ledger knows no user 'nobody'.\n")
    assert "2 users" in invoke("ledger", "show", path).stdout
    assert "N1,,renewal,,-0.5,0.0" in invoke("ledger", "export", path).stdout
    assert "1 user may spend again" in invoke("ledger", "renew", path, "--all").stdout
    assert "1 reply deleted" in invoke("ledger", "forget", path, "--days", "0").stdout


def test_ids_are_neither_formulas_nor_orders_to_a_terminal(tmp_path):
    path = tmp_path / "ledger.db"
    names = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        "\r=1",
        "'=1",
        "  =1",
        "a;=1; +1;b",
        "\x1b[2J",
        "[red]x",
        "a\u202eb",
        "Zoë",
    ]
    policy = PrivacyPolicy(2.0)
    ledger = SqliteLedger.create(path)
    ledger.reserve(Entry("q1"), np.array(names), Cost(0.5), policy)
    exported = list(csv.DictReader(invoke("ledger", "export", path).stdout.splitlines()))
    shown = {
        "=1+1": "'=1+1",
        "+1": "'+1",
        "-1": "'-1",
        "@x": "'@x",
        "\t=1": "'\\t=1",
        "\r=1": "'\\r=1",
        "'=1": "''=1",
        "  =1": "'  =1",
        "a;=1; +1;b": "a;'=1;' +1;b",
        "\x1b[2J": "\\x1b[2J",
        "a\u202eb": "a\\u202eb",
    }
    assert sorted(row["user"] for row in exported) == sorted(shown.get(n, n) for n in names)
    assert {row["epsilon"] for row in exported} == {"0.5"}
    table = invoke("ledger", "show", path).stdout
    assert not set(table) & set("\x1b\t\r\u202e")
    for name in ("\\x1b[2J", "[red]x", "a\\u202eb", "Zoë", "=1+1"):
        assert name in table


def test_ledger_errors_are_short(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.write_text("not a database, " * 100)
    for arguments in (
        ("show", tmp_path / "missing"),
        ("show", foreign),
        ("init", tmp_path / "missing" / "ledger.db"),
    ):
        outcome = invoke("ledger", *arguments)
        assert outcome.exit_code == 1
        assert outcome.stderr.startswith("Error: ")
        assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("width", [60, 80, 100])
def test_protocols_are_shown_whole_on_a_narrow_screen(monkeypatch, width):
    monkeypatch.setattr(cli.console, "width", width)
    outcome = invoke("protocols")
    assert outcome.exit_code == 0
    lines = outcome.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line and line[0] != " "] == list(PROTOCOLS)
    labels = {line[2:17].strip() for line in lines if line.startswith(" ")} - {""}
    assert len(labels) == 7
    shown = " ".join(" ".join(line[17:] for line in lines).split())
    for protocol in PROTOCOLS.values():
        for text in vars(protocol.card).values():
            assert text in shown
        assert f"each {protocol.protects}: " in shown
    assert "…" not in outcome.stdout


# ----------------------------------------------------------------------------- audit


@pytest.mark.parametrize("width", [60, 80])
def test_findings_are_shown_whole_on_a_narrow_screen(monkeypatch, width):
    """Only the screen: what is found is made up."""

    def found(query, people, **_):
        numbers = {"claimed": 2.0, "measured": 1.9, "exact": 2.0, "confidence": 0.999}
        pair = tuple(people)[:2]
        return Audit(query=query, worst_pair=pair, checks={"loss": True}, **numbers)

    monkeypatch.setattr("ldp_flower.audit.audit_handler", found)
    monkeypatch.setattr(cli.console, "width", width)
    outcome = invoke("audit", "ConstrainedRegression", "--reports", 100, "--seed", 0)
    assert outcome.exit_code == 0
    lines = outcome.stdout.splitlines()
    assert max(map(len, lines)) <= width and "…" not in outcome.stdout
    words = {"second_moments", "record", "Codebook", "GaussianRecord", "measured", "2.000000"}
    assert words <= set(outcome.stdout.split())
