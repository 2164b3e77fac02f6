"""``ldp-flower check``, the refusals at start, and ``ldp-flower ledger report``."""

import json
import re
import shlex
import socket
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.peers_file import create_key, shown
from ldp_flower.models import Network
from ldp_flower.models.graph import Graph, Limits, Operation, Reference, Tensor
from ldp_flower.supernode import launch
from ldp_flower.supernode.bookkeeping import renew_budgets
from ldp_flower.supernode.settings import OwnTable, Settings

cli = import_module("ldp_flower.cli.app")
GUIDE = (Path(__file__).parents[3] / "docs" / "deployment.md").read_text("utf-8")
SCHEMA = Schema({"age": Numeric(0, 100)})


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def node(monkeypatch):
    """Return the folder of a node that has everything, as the working directory.

    Unlike pytest's own folders it is one that everybody gets at.
    """
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        SqliteLedger.create("ledger.db")
        (folder / "schema.json").write_text(json.dumps(SCHEMA.to_dict()))
        (folder / "table.csv").write_text("person,age\np1,20\np2,30\np1,40\n")
        (folder / "table.csv").chmod(0o600)
        yield folder


CONFIG = 'max-epsilon=2.0 ledger-path="ledger.db"'
TABLE = ("--table", "table.csv", "--schema", "schema.json", "--user-column", "person")


def test_a_node_that_is_as_it_should_be(node):
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 0, checked.stderr
    assert "Policy: epsilon 2 and delta 0 for each user, for life." in checked.stdout
    assert "Ledger: ledger.db, on which 0 users have spent." in checked.stdout
    assert f"Table: {node / 'table.csv'}, with 2 users." in checked.stdout
    plain = invoke("check", CONFIG + ' data-path="table.csv"')
    assert plain.exit_code == 0 and not plain.stderr


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('ledger-path="ledger.db"', "There is no policy: set max-epsilon"),
        (CONFIG.replace("2.0", "-2.0"), "policy is not valid: Expected max-epsilon > 0"),
        (CONFIG + " min-epsilon=3.0", "min-epsilon 3 is above max-epsilon 2"),
        (CONFIG.replace("2.0", "200.0"), "max-epsilon 200 gives almost no protection"),
        (CONFIG + " unit='record'", "Expected num-records"),
        ("max-epsilon=2.0", "There is no ledger: set ledger-path"),
        ('max-epsilon=2.0 ledger-path="none.db"', "No ledger at none.db"),
        ('max-epsilon=2.0 ledger-path="table.csv"', "file is not a database"),
        (CONFIG + " max_rows=3", "Expected the key 'max-rows', got 'max_rows'"),
        (CONFIG + " reherasal=true", "is 'rehearsal' meant?"),
        (CONFIG + ' data-path="tabel.csv"', "There is no file at data-path tabel.csv"),
        (CONFIG + " rehearsal = true", "does not read rehearsal = true"),
        (CONFIG + " rehearsal='yes'", "Expected rehearsal true or false, got 'yes'"),
        (CONFIG + " user-id=7", "Expected a text in quotes for user-id, got 7"),
        (CONFIG + " user-id=''", "Expected a text in quotes for user-id, got ''"),
        ("max-epsilon=2.0 ledger-path=7", "Expected a text in quotes for ledger-path, got 7"),
        ("max-epsilon=2,0", "a text in quotes (single ones where it has a backslash) for max-eps"),
        (CONFIG.replace('"', ""), "for ledger-path in the node's configuration, got ledger.db."),
        (CONFIG.replace('"ledger', '"C:\\ledger'), r'got "C:\ledger.db".'),
        (CONFIG + " max-epsilon=3.0", "Expected one value for max-epsilon"),
        ("none.toml", "configuration none.toml cannot be read"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_found(node, config, told):
    checked = invoke("check", config)
    assert checked.exit_code == 2 and told in checked.stderr


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("table.csv", "person,years\np,1\n"), r"Expected the columns ['age'] in"),
        (("table.csv", "person,age\n,1\n"), "got 1 of 1 (row 0, counted from 0)"),
        (("schema.json", "{}"), "schema.json cannot be used"),
        (("schema.json", '{"columns": {"person": {"low": 0, "high": 1}}}'), "none of the schema's"),
    ],
)
def test_a_table_that_would_fail_is_found(node, change, told):
    name, text = change
    (node / name).write_text(text)
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2 and told in checked.stderr


