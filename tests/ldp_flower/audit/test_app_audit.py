"""Apps that somebody else wrote: what is found in them, and the parts that find it."""

import itertools
import time

import numpy as np
import pandas as pd
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

from ldp_flower.accounting import noise_multiplier_epsilon
from ldp_flower.audit.app import AuditedApp, CannotAuditError, Options, audit_app
from ldp_flower.audit.app.claims import Claims
from ldp_flower.audit.app.classifier import furthest, lower_bound
from ldp_flower.audit.app.data_forms import arrays, digest
from ldp_flower.audit.app.leaks import differences
from ldp_flower.audit.app.loader import intercept, loaders_of
from ldp_flower.audit.app.looks import Look, Transcript
from ldp_flower.audit.app.node import _standing_clock
from ldp_flower.audit.app.variants import BASE, Variant, variants
from ldp_flower.cli.app import app as command

PROJECT = """
[project]
name = "stranger"
version = "1.0.0"
[tool.flwr.app.components]
serverapp = "{name}.server:app"
clientapp = "{name}.client:app"
[tool.flwr.app.config]
rounds = 2
"""
SERVER = """
import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
app = ServerApp()

@app.main()
def main(grid, context):
    FedAvg(fraction_evaluate=0.0).start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(3)]),
        num_rounds=context.run_config["rounds"],
    )
"""
CLIENT = """
import time
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from ldp_flower.compare import local_dp_mod

def load_data(partition):
    rng = np.random.default_rng(partition)
    x = rng.normal(size=(20, 3))
    return x, (x.sum(axis=1) > 0).astype(int)

app = ClientApp()
RNG = np.random.default_rng(7)

def train(message, context):
    x, y = load_data(context.node_config["partition-id"])
    (w,) = message.content["arrays"].to_numpy_ndarrays()
    w = w + (y - 1 / (1 + np.exp(-x @ w))) @ x / 20
    metrics = {"num-examples": 1}
    TRAINED
    content = RecordDict({"arrays": ArrayRecord([w]), "metrics": MetricRecord(metrics)})
    reply = Message(content, reply_to=message)
    REPLY
    return reply

app.train(mods=[MODS])(train)
"""
NAMES = (f"stranger{i}" for i in itertools.count())
CALIBRATED = "local_dp_mod(2.0, 1e-5, 1.0, answers=2)"
QUICK = Options(runs=100)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes an app; what it does to this process ends with the test."""
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))

    def written(mods="", trained="pass", reply="pass"):
        name = next(NAMES)
        package = tmp_path / name / name
        package.mkdir(parents=True)
        (package.parent / "pyproject.toml").write_text(PROJECT.format(name=name))
        (package / "__init__.py").touch()
        (package / "server.py").write_text(SERVER)
        body = CLIENT.replace("MODS", mods).replace("TRAINED", trained).replace("REPLY", reply)
        (package / "client.py").write_text(body)
        return package.parent

    return written


def findings(folder, options=QUICK):
    return {(finding.what, finding.where) for finding in audit_app(folder, options).found}


def test_nothing_is_found_in_a_calibrated_mod_and_what_a_server_saves_is_not_left(
    write, tmp_path, monkeypatch
):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "settings.txt").write_text("2")
    folder = write(CALIBRATED)
    (server,) = folder.glob("*/server.py")
    text = server.read_text().replace(
        'num_rounds=context.run_config["rounds"]', "num_rounds=int(open('settings.txt').read())"
    )
    (tmp_path / "here" / "model.pt").write_text("of last time")
    server.write_text(text + "    [open(name, 'w').close() for name in ('new.pt', 'model.pt')]\n")
    monkeypatch.chdir(tmp_path / "here")
    found = audit_app(folder, QUICK)
    assert found.found == []
    assert found.claimed == 2 and found.measured <= 2
    assert found.exact == pytest.approx(2, rel=1e-6)
    assert any("20 records" in line for line in found.tried)
    files = {file.name: file.read_text() for file in (tmp_path / "here").iterdir()}
    assert files == {"settings.txt": "2", "model.pt": "of last time"}


def test_the_true_epsilon_of_a_mod_is_that_of_the_accounting(write):
    found = audit_app(write("LocalDpMod(1.0, 1e-4, 10.0, 1e-5)"), QUICK)
    noise = 1e-4 * np.sqrt(2 * np.log(1.25e5)) / 10
    expected = noise_multiplier_epsilon([noise] * 2, 1e-5)
    assert found.exact == pytest.approx(expected) and expected > 1.7e9
    assert "the claim is too small" in {finding.what for finding in found.found}


def test_what_is_no_array_is_found_beside_private_ones(write):
    """A metric, an order, a ttl, an error: one app, so that one attack finds them all."""
    folder = write(
        CALIBRATED,
        """if x.max() > 100: raise ValueError("too large")
    metrics["num-examples"] = len(x)
    metrics = {"z": 1, **metrics} if y.mean() > 0.4 else {**metrics, "z": 1}""",
        "reply.metadata.ttl = 100.0 + len(x)",
    )
    assert findings(folder) == {
        ("a function of the data, without noise", "train: metrics/num-examples, in 2 messages"),
        ("names or order of what is sent depend on data", "train: metrics: keys, in 2 messages"),
        ("the form of the reply depends on data", "train: metadata: ttl, in 2 messages"),
        ("whether it answers depends on data", "train: reply, in 2 messages"),
    }


@pytest.mark.parametrize(
    ("rng", "what"),
    [
        ("RNG", "noise is the same after a restart"),
        ("np.random.default_rng(time.time_ns())", "a function of the data, without noise"),
    ],
)
def test_noise_that_can_be_known_is_found(write, rng, what):
    found = findings(write(trained=f"w = w + {rng}.normal(0, 9, 3)"), Options(claim=9.0, runs=100))
    assert {kind for kind, _ in found} == {what}


@pytest.mark.slow
def test_noise_is_measured_against_the_owners_claim(write):
    """Laplace noise that tells signs apart nearly always, judged as epsilon 72, and as 0.2."""
    folder = write(trained="w = 3 * np.sign(w) + np.random.default_rng().laplace(0, 0.5, 3)")
    assert findings(folder, Options(claim=72.0, runs=100)) == set()
    (found,) = audit_app(folder, Options(claim=0.2, runs=100)).found
    assert found.what == "noisy replies distinguish data" and "claimed 0.2" in found.evidence


def test_what_cannot_be_tried_says_what_to_give(write, tmp_path):
    with pytest.raises(CannotAuditError, match=r"errors only.*no file"):
        audit_app(write(trained="raise OSError('no file')"), QUICK)
    silent = write("", "w = np.ones(3)")
    found = audit_app(silent, QUICK)
    assert found.found == [] and any("no change of the data did" in t for t in found.untried)
    with pytest.raises(CannotAuditError, match=r"one of .*client:load_data"):
        audit_app(silent, Options(loader="nowhere:load"))
    with pytest.raises(ValueError, match="Expected unit in"):
        Options(unit="user")
    with pytest.raises(ValueError, match=r"Expected an integer runs >= 1, got 2\.5"):
        Options(runs=2.5)
    with pytest.raises(ValueError, match="without ledger-path: an audit would spend"):
        Options(node_config={"ledger-path": "ledger.db"})
    with pytest.raises(CannotAuditError, match="is not a Flower app"):
        audit_app(tmp_path, QUICK)


def test_the_command_tells_by_its_exit_code(write, tmp_path):
    def run(*arguments):
        return CliRunner().invoke(command, ["audit", *map(str, arguments)])

    page, folder = tmp_path / "page.html", write()
    loader = f"{folder.name}.client:load_data"
    found = run("--app", folder, "--loader", loader, "--seconds", 1, "--html", page)
    assert found.exit_code == 1 and "arrays/0" in found.output and loader in found.output
    assert all(f"Step {step} of 5: " in found.output for step in (1, 2, 3, 4))
    assert run("--app", write(trained="raise OSError('no file')")).exit_code == 2
    assert "arrays/0" in page.read_text() and "private" not in found.output + page.read_text()
    for wrong in (
        [],
        ["LdpIht", "--app", tmp_path],
        ["LdpIht", "--claim", 2],
        ["--app", tmp_path, "--dim", 3],
        ["--app", tmp_path],
        ["--app", folder, "--seconds", 2, "--runs", 60],
    ):
        assert run(*wrong).exit_code == 2, wrong


def test_a_private_app_gets_as_many_nodes_as_it_starts_with_and_progress_is_shown(write):
    """Two rounds of 20 nodes each."""
    folder = write("LdpUpdateMod()")
    client, server = folder / folder.name / "client.py", folder / folder.name / "server.py"
    mod = "from ldp_flower.clients import LdpUpdateMod\n"
    client.write_text(mod + client.read_text())
    server.write_text(
        server.read_text()
        .replace("flwr.serverapp.strategy import FedAvg", "ldp_flower.strategies import LdpFedAvg")
        .replace("    FedAvg(fraction_evaluate=0.0)", "    LdpFedAvg(epsilon=0.5)")
    )
    with pytest.raises(CannotAuditError, match=r"refused 10 nodes .* use --nodes (40)\.") as told:
        audit_app(folder, Options(runs=100, nodes=10))
    assert "10 users are too few for 3 parameters" in str(told.value)
    steps = []
    found = audit_app(folder, QUICK, steps.append)
    assert "with 10 nodes" in steps[0] and "with 40 nodes" in steps[1]
    own = [line for line in found.untried if "audit PROTOCOL" in line]
    assert found.found == [] and own and all("reports on train" in line for line in own)


class Noisy:
    """A node whose replies are drawn by a function of a data set's name."""

    def __init__(self, draw):
        self.draw = draw

    def runs(self, variant, how_many):
        made = [np.atleast_1d(self.draw(variant.name)) for _ in range(how_many)]
        return [
            Transcript({(0, "reply"): "content"}, {(0, "arrays/0"): rows * 1.0}) for rows in made
        ]

    def look(self, variant, how_many):
        return Look(variant, self.runs(variant, how_many))


