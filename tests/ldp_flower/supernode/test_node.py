"""The parts of an operator's node, without one: what is refused, answered, started and told."""

import hashlib
import io
import logging
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supernode import start_client_internal
from flwr.supernode.runtime import run_clientapp

from ldp_flower import PrivacyPolicy
from ldp_flower.clients import NetworkClientApp
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.supernode import answering, flower, launch
from ldp_flower.supernode.data_checks import census_reply
from ldp_flower.supernode.journal import SubmittedRun, collected_log, harden, line_of, sanitise
from ldp_flower.supernode.launch import programs, supervise
from ldp_flower.supernode.node_arguments import ArgumentsError, node_config_of, read
from ldp_flower.supernode.settings import AppError, OwnApp, OwnRecords, OwnTable, Settings

RUN = SubmittedRun(5, "stranger/app", "1.0.0", b"not even an archive")
SETTINGS = Settings(OwnApp("json:loads"), "/the/operators/path")


# ------------------------------------------------------------------------- Flower


def test_the_installed_flower_is_known_by_its_files(monkeypatch):
    flower.check()
    monkeypatch.setattr(flower, "FILES", flower.FILES[:-1])
    with pytest.raises(flower.UntestedFlower, match="has other files than Flower"):
        flower.check()


def test_another_version_of_flower_is_refused(monkeypatch):
    monkeypatch.setattr(flower, "version", lambda name: "1.43.0")
    with pytest.raises(
        flower.UntestedFlower, match=r"Flower 1\.43\.0 .* one of 1\.38\.0, .* 1\.42\.0"
    ):
        flower.check()


def test_a_file_that_is_missing_is_no_tested_flower(monkeypatch):
    monkeypatch.setattr(flower, "FILES", (*flower.FILES, "supernode/none.py"))
    with pytest.raises(flower.UntestedFlower, match=r"supernode/none\.py cannot be read"):
        flower.check()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--isolation", "process"], "no --isolation process"),
        (["--isol=process"], "no --isolation process"),  # as argparse takes it, too
        (["--host", "0.0.0.0"], "any program that reaches the SuperNode's port can answer"),
        (["--host", "node.example"], "for this machine only"),
        (["--allow-runtime-dependency-installation"], "would decide what is installed"),
        (["--node-config", "max-epsilon 2"], "does not read max-epsilon 2"),
        (["--node-config", "max-epsilon=two"], "Expected a number, .* got two"),
        (["--node-config", "none.toml"], "cannot be read"),
    ],
)
def test_arguments_that_would_undo_the_node_are_refused(arguments, message):
    with pytest.raises(ArgumentsError, match=message):
        node_config_of(["--insecure", *arguments])


def test_the_nodes_configuration_is_read_as_flower_reads_it(tmp_path):
    for host in ("127.0.0.1", "::1", "localhost"):
        assert node_config_of(["--insecure", "--host", host]) == {}
    given = "max-epsilon=2.0 ledger-path=\"a b.db\" unit='user'"
    expected = {"max-epsilon": 2.0, "ledger-path": "a b.db", "unit": "user"}
    assert node_config_of(["--insecure", "--node-config", given]) == expected
    (tmp_path / "node.toml").write_text("max-epsilon = 2.0")
    assert read(str(tmp_path / "node.toml")) == {"max-epsilon": 2.0}


# ------------------------------------------------------------------------ answers


def message(kind="train"):
    """Return a message as it comes."""
    asked = []

    def keep(message, context):
        asked.append(message)
        return Message(RecordDict(), reply_to=message)

    census_reply(keep, {})
    asked[0].metadata.__dict__["_message_type"] = kind
    return asked[0]


def context():
    return Context(5, 2, {}, RecordDict(), {})


def raising(error):
    def raises(*_):
        raise error

    return raises


def test_the_operators_answer_is_the_reply_and_the_log_says_whose(caplog):
    asked = message("query.report")
    caplog.set_level("INFO", "flwr")
    reply = Message(RecordDict(), reply_to=asked)
    assert answering.answered(lambda: lambda *_: reply, "site:app", asked, context(), RUN) is reply
    (line,) = caplog.messages
    assert line.startswith("Run 5, query.report: a reply of site:app after 0.0")
    assert "nothing was paid. The run's own app was not looked at: 'stranger/app' '1.0.0'" in line
    assert line.endswith(f"SHA-256 {hashlib.sha256(RUN.fab).hexdigest()}.")