def test_rows_without_a_user_are_left_out_if_asked(node):
    (node / "table.csv").write_text("person,age\np,1\n,1\nq,2\n")
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2 and "(row 1, counted from 0)" in checked.stderr
    checked = invoke("check", CONFIG, *TABLE, "--drop-missing-ids")
    assert "with 2 users" in checked.stdout
    assert "left out: 1 of 3 (row 1, counted from 0)." in checked.stderr
    missing_ids = OwnTable("t.csv", "s.json", "person", missing_ids="drop")
    Settings(missing_ids, "").write(node / "settings.json")
    assert Settings.read(node / "settings.json").source == missing_ids


def test_lines_that_are_no_record_are_told_and_a_file_without_quotes_can_be_named(node):
    (node / "table.csv").write_text('person,age,note\np1,20,5\np2,30,"a\np3,40,"b\n')
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2 and "with 1 users" in checked.stdout
    told = " ".join(checked.stderr.split())
    assert "Warning: 2 lines of" in told and "line 3" in told and "--unquoted" in told
    assert told.count("2 lines of") == 1
    checked = invoke("check", CONFIG, *TABLE, "--unquoted")
    assert checked.exit_code == 0 and "with 3 users" in checked.stdout
    refused = invoke("check", CONFIG, "--app", "a:b", "--unquoted")
    assert refused.exit_code == 2 and "either --app or --table" in refused.stderr


def test_entries_that_are_not_what_the_schema_declares_are_counted(node):
    schema = Schema({"age": Numeric(0, 100), "sex": Categories(["f", "m"])})
    (node / "schema.json").write_text(json.dumps(schema.to_dict()))
    (node / "table.csv").write_text("person,age,sex\np1,20,f\np2,130,female\np3,40,male\n")
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2 and "with 3 users" in checked.stdout
    told = " ".join(checked.stderr.split())
    assert "1 of 3 numbers in column 'age' are outside [0, 100] and count as the bound." in told
    assert "2 of 3 entries in column 'sex' are none of its categories and count as missing." in told
    assert told.count("Warning: ") == 2


def test_an_app_of_the_operators_own_is_said_to_be_imported_only(node, monkeypatch):
    (node / "own_app.py").write_text("from flwr.clientapp import ClientApp\napp = ClientApp()\n")
    monkeypatch.syspath_prepend(node)
    checked = invoke("check", CONFIG, "--app", "own_app:app")
    assert "App: own_app:app is imported; its data are first read with a query." in checked.stdout


def test_a_port_that_another_program_has_is_refused_before_anything_starts(node, monkeypatch):
    started = []
    monkeypatch.setattr(
        launch,
        "supervise",
        lambda *given: started.append(given) or 0,
    )
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        arguments = ("supernode", *TABLE, "--", "--insecure", "--port", port)
        refused = invoke(*arguments, "--node-config", CONFIG)
        assert refused.exit_code == 2 and not started
        assert f"Port {port} of 127.0.0.1 cannot be used (Address already in use)" in refused.stderr
    assert invoke(*arguments, "--node-config", CONFIG).exit_code == 0 and len(started) == 1


def test_a_table_without_rows_is_found(node):
    (node / "table.csv").write_text("person,age\n")
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2
    assert "table.csv has no users" in checked.stderr and "--ids" in checked.stderr
    (node / "people.txt").write_text("p1\np2\n")
    (node / "people.txt").chmod(0o600)
    named = invoke("check", CONFIG, *TABLE, "--ids", "people.txt")
    assert named.exit_code == 0 and "with 2 users" in named.stdout


def test_a_key_without_effect_is_found(node):
    checked = invoke("check", CONFIG + " site=3", *TABLE)
    assert checked.exit_code == 2 and "'site' has no effect" in checked.stderr


@pytest.mark.parametrize(
    ("schema", "told"),
    [("none.json", "No such file or directory."), ("table.csv", "which is no JSON.")],
)
def test_what_is_no_schema_is_named(node, schema, told):
    (node / "table.csv").write_text("person,x\na,1\n", "utf-8")
    checked = invoke("check", CONFIG, "--table", "table.csv", "--schema", schema, *TABLE[4:])
    assert checked.exit_code == 2
    assert "Expected --schema to be a JSON file of Schema.to_dict, got" in checked.stderr
    assert told in checked.stderr


def test_a_schema_that_an_editor_of_windows_wrote_is_read(node):
    (node / "schema.json").write_text(json.dumps(SCHEMA.to_dict()), "utf-8-sig")
    assert invoke("check", CONFIG, *TABLE).exit_code == 0