ONE, TWO = Variant("one"), Variant("two")
RNG = np.random.default_rng(0)


def bound(draw, how_many=3000):
    node = Noisy(draw)
    looks = [node.look(variant, 12) for variant in (ONE, TWO)]
    pair = furthest(looks, lambda variant: node.look(variant, 36))
    return lower_bound(node, pair, how_many, 0.0, 1e-3)[0]


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        # An answer that is true with the probability of epsilon 1.
        (lambda name: (name == "one") ^ (RNG.random() > np.e / (1 + np.e)), 0.6, 1.0),
        # Noise in whole numbers on what is none.
        (lambda name: 0.3 * (name == "one") + RNG.integers(0, 9), 4.0, np.inf),
        # One draw for two numbers, of which one is moved by a hundredth of it.
        (lambda name: RNG.normal() + np.array([0.0, 0.01 * (name == "one")]), 4.0, np.inf),
        # Noise as large as the data.
        (lambda name: RNG.normal(0, 1 + 9 * (name == "one"), 3), 2.0, np.inf),
        # The same noise on both.
        (lambda name: RNG.normal(0, 1, 3), 0.0, 0.0),
    ],
    ids=["answer", "steps", "shared", "size", "none"],
)
def test_the_bound_is_below_the_true_epsilon_and_not_far(draw, least, most):
    assert least <= bound(draw) <= most