@pytest.mark.parametrize(
    "answer",
    [
        raising(ValueError("patient 17 is 43 years old")),
        raising(SystemExit("patient 17")),
        lambda *_: None,
        lambda *_: Message(RecordDict(), reply_to=message()),  # to something else
    ],
)
def test_an_app_that_gives_no_answer_tells_nothing(answer):
    asked = message()
    asked.metadata.__dict__["_message_id"] = "another"
    reply = answering.answered(lambda: answer, "site:app", asked, context(), RUN)
    assert (reply.error.code, reply.error.reason) == (104, answering._FAILED)
    assert reply.metadata.reply_to_message_id == "another"


def test_an_app_that_cannot_be_loaded_tells_nothing():
    load_app = raising(AppError("/home/me/secret.py"))
    reply = answering.answered(load_app, "site:app", message(), context(), RUN)
    assert (reply.error.code, reply.error.reason) == (104, answering._FAILED)


def test_flowers_program_gets_nothing_of_a_run_but_bytes(monkeypatch):
    for name in (
        "install_from_fab",
        "get_project_dir",
        "install_app_dependencies",
        "get_load_client_app_fn",
    ):
        monkeypatch.setattr(run_clientapp, name, getattr(run_clientapp, name))  # is put back
    seen = []

    def answered(load_app, name, message, context, run):
        seen.append((load_app, name, run.fab, run.fab_id, run.run_id))
        return Message(RecordDict(), reply_to=message)

    monkeypatch.setattr(answering, "answered", answered)
    answering._let_answer(SETTINGS.source.client_app, "site:app")
    run_clientapp.install_from_fab(b"a zip bomb", skip_prompt=True)
    assert not run_clientapp.get_project_dir("../../etc", "1", "hash").is_dir()
    with pytest.raises(RuntimeError, match="installs nothing"):
        run_clientapp.install_app_dependencies("anything", run_id=1)
    load = run_clientapp.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    load("stranger/app", "1.0.0", "hash")(message=message(), context=context())
    assert seen == [(SETTINGS.source.client_app, "site:app", b"a zip bomb", "stranger/app", 5)]


def test_the_journal_hears_what_was_paid(tmp_path):
    ledger, policy = SqliteLedger.create(tmp_path / "ledger.db"), PrivacyPolicy(1.0, 0.1)
    asked = message("query.report")
    failed = Message(Error(102, "broke"), reply_to=asked)
    with collected_log(SqliteLedger.__module__, logging.INFO) as paid:
        ledger.reserve(Entry("q"), np.array(["a", "b"]), Cost(0.5, 0.01), policy)
    ledger.reserve(Entry("r"), np.array(["a"]), Cost(0.25), policy)
    line = line_of(asked, failed, RUN, "site:app", 1.0, paid)
    assert "error 102 of site:app after 1.00 s; 2 of 2 users paid epsilon 0.5, delta 0.01." in line
    assert "0.25" not in line


# --------------------------------------------------------------------------- apps