@pytest.mark.parametrize("option", ["--train-on", "--sandbox", "--train-seconds", "--train-memory"])
def test_an_option_that_was_removed_names_what_replaces_it(node, option):
    for arguments in (
        ("check", CONFIG, option, "1"),
        ("supernode", option, "1", "--", "--insecure"),
    ):
        refused = invoke(*arguments)
        assert refused.exit_code == 2
        assert "--train-on and its options are removed" in refused.stderr
        assert "--records" in refused.stderr


@pytest.mark.parametrize("name", ["ledger.db", "table.csv"])
@pytest.mark.parametrize(("mode", "told"), [(0o604, "read it: chmod o-r"), (0o602, "write it")])
def test_what_everybody_on_the_machine_can_get_at_is_refused(node, name, mode, told):
    (node / name).chmod(mode)
    checked = invoke("check", CONFIG, *TABLE)
    assert checked.exit_code == 2 and told in checked.stderr
    node.chmod(0o700)  # nobody gets there
    assert invoke("check", CONFIG, *TABLE).exit_code == 0


def test_a_folder_in_which_everybody_may_replace_the_ledger_is_refused(node):
    node.chmod(0o777)
    checked = invoke("check", CONFIG)
    assert checked.exit_code == 2 and "can replace" in checked.stderr
    node.chmod(0o1777)  # as /tmp is
    assert invoke("check", CONFIG).exit_code == 0


def test_a_node_is_not_started_if_anything_is_wrong(node, monkeypatch):
    started = []
    monkeypatch.setattr(launch, "supervise", lambda *given: started.append(given))
    flowers = ("--", "--insecure", "--node-config")
    for arguments, told in (
        ((*TABLE, *flowers, 'max-epsilon=2.0 ledger-path="none.db"'), "No ledger at none.db"),
        ((*TABLE, "--", "--insecure"), "There is no policy"),
        ((*flowers, CONFIG), "Expected --app, --table with"),
        (("--records", "r.npz", *TABLE, *flowers, CONFIG), "Expected --records alone"),
        (("--records", "r.npz", "--app", "a:b", *flowers, CONFIG), "Expected --records alone"),
        (("--app", "a:b", *TABLE, *flowers, CONFIG), "Expected either --app or --table"),
        (("--app", "no_module:app", *flowers, CONFIG), "cannot be loaded"),
        ((*TABLE, "--", "--insecure", "--isolation=process"), "no --isolation process"),
    ):
        refused = invoke("supernode", *arguments)
        assert refused.exit_code == 2 and told in refused.stderr, refused.output
    assert not started
    assert invoke("supernode", *TABLE, *flowers, CONFIG).exit_code == 0
    ((given, settings),) = started
    assert given == ["--insecure", "--node-config", CONFIG]
    assert settings.source.path == str(node / "table.csv")  # from wherever a message is answered


RECORDS_CONFIG = (
    'max-epsilon=2.0 max-delta=1e-5 unit="record" num-records=40 allow-inexact=true '
    'user-id="clinic" ledger-path="records.db"'
)


@pytest.fixture
def records(node):
    SqliteLedger.create("records.db")
    file = node / "records.npz"
    np.savez(file, records=np.zeros((50, 3, 4), np.float32), targets=np.zeros(50, np.int64))
    file.chmod(0o600)
    return file


def test_a_node_with_records_is_as_it_should_be(records, monkeypatch):
    checked = invoke("check", RECORDS_CONFIG, "--records", "records.npz")
    assert checked.exit_code == 0, checked.stderr
    assert f"Records: {records}, 50 records of 3 x 4." in checked.stdout
    assert "num-records=" not in checked.stdout
    far = RECORDS_CONFIG.replace("num-records=40", "num-records=6500")
    checked = invoke("check", far, "--records", "records.npz")
    assert "num-records=6500, but records.npz has 50" in " ".join(checked.output.split())
    started = []
    monkeypatch.setattr(launch, "supervise", lambda *given: started.append(given))
    flowers = ("--", "--insecure", "--node-config", RECORDS_CONFIG)
    assert invoke("supernode", "--records", "records.npz", *flowers).exit_code == 0
    assert started[0][1].source.path == str(records) and started[0][1].name == str(records)