def test_what_seemed_furthest_by_chance_is_looked_at_again():
    far = {"one": 0.0, "two": 2.0, "odd": 1.0}
    later = Noisy(lambda name: far[name] + RNG.normal())
    at_first = Noisy(lambda name: far[name] + 9 * (name == "odd") + RNG.normal())
    looks = [at_first.look(v, 40) for v in (ONE, TWO, Variant("odd"))]
    pair = furthest(looks, lambda v: later.look(v, 120))
    assert [(look.variant, look.count) for look in pair] == [(ONE, 120), (TWO, 120)]


@pytest.fixture
def in_a_run(monkeypatch):
    """Messages belong to one of Flower's processes."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def look_at(*records):
    asked, runs = Message(RecordDict(), 1, "train"), []
    for record in records:
        runs.append(Transcript())
        reply = Message(RecordDict({"note": record}), reply_to=asked)
        deadline = asked.metadata.created_at + asked.metadata.ttl
        runs[-1].add(0, reply, deadline, time.time(), own=False)
    return Look(ONE, runs)


@pytest.mark.usefixtures("in_a_run")
def test_the_length_of_what_is_random_is_part_of_the_form():
    def sent(*lengths):
        rng = np.random.default_rng(0)
        return look_at(*(ConfigRecord({"sealed": rng.bytes(length)}) for length in lengths))

    (found,) = differences(sent(5, 5), sent(8, 8))
    assert found.path == "note/sealed: length" and (found.first, found.second) == ("[5]", "[8]")
    assert not list(differences(sent(5, 6), sent(8, 9)))


@pytest.mark.usefixtures("in_a_run")
def test_what_is_not_there_is_told_by_its_name_only():
    one, two = (look_at(ConfigRecord({name: "text"})) for name in ("left", "right"))
    assert [found.path for found in differences(one, two)] == ["note: keys"]
    texts = (look_at(ConfigRecord({"note": text})) for text in ("short", "longer"))
    assert [found.path for found in differences(*texts)] == ["note/note"]


def test_a_clock_stands_still_and_goes_on_for_an_app_that_waits():
    with _standing_clock():
        now = time.time()
        assert [time.time(), time.monotonic()] == [now, now]
        while time.perf_counter() < now + 0.01:
            pass
    assert time.perf_counter() != now


X, Y = np.arange(12.0).reshape(6, 2) + 0.5, np.arange(6) % 2


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        {"x": X.astype(np.float32), "y": Y},
        pd.DataFrame({"a": X[:, 0], "b": Y, "c": list("uvwuvw")}),
        (torch.tensor(X), torch.tensor(Y)),
        DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=2),
        [(1.5, 0), (2.5, 1), (7.5, 0)],
        [{"age": 31.5, "name": "u"}, {"age": 4.5, "name": "v"}],
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_change_leaves_data_in_their_form_and_changes_them(data):
    before, changed = digest(data), set()
    for variant in variants("node", 6):
        after = variant.of(data)
        assert type(after) is type(data)
        if digest(after) != before:
            changed.add(variant.name)
    assert digest(data) == before
    assert {"record 1 turned over", "all records turned over"} <= changed


@pytest.mark.parametrize(
    "data",
    [np.column_stack([X, X[:, 0]]), pd.DataFrame(X), [tuple(row) for row in X.tolist()]],
    ids=["array", "table", "rows"],
)
def test_a_target_among_the_columns_changes_alone(data):
    tried = {variant.name: variant for variant in variants("node", 6)}
    last, first = (tried[f"{which} times -1,000"].of(data) for which in ("targets", "first column"))
    before, last, first = np.asarray(data), np.asarray(last), np.asarray(first)
    assert np.array_equal(last[:, :-1], before[:, :-1])
    assert np.array_equal(last[:, -1], -1000 * before[:, -1])
    assert np.array_equal(first[:, 1:], before[:, 1:])
    assert np.array_equal(first[:, 0], -1000 * before[:, 0])
    _, y = tried["targets times -1,000"].of((data, pd.Series(X[:, 0])))
    assert np.allclose(y, -1000 * X[:, 0])


def test_a_change_of_one_record_leaves_the_others_and_no_two_of_them_are_neighbours():
    for variant in variants("record", 1):
        after = variant.of((X, Y))
        assert np.array_equal(after[0][1:], X[1:]) and not np.array_equal(after[0], X)
    base = np.arange(100) / 3
    others = [variant for variant in variants("record", 100) if variant.record]
    where = np.concatenate([np.flatnonzero(variant.of(base) != base) for variant in others])
    assert len(where) == 30 and where.min() == 1 and where.max() == 99
    assert others[0].neighbours(BASE) and not others[0].neighbours(others[1])
    assert {variant.record for variant in variants("record", 1) + variants("record", 0)} == {0}


def test_all_of_large_data_are_compared():
    images = TensorDataset(torch.zeros(60, 40, 40), torch.zeros(60))
    other = images.tensors[0].clone()
    other[55, 20, 20] = 1
    assert digest(images) == digest(TensorDataset(torch.zeros(60, 40, 40), torch.zeros(60)))
    assert digest(images) != digest(TensorDataset(other, torch.zeros(60)))
    assert max(map(len, arrays(images))) == 60


def rows_one_by_one(partition, *, step=0.5):
    return [[partition + i * step for i in range(2)] for _ in range(3)]


def within(start):
    return lambda partition: np.arange(partition + start, partition + start + 3.0)


@pytest.mark.parametrize("load", [rows_one_by_one, within(1)], ids=["rows", "closure"])
def test_a_loader_returns_changed_data_whatever_it_is_written_with(load):
    held, noted = [load], []
    intercept(load, lambda data: noted.append(data) or np.zeros_like(data))
    assert not np.any(held[0](1)) and np.all(noted[0])


def test_a_loader_is_given_declared_or_the_only_load_data(write):
    folder = write()
    client, declared = folder / folder.name / "client.py", folder / "pyproject.toml"
    source = client.read_text()
    for usual in ("load_users", "load_records"):  # as apps of this library call it
        client.write_text(source.replace("load_data", usual))
        assert list(loaders_of(AuditedApp(folder, {}), None)) == [f"{folder.name}.client:{usual}"]
    client.write_text(source + "\n\nclass Data:\n    load = staticmethod(load_data)\n")
    reference = f"{folder.name}.client:load_data"

    def found(named=None):
        return list(loaders_of(AuditedApp(folder, {}), named))

    assert found() == [reference]
    assert found(f"{folder.name}.client:train, {folder.name}.client:Data.load") == [
        f"{folder.name}.client:train",
        f"{folder.name}.client:Data.load",
    ]
    text = declared.read_text()
    key = f'[tool.flwr.app.components]\nloader = "{folder.name}.client:Data.load"'
    declared.write_text(text.replace("[tool.flwr.app.components]", key))
    assert found() == [f"{folder.name}.client:Data.load"] and found(reference) == [reference]
    for wrong in ("numpy:load", f"{folder.name}.client:np.load", f"{folder.name}.client:app"):
        with pytest.raises(CannotAuditError, match=r"one of .*client:load_data.*, got .*declare"):
            found(wrong)


def test_an_app_without_an_evident_loader_is_asked_to_declare_it(write):
    none, two = write(), write()
    client, server = none / none.name / "client.py", two / two.name / "server.py"
    client.write_text(client.read_text().replace("load_data", "load_rows"))
    server.write_text(server.read_text() + "\n\ndef load_data():\n    pass\n")
    with pytest.raises(CannotAuditError, match=r"got none\. .*declare it .*client:load_rows"):
        audit_app(none, QUICK)
    with pytest.raises(CannotAuditError, match=r"got \[.*client:.*server:.*declare it"):
        audit_app(two, QUICK)
    declared = two / "pyproject.toml"
    key = f'[tool.flwr.app.components]\nloader = "{two.name}.client:load_data"'
    declared.write_text(declared.read_text().replace("[tool.flwr.app.components]", key))
    assert list(loaders_of(AuditedApp(two, {}), None)) == [f"{two.name}.client:load_data"]


def test_a_loader_that_gives_no_data_is_refused(write):
    folder = write()
    with pytest.raises(CannotAuditError, match=r"without a call of .*client:unused\. .*declare it"):
        client = folder / folder.name / "client.py"
        client.write_text(client.read_text() + "\n\ndef unused():\n    pass\n")
        audit_app(folder, Options(runs=100, loader=f"{folder.name}.client:unused"))
    with pytest.raises(CannotAuditError, match=r"Expected arrays, .* got Message\..*declare"):
        audit_app(folder, Options(runs=100, loader=f"{folder.name}.client:train"))


def test_an_app_starts_anew_as_it_was_imported(write):
    app = AuditedApp(write("", "KEPT.append(1)"), {"rounds": 3})
    (client,) = (m for m in app.modules() if m.__name__.endswith("client"))
    client.RNG, client.later = None, 1
    before = app.client
    app.restart()
    (other,) = (m for m in app.modules() if m.__name__.endswith("client"))
    assert other is not client and app.client is other.app is not before
    assert other.RNG.random() == np.random.default_rng(7).random() and not hasattr(other, "later")
    with pytest.raises(CannotAuditError, match=r"Expected settings in \['rounds'\]"):
        AuditedApp(app.folder, {"round": 1})


def test_the_owners_unit_is_not_changed_by_what_is_attached():
    claims = Claims(asked_unit="node", seen_unit="record")
    assert claims.unit == "node" and Claims(seen_unit="record").unit == "record"