def test_an_operators_app_is_a_client_app_that_is_installed(tmp_path, monkeypatch):
    (tmp_path / "site_app.py").write_text(
        "from flwr.clientapp import ClientApp\napp = ClientApp()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = OwnApp("site_app:app").client_app()
    assert isinstance(app, ClientApp)
    for reference, text in {
        "site_app": "Expected --app MODULE:ATTRIBUTE",
        "site_app:none": "cannot be loaded: AttributeError",
        "no_such_module:app": "cannot be loaded: ModuleNotFoundError",
        "json:loads": "to be a ClientApp, got function",
    }.items():
        with pytest.raises(AppError, match=text):
            OwnApp(reference).client_app()


def test_settings_are_read_as_they_were_written(tmp_path):
    table = Settings(OwnTable("t.csv", "s.json", "person"), "/bin")
    records = Settings(OwnRecords("r.npz", max_frozen=1 << 26), "/bin")
    loaded = Settings(OwnRecords("scans", loader="site:scans"), "/bin")
    assert isinstance(records.source.client_app(), NetworkClientApp)
    for number, settings in enumerate((SETTINGS, table, records, loaded)):
        file = tmp_path / str(number)
        settings.write(file)
        assert Settings.read(file) == settings
        assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(AppError, match=r"--schema to be a JSON file .* got s\.json: No such"):
        table.source.client_app()


# ----------------------------------------------------------------------- programs


def test_a_supernode_finds_three_programs_and_no_other():
    with programs(SETTINGS) as folder:
        scripts = {file.name: file.read_text() for file in folder.iterdir()}
        assert folder.stat().st_mode & 0o077 == 0
        assert Settings.read(folder / "settings.json") == SETTINGS
    assert scripts.keys() - {"settings.json"} == {
        "flower-superexec",
        "flwr-agentapp",
        "flwr-clientapp",
    }
    assert scripts["flwr-agentapp"] == scripts["flwr-clientapp"]
    assert "ldp_flower.supernode.answering" in scripts["flwr-clientapp"]
    assert not folder.exists()


@pytest.mark.parametrize("lives", [False, True])
def test_a_supernode_is_started_again_if_it_had_worked(tmp_path, monkeypatch, lives):
    """One that ends at once was started wrongly."""
    book = tmp_path / "starts"
    code = f"import sys; open({str(book)!r}, 'a').write(sys.argv[1]); sys.exit(3)"
    monkeypatch.setattr(flower, "command", lambda *given: [sys.executable, "-c", code, given[-1]])
    monkeypatch.setattr("ldp_flower.supernode.launch._MIN_UPTIME", 0.0 if lives else 60.0)
    monkeypatch.setattr(
        "ldp_flower.supernode.launch._EndSignal.within",
        lambda _, seconds: len(book.read_text()) > 2,
    )
    assert supervise(["x"], SETTINGS) == (0 if lives else 3)
    assert book.read_text() == ("xxx" if lives else "x")


def test_a_supernode_that_has_lost_its_part_that_looks_for_tasks_is_ended(monkeypatch):
    monkeypatch.setattr(launch, "_LOOK", 0.2)
    code = "import subprocess, sys, time; subprocess.Popen(sys.executable); time.sleep(60)"
    monkeypatch.setattr(flower, "command", lambda *_: [sys.executable, "-c", code])
    assert supervise([], SETTINGS) == -signal.SIGTERM


COMMAND = """
import sys
from ldp_flower.supernode import flower, launch
from ldp_flower.supernode.settings import OwnApp, Settings

child = "import os, time; print(os.environ['PATH'], os.getpid(), flush=True); time.sleep(60)"
flower.command = lambda *_: [sys.executable, "-c", child]
sys.exit(launch.supervise([], Settings(OwnApp("a:b"), "")))
"""


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_stops_the_command_stops_the_supernode(kill):
    if kill == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent has ended")
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, text=True
    ) as run:
        path, _ = run.stdout.readline().split()
        assert "ldp-flower-" in path and os.pathsep not in path
        run.send_signal(kill)
        assert run.wait(30) == (0 if kill == signal.SIGTERM else -kill)
        assert run.stdout.read() == ""  # the child had the other end open
    # A killed command cannot remove its folder.
    assert not os.path.exists(path) or kill == signal.SIGKILL
    shutil.rmtree(path, ignore_errors=True)


# ------------------------------------------------------------------------ a SuperNode's own process


def fab_of(pyproject):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("pyproject.toml", pyproject)
    return packed.getvalue()


PYPROJECT = """
[project]
name = "app"
version = "1"
[tool.flwr.app]
publisher = "stranger"
components = {serverapp = "a:b", clientapp = "a:b"}
config = {rounds = 3}
"""


@pytest.fixture
def careful(monkeypatch):
    """Return how a SuperNode that takes care reads the settings in an app."""
    for handler in (flowers_log := logging.getLogger("flwr")).handlers:
        monkeypatch.setattr(handler, "filters", [*handler.filters])
    name = "get_fused_config_from_fab"
    monkeypatch.setattr(start_client_internal, name, getattr(start_client_internal, name))
    harden()
    assert all(sanitise in handler.filters for handler in flowers_log.handlers)
    return lambda fab: getattr(start_client_internal, name)(
        fab, SimpleNamespace(override_config={"rounds": 5})
    )


def test_settings_that_cannot_be_read_do_not_end_a_supernode(careful, caplog):
    assert careful(fab_of(PYPROJECT)) == {"rounds": 5}
    nested = "a = " + "[" * 5000 + "]" * 5000
    bomb = PYPROJECT + "#" * (1 << 21)
    assert len(fab_of(bomb)) < 1 << 13
    for fab in (b"no zip", fab_of("[" * 99), fab_of(nested), fab_of(""), fab_of(bomb)):
        assert careful(fab) == {}
    assert caplog.text.count("are left out") == 5


def test_a_strangers_names_forge_no_line_of_the_log():
    record = logging.LogRecord(
        "flwr", 20, "", 0, "[RUN %s, ROUND %s] %d", (7, "1]\nRun 1: \x1b[2J" + "x" * 999, 3), None
    )
    assert sanitise(record)
    line = record.getMessage()
    assert line.startswith("[RUN 7, ROUND 1]\\nRun 1: \\x1b[2Jxxx") and line.endswith("...] 3")
    assert line.isprintable() and len(line) < 300
    asked = message("train." + "x" * 999)
    run = replace(RUN, fab_id="stranger/\n" + "y" * 999)
    line = line_of(asked, Message(RecordDict(), reply_to=asked), run, "site:app", 1.0)
    assert line.isprintable() and len(line) < 800