def test_a_node_with_records_of_users_is_as_it_should_be(records):
    of_users = RECORDS_CONFIG.replace('unit="record" num-records=40', 'noise="node"')
    SqliteLedger.create("users.db")
    of_users = of_users.replace("records.db", "users.db")
    arrays = {"records": np.zeros((50, 4), np.float32), "targets": np.zeros(50, np.int64)}
    np.savez(records, **arrays, owners=[f"patient {i % 7}" for i in range(50)])
    checked = invoke("check", of_users, "--records", "records.npz")
    assert checked.exit_code == 0, checked.stderr
    assert "50 records of 4, about 7 users." in " ".join(checked.stdout.split())
    np.savez(records, **arrays)
    checked = invoke("check", of_users, "--records", "records.npz")
    assert checked.exit_code == 2 and "has no array owners" in " ".join(checked.stderr.split())
    np.savez(records, **arrays, owners=np.arange(50) + 0.5)
    checked = invoke("check", of_users, "--records", "records.npz")
    assert checked.exit_code == 2 and "Expected owners to be strings or integers" in checked.stderr


LOADERS = """
import numpy as np

def scans(folder):
    return np.zeros((50, 3, 4)), np.arange(50) % 2, [f"p{i % 7}" for i in range(50)]

def plain(folder):
    return [[1.0, 2.0]] * 50, [0] * 50

def short(folder):
    return np.zeros((50, 3)), np.zeros(49)

def one(folder):
    return (np.zeros(3),)

def fails(folder):
    raise OSError(f"no disk at {folder}")
"""


def test_the_operators_loader_makes_the_records(records, monkeypatch):
    (records.parent / "site_loaders.py").write_text(LOADERS)
    monkeypatch.syspath_prepend(records.parent)
    folder = records.parent / "scans"
    folder.mkdir(mode=0o700)

    def checked(name):
        given = ("--records", folder, "--loader", name)
        found = invoke("check", RECORDS_CONFIG, *given)
        return found.exit_code, " ".join((found.stdout + found.stderr).split())

    code, told = checked("site_loaders:scans")
    assert code == 0 and "50 records of 3 x 4, about 7 users" in told
    assert checked("site_loaders:plain")[0] == 0
    for name, words in {
        "site_loaders:short": "with one target a record",
        "site_loaders:one": "to return records, targets and perhaps owners for scans",
        "site_loaders:fails": "OSError: no disk at",
        "site_loaders:none": "cannot be loaded: AttributeError",
        "site_loaders": "Expected --loader MODULE:ATTRIBUTE",
    }.items():
        code, told = checked(name)
        assert code == 2 and words in told
    alone = invoke("check", RECORDS_CONFIG, "--loader", "site_loaders:scans")
    assert alone.exit_code == 2 and "Expected --loader with --records" in alone.stderr
    started = []
    monkeypatch.setattr(launch, "supervise", lambda *given: started.append(given))
    flowers = ("--", "--insecure", "--node-config", RECORDS_CONFIG)
    given = ("--records", folder, "--loader", "site_loaders:scans", *flowers)
    assert invoke("supernode", *given).exit_code == 0
    assert started[0][1].source.loader == "site_loaders:scans"


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({}, "which has no such arrays"),
        ({"records": np.zeros(3)}, "which has no such arrays"),
        ({"records": np.zeros((3, 2)), "targets": np.zeros(2)}, "records of shape [3, 2]"),
        ({"records": np.array([None]), "targets": np.zeros(1)}, "which has no such arrays"),
        ({"records": np.zeros((2, 3)), "targets": np.array(["a", "b"])}, "Targets are no numbers"),
        ({"records": np.zeros((2, 3)), "targets": np.array([1, np.nan])}, "1 of 2 targets are not"),
    ],
)
def test_records_that_cannot_be_used_are_found(records, arrays, told):
    np.savez(records, **arrays)
    checked = invoke("check", RECORDS_CONFIG, "--records", records)
    assert checked.exit_code == 2 and told in checked.stderr.replace("\n", " ")


@pytest.fixture
def net(records):
    """Save a network that takes four numbers and knows two classes."""
    product = Operation("aten.mm.default", (Reference(None), Reference("w")), {})
    weight = Tensor("float32", (4, 2), True)
    graph = Graph(Tensor("float32", (4,)), {"w": weight}, (product,), Reference(0), "cross_entropy")
    Network(graph, {"w": np.zeros((4, 2), np.float32)}).save("net.json")
    return "net.json"


@pytest.mark.parametrize(
    ("rows", "targets", "code", "told"),
    [
        ((50, 4), np.arange(50) % 2, 0, "net.json: Of 50 records 50 count."),
        ((50, 4), np.arange(50) % 2 + 1, 2, "25 count: 25 have a target outside 0..1."),
        ((50, 4), np.full(50, 3), 2, "Of 50 records 0 count: 50 have a target outside 0..1."),
        ((50, 4), np.array(["0", "1"] * 25), 2, "Targets are no numbers but <U1."),
        ((50, 2, 2), np.arange(50) % 2, 2, "Expected records of 4, got 2 x 2."),
        ((50, 4), np.zeros((50, 1)), 2, "Expected targets of one number, got 1."),
    ],
)
def test_records_are_held_against_a_network_before_any_run(records, net, rows, targets, code, told):
    np.savez(records, records=np.zeros(rows, np.float32), targets=targets)
    checked = invoke("check", RECORDS_CONFIG, "--records", records, "--network", net)
    assert checked.exit_code == code, checked.output
    assert told in " ".join(checked.output.split())


def test_an_operator_takes_larger_public_encoders(records, net, monkeypatch):
    network = Network.load(net)
    body = {"body": Tensor("float32", (9,), False)}
    graph = replace(network.graph, parameters={**network.graph.parameters, **body})
    Network(graph, {**network.arrays, "body": np.zeros(9, np.float32)}).save(net)
    np.savez(records, records=np.zeros((50, 4), np.float32), targets=np.arange(50) % 2)
    given = ("check", RECORDS_CONFIG, "--records", records, "--network", net, "--max-frozen")
    refused = invoke(*given, 8)
    assert "at most 8 parameters and constants" in " ".join(refused.stderr.split())
    assert invoke(*given, 9).exit_code == 0
    alone = invoke("check", RECORDS_CONFIG, "--max-frozen", 9)
    assert alone.exit_code == 2 and "Expected --max-frozen with --records" in alone.stderr
    started = []
    monkeypatch.setattr(launch, "supervise", lambda *found: started.append(found) or 0)
    flowers = ("--", "--insecure", "--node-config", RECORDS_CONFIG)
    assert (
        invoke("supernode", "--records", "records.npz", "--max-frozen", 9, *flowers).exit_code == 0
    )
    assert started[0][1].source.limits == Limits(frozen=9)


def test_a_network_that_cannot_be_read_is_found(records, net, tmp_path):
    Path(net).write_text("{}")
    checked = invoke("check", RECORDS_CONFIG, "--records", records, "--network", net)
    assert checked.exit_code == 2 and "cannot be used" in checked.stderr
    alone = invoke("check", RECORDS_CONFIG, "--network", net)
    assert alone.exit_code == 2 and "Expected --network with --records" in alone.stderr


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        ('user-id="clinic" ', "set user-id"),
        ("allow-inexact=true ", "in the node's configuration: allow-inexact=true"),
        ('unit="record" num-records=40 ', "needs a ledger|unit|record"),
    ],
)
def test_a_configuration_that_trains_on_no_records_is_found(records, left_out, told):
    config = RECORDS_CONFIG.replace(left_out, "")
    checked = invoke("check", config, "--records", records)
    assert checked.exit_code == 2 and re.search(told, checked.stderr.replace("\n", " "))


def test_the_guides_commands_check_and_start_a_node_without_an_app(node, monkeypatch):
    started = []
    monkeypatch.setattr(
        launch,
        "supervise",
        lambda *given: started.append(given) or 0,
    )
    for command in ("check", "supernode --table", "ledger report ledger.db --format"):
        (line,) = re.findall(rf"^ldp-flower ({command} [^>\n]*)", GUIDE, re.MULTILINE)
        given = shlex.split(line.replace("/var/lib/flower/", ""))
        done = invoke(*given)
        assert done.exit_code == 0, done.output
    ((arguments, settings),) = started
    assert "--root-certificates" in arguments and settings.source.user_column == "person"


STUDY = """format = 1
[[study]]
id = "ages"
questions = ["moments"]
columns = ["age", "intercept"]
noise = ["user"]
epsilon = 1.0
steps = 3
until = 2999-03-31
census = true
"""


def test_a_study_is_shown_and_a_column_that_the_schema_lacks_is_refused(node):
    def found(text):
        (node / "studies.toml").write_text(text)
        (node / "studies.toml").chmod(0o644)
        done = invoke("check", f'{CONFIG} studies="studies.toml"', *TABLE, "--json")
        return json.loads(done.stdout)

    key = create_key("analyst.key").public_key().public_bytes_raw()
    whole = found(f'{STUDY}signed-by = ["{key.hex()}"]\n')
    assert whole["problems"] == whole["doubts"] == []
    (fact,) = (each for each in whole["facts"] if each.startswith("Study"))
    assert fact == (
        "Study ages: epsilon 1 and delta 0, 3 steps, until 2999-03-31. Questions: moments. "
        f"Columns: age, intercept. Noise: user. Signed by the key {shown(key)}. Census: yes."
    )
    (problem,) = found(STUDY.replace('"age"', '"agee"'))["problems"]
    assert problem == "Study ages lists the column 'agee', which the schema lacks: is 'age' meant?"
    (problem,) = found(STUDY.replace('"age"', '"wage-2020"'))["problems"]
    assert problem.endswith("which the schema lacks. It has age.")
    ended = STUDY.partition("\n")[2].replace("2999", "1999").replace("ages", "old")
    assert found(STUDY + ended.replace('"age"', '"agee"'))["problems"] == []


# ------------------------------------------------------------------------- reports


@pytest.fixture
def spent(tmp_path):
    ledger, policy = SqliteLedger.create(tmp_path / "ledger.db"), PrivacyPolicy(2.0)
    for entry, users, epsilon in (
        (Entry("q1", 1 << 63, "gradient", "Codebook"), ["a", "<b>"], 0.5),
        (Entry("q2", 7, "view", "Codebook"), ["a"], 1.5),
        (Entry("q3", 7, "view", "Codebook"), ["c"], 0.25),
    ):
        assert ledger.reserve(entry, np.array(users), Cost(epsilon), policy).users.all()
    assert renew_budgets(ledger, ["<b>"]) == 1
    return tmp_path / "ledger.db"


def report(path, written, *options):
    done = invoke("ledger", "report", path, "--format", written, *options)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_report_says_who_spent_what_when_and_what_is_left(spent):
    found = json.loads(report(spent, "json", "--max-epsilon", 2.0))
    assert found["users"] == [
        {"user": "a", "epsilon": 2.0, "delta": 0.0, "for life": 2.0, "left": 0.0},
        {"user": "c", "epsilon": 0.25, "delta": 0.0, "for life": 0.25, "left": 1.75},
    ]
    runs = {run["run"]: (run["questions"], run["users"], run["epsilon"]) for run in found["runs"]}
    assert runs == {str(1 << 63): (1, 2, 1.0), "7": (2, 2, 1.75)}
    (day,) = found["days"]
    assert (day["questions"], day["users"], day["epsilon"]) == (3, 3, 2.75)
    assert [(row["user"], row["epsilon"]) for row in found["renewals"]] == [("<b>", 0.5)]
    totals = found["totals"]
    assert (totals["users"], totals["questions"], totals["runs"]) == (2, 3, 2)
    assert totals["smallest epsilon left"] == 0.0 and totals["users with nothing left"] == 1


def test_a_page_is_whole_and_runs_nothing_that_a_name_holds(spent):
    page = report(spent, "html")
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert "src=" not in page and "href=" not in page and "<script" not in page
    assert page.count("<th>epsilon, summed over users</th>") == 2  # by run and by day
    assert "<td>9223372036854775808</td>" in page and "<th>left</th>" not in page


def test_metrics_are_prometheus_text_and_name_nobody(spent):
    metrics = report(spent, "prometheus", "--max-epsilon", 2.0)
    line = r"(# TYPE [a-z_]+ gauge|# HELP [a-z_]+ [A-Z][a-z, ]+\.|"
    line += r"[a-z_]+(\{(run|day)=\"[-0-9]+\"\})? [0-9.e+-]+)"
    assert all(re.fullmatch(line, each) for each in metrics.splitlines())
    assert 'ldp_flower_run_epsilon{run="7"} 1.75' in metrics.splitlines()
    assert "# HELP ldp_flower_run_epsilon Epsilon, summed over users." in metrics.splitlines()
    assert "ldp_flower_smallest_epsilon_left 0" in metrics.splitlines()


def test_an_empty_ledger_has_a_report(tmp_path):
    SqliteLedger.create(tmp_path / "ledger.db")
    for written in ("html", "json", "prometheus"):
        assert report(tmp_path / "ledger.db", written, "--max-epsilon", 1.0)


def test_no_ledger_has_none(tmp_path):
    failed = invoke("ledger", "report", tmp_path / "none.db")
    assert failed.exit_code == 1 and "No ledger at" in failed.stderr
