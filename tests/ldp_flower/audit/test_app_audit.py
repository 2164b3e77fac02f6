"""Apps that somebody else wrote: what is found in them, and that nothing is in sound ones."""

import io
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

from ldp_flower import Users
from ldp_flower.accounting import gaussian_epsilon, noise_multiplier_epsilon
from ldp_flower.audit.app import CannotAuditError, Options, audit_app
from ldp_flower.audit.app.claims import Claims
from ldp_flower.audit.app.compared import differences
from ldp_flower.audit.app.data.forms import fingerprint
from ldp_flower.audit.app.data.sources import Sources
from ldp_flower.audit.app.data.stand_in import Rows
from ldp_flower.audit.app.data.values import altered, digest, stands_alone
from ldp_flower.audit.app.data.variants import (
    BASE,
    Variant,
    other_records,
    that_differ,
    variants,
)
from ldp_flower.audit.app.noise.shapes import laplace_epsilon, normal_epsilon, passes
from ldp_flower.audit.app.noise.structured_noise import _step
from ldp_flower.audit.app.replies import seen
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
from ldp_flower.accounting import local_dp_mod

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
QUICK = Options(seconds=0.2)


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


@pytest.fixture
def without_restarts(monkeypatch):
    """Spare the seconds that two processes take to start, where they tell nothing."""
    monkeypatch.setattr("ldp_flower.audit.app.restart._restarted", lambda _: None)


def findings(folder, options=QUICK):
    return {(finding.what, finding.where) for finding in audit_app(folder, options).found}


@pytest.mark.usefixtures("without_restarts")
def test_nothing_is_found_in_a_calibrated_mod(write):
    found = audit_app(write(CALIBRATED), QUICK)
    assert found.found == []
    (run, _) = found.worth
    assert run.claimed == 2 and run.exact == pytest.approx(2, rel=1e-6) and run.measured <= 2
    assert any("20 records" in line for line in found.tried)


@pytest.mark.usefixtures("without_restarts")
def test_what_a_server_saves_is_not_left_where_the_audit_runs(write, tmp_path, monkeypatch):
    """Its files can be read there, as ever."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "settings.txt").write_text("2")
    folder = write(CALIBRATED)
    (server,) = folder.glob("*/server.py")
    text = server.read_text().replace(
        'num_rounds=context.run_config["rounds"]', "num_rounds=int(open('settings.txt').read())"
    )
    server.write_text(text + "    open('final_model.pt', 'w').close()\n")
    monkeypatch.chdir(tmp_path / "here")
    assert audit_app(folder, QUICK).found == []
    assert [file.name for file in (tmp_path / "here").iterdir()] == ["settings.txt"]


@pytest.mark.usefixtures("without_restarts")
def test_the_true_epsilon_of_a_mod_is_that_of_the_accounting(write):
    found = audit_app(write("LocalDpMod(1.0, 1e-4, 10.0, 1e-5)"), QUICK)
    noise = 1e-4 * np.sqrt(2 * np.log(1.25e5)) / 10
    expected = noise_multiplier_epsilon([noise] * 2, 1e-5)
    assert found.worth[0].exact == pytest.approx(expected) and expected > 1.7e9
    assert [finding.what for finding in found.found] == ["the claim is too small"]


@pytest.mark.usefixtures("without_restarts")
def test_what_is_no_array_is_found_beside_private_ones(write):
    """A metric, an order, a ttl, an error's text: one app, so that one attack finds them all."""
    folder = write(
        CALIBRATED,
        """if x.max() > 100: raise ValueError(f"too large: {x.max()}")
    metrics["num-examples"] = len(x)
    metrics = {"z": 1, **metrics} if y.mean() > 0.4 else {**metrics, "z": 1}""",
        "reply.metadata.ttl = 100.0 + len(x)",
    )
    assert findings(folder) >= {
        ("a function of the data, without noise", "train: metrics/num-examples, in 2 messages"),
        ("names or order of what is sent tell data", "train: metrics: keys, in 2 messages"),
        ("the form of the reply tells data", "train: metadata: ttl, in 2 messages"),
        ("an error's text tells data", "train: error text, in 2 messages"),
        ("whether it answers depends on data", "train: reply, in 2 messages"),
    }


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        pytest.param(
            "w = w + np.random.RandomState(1).normal(0, 9, 3)",
            "a function of the data, without noise",
            marks=pytest.mark.long,
        ),
        ("w = w + RNG.normal(0, 9, 3)", "noise is the same after a restart"),
        pytest.param(
            "w = w + np.random.default_rng(time.time_ns()).normal(0, 9, 3)",
            "noise comes from the clock",
            marks=pytest.mark.long,
        ),
        (
            """n = context.state.setdefault(
        "n", ConfigRecord({"n": np.random.normal(0, 9, 3).tolist()}))
    w = w + n["n"]""",
            "noise is used again",
        ),
    ],
)
def test_noise_that_is_none_is_found(write, fault, what, request):
    if "restart" not in what:
        request.getfixturevalue("without_restarts")
    assert any(found.startswith(what) for found, _ in findings(write(trained=fault)))


@pytest.mark.usefixtures("without_restarts")
def test_noise_is_measured_against_the_owners_claim(write):
    """Laplace noise that tells signs apart nearly always, judged as epsilon 72, and as 0.2."""
    folder = write(trained="w = 3 * np.sign(w) + RNG.laplace(0, 0.5, 3)")
    assert findings(folder, Options(claim=72.0, seconds=0.2)) == set()
    told = findings(folder, Options(claim=0.2, seconds=0.2))
    assert [what for what, _ in told] == ["noisy replies tell data apart"]


@pytest.mark.usefixtures("without_restarts")
def test_a_sample_is_changed_where_the_app_reads_it_and_nowhere_else(write, tmp_path):
    """Flower reads a model's arrays by the same function of NumPy's as the app its rows."""
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(3).normal(size=(20, 3)))
    folder = write(CALIBRATED)
    client = folder / folder.name / "client.py"
    made = "rng = np.random.default_rng(partition)\n    x = rng.normal(size=(20, 3))"
    read = "with np.load(partition) as kept:\n        x = kept['x']"
    body = client.read_text().replace('node_config["partition-id"]', 'node_config["data-path"]')
    assert made in body
    client.write_text(body.replace(made, read))
    options = Options(sample=tmp_path / "rows.npz", seconds=0.2)
    for _ in range(2):  # a stand-in of the first audit is in the second one's way
        found = audit_app(folder, options)
        assert found.found == []
        assert any("load (20 records)" in line for line in found.tried)


@pytest.mark.usefixtures("without_restarts")
def test_answers_without_noise_are_told_apart_from_noise_by_enough_runs(write, monkeypatch):
    """An answer that is wrong once in exp(claim) times is the same on a few runs."""
    folder = write(CALIBRATED, 'metrics["num-examples"] = len(x)')
    exact = ("a function of the data, without noise", "train: metrics/num-examples, in 2 messages")
    assert findings(folder, Options(claim=3.0, seconds=0.2)) == {exact}
    monkeypatch.setattr("ldp_flower.audit.app.deterministic_leaks._LONGEST", 0.0)
    found = audit_app(folder, Options(claim=3.0, seconds=0.2))
    assert exact not in {(finding.what, finding.where) for finding in found.found}
    assert any(finding.what.startswith("no noise was seen") for finding in found.findings)


def test_an_app_that_answers_with_errors_only_cannot_be_tried(write):
    with pytest.raises(CannotAuditError, match=r"errors only.*no file"):
        audit_app(write(trained="raise OSError('no file')"), QUICK)


def test_what_cannot_be_tried_says_what_to_give(write, tmp_path):
    silent = write("", "w = np.ones(3)")
    found = audit_app(silent, QUICK)
    assert found.found == [] and any("no change of the data did" in t for t in found.untried)
    with pytest.raises(CannotAuditError, match=r"one of .*client:load_data"):
        audit_app(silent, Options(loader="nowhere:load"))
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    with pytest.raises(CannotAuditError, match="The app read no sample"):
        audit_app(silent, Options(sample=rows))
    with pytest.raises(ValueError, match="Expected unit in"):
        Options(unit="user")
    with pytest.raises(CannotAuditError, match="is no Flower app"):
        audit_app(tmp_path, QUICK)


def test_the_command_tells_by_its_exit_code(write, tmp_path):
    def run(*arguments):
        return CliRunner().invoke(command, ["audit", *map(str, arguments)])

    page = tmp_path / "page.html"
    found = run("--app", write(), "--seconds", 1, "--html", page)
    assert found.exit_code == 1 and "arrays/0" in found.output
    assert all(f"Step {step} of 5: " in found.output for step in (1, 2, 3, 5))
    assert run("--app", write(trained="raise OSError('no file')")).exit_code == 2
    assert "arrays/0" in page.read_text() and "private" not in found.output + page.read_text()
    for wrong in (
        [],
        ["LdpIht", "--app", tmp_path],
        ["LdpIht", "--claim", 2],
        ["--app", tmp_path, "--dim", 3],
        ["--app", tmp_path],
    ):
        assert run(*wrong).exit_code == 2, wrong


@pytest.mark.usefixtures("without_restarts")
def test_a_private_app_gets_as_many_nodes_as_it_starts_with_and_progress_is_shown(write):
    """Two rounds of 20 nodes each."""
    folder = write("LdpUpdateMod()")
    client, server = folder / folder.name / "client.py", folder / folder.name / "server.py"
    mod = "from ldp_flower.clients import LdpUpdateMod\n"
    client.write_text(mod + client.read_text())
    server.write_text(
        server.read_text()
        .replace("flwr.serverapp.strategy import FedAvg", "ldp_flower.strategies import LdpFedAvg")
        .replace("FedAvg(fraction_evaluate=0.0)", "LdpFedAvg(epsilon=0.5)")
        .replace("LdpLdpFedAvg", "LdpFedAvg")
    )
    with pytest.raises(CannotAuditError, match=r"refused 10 nodes .* use --nodes (40)\.") as told:
        audit_app(folder, Options(seconds=0.2, nodes=10))
    assert "At least 40 users are needed for 3 parameters, got 10" in str(told.value)
    assert ".." not in str(told.value)
    steps = []
    audit_app(folder, QUICK, steps.append)
    assert "with 10 nodes" in steps[0] and "with 40 nodes" in steps[1]
    assert [step.split(":")[0] for step in steps[1:]] == [f"Step {i} of 5" for i in (1, 2, 3, 4, 5)]


def test_noise_of_a_shape_is_worth_its_size_and_other_noise_is_not_taken_for_it():
    rng = np.random.default_rng(0)
    noise = {
        "normal": rng.normal(size=(800, 6)),
        "laplace": rng.laplace(size=(800, 6)),
        "uniform": rng.uniform(size=(800, 6)),
        "on a sphere": (lambda v: v / np.linalg.norm(v, axis=1, keepdims=True))(
            rng.normal(size=(800, 6))
        ),
    }
    for shape in ("normal", "laplace"):
        assert [name for name, rows in noise.items() if passes(shape, rows)] == [shape]
    # Means are one standard deviation apart; a bound fails once in 1,000 times.
    one, two = rng.normal(size=800), rng.normal(1.0, size=800)
    epsilon, mu = normal_epsilon(one, two, 1e-5, 1e-3)
    assert 0.7 < mu < 1.0 and 0.9 * gaussian_epsilon(mu, 1e-5) < epsilon < gaussian_epsilon(1, 1e-5)
    # Six numbers, each half a scale apart: 3, of which delta takes nearly nothing.
    apart = noise["laplace"], rng.laplace(0.5, size=(800, 6))
    assert 2.0 < laplace_epsilon(*apart, np.full(6, -1.0), 1e-5, 1e-3) < 3.0


@pytest.fixture
def in_a_run(monkeypatch):
    """Messages belong to one of Flower's processes."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.usefixtures("in_a_run")
def test_numbers_are_found_in_texts_and_arrays_in_bytes():
    kept = io.BytesIO()
    np.save(kept, np.array([1.5, np.inf]))
    record = ConfigRecord({"log": "mean -0.25 of 30 rows, v1.2", "file": kept.getvalue()})
    asked = Message(RecordDict(), 1, "train")
    reply = Message(RecordDict({"note": record}), reply_to=asked)
    numbers = seen(asked, reply, 0.0, 0.0).numbers
    assert numbers["note/log: numbers in it"].tolist() == [-0.25, 30.0]
    assert numbers["note/file: numbers in it"][0] == 1.5


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
        Users(X, Y, np.arange(7)),
        Rows(pd.DataFrame({"image": list(X), "label": Y})),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_change_leaves_data_in_their_form_and_changes_them(data):
    before, changed = fingerprint(data), set()
    for variant in variants("node", others=False, targets_alone=stands_alone(data)):
        after = variant.of(data)
        assert type(after) is type(data)
        if fingerprint(after) != before:
            changed.add(variant.name)
    assert fingerprint(data) == before
    assert {"record 1 turned over", "all records turned over"} <= changed


def rows_one_by_one(partition):
    return [[partition + i * 0.5 for i in range(2)] for _ in range(3)]


@pytest.mark.parametrize("load", [rows_one_by_one, lambda p: np.arange(p, p + 3.0)])
def test_a_loader_is_found_whatever_it_is_written_with(load):
    sources = Sources(SimpleNamespace(owns=lambda path: path == __file__))
    sources.find(load)
    assert [function for source in sources.found for function in source.functions] == [load]
    sources.use(Variant("zeros", np.zeros_like))
    with sources.answered_for(load):
        assert not np.any(load(1))
    assert np.any(load(1))


def names_of_those_that_differ(data):
    tried = variants("node", others=False, targets_alone=stands_alone(data))
    return {variant.name for variant in that_differ(tried, lambda note: note("load", 0, data))}


@pytest.mark.parametrize(
    "data",
    [np.column_stack([X, X[:, 0]]), pd.DataFrame(X), [tuple(row) for row in X.tolist()]],
    ids=["array", "table", "rows"],
)
def test_a_target_among_the_columns_changes_alone(data):
    assert "last column times -1,000" in names_of_those_that_differ(data)
    tried = {v.name: v for v in variants("node", others=False, targets_alone=False)}
    first, last = (tried[f"{which} column turned over"].of(data) for which in ("first", "last"))
    before, first, last = np.asarray(data), np.asarray(first), np.asarray(last)
    assert np.array_equal(last[:, :-1], before[:, :-1])
    assert not np.array_equal(last[:, -1], before[:, -1])
    assert np.array_equal(first[:, 1:], before[:, 1:])
    assert not np.array_equal(first[:, 0], before[:, 0])


def test_a_target_apart_changes_alone():
    data = (pd.DataFrame(X), pd.Series(X[:, 0]))
    assert "last column turned over" not in names_of_those_that_differ(data)
    tried = {v.name: v for v in variants("node", others=False, targets_alone=True)}
    x, y = tried["targets times -1,000"].of(data)
    assert x.equals(data[0]) and np.allclose(y, -1000 * data[1])


def test_changes_that_change_nothing_or_the_same_are_not_tried():
    names = names_of_those_that_differ(X)
    assert "features turned over" not in names  # all records, turned over
    assert not any("label" in name or "far" in name for name in names)
    assert "labels turned over" in names_of_those_that_differ((X, Y))


def test_whole_numbers_leave_their_range_unless_they_may_be_labels():
    ages = np.array([[18.0, 1], [44, 0], [91, 1]])
    names = names_of_those_that_differ(ages)
    assert {"record 1 far above all", "record 1 farther above"} <= names
    (far,) = [v for v in variants("node", False, False) if v.name == "record 1 far above all"]
    assert far.of(ages).tolist() == [[1091.0, 1], [44, 0], [91, 1]]
    assert far.of(list(range(100))) == list(range(100))


def test_all_of_large_data_are_compared():
    images = TensorDataset(torch.zeros(60, 40, 40), torch.zeros(60))
    other = images.tensors[0].clone()
    other[55, 20, 20] = 1
    assert digest(images) == digest(TensorDataset(torch.zeros(60, 40, 40), torch.zeros(60)))
    assert digest(images) != digest(TensorDataset(other, torch.zeros(60)))


def test_a_change_of_one_record_leaves_the_others(data=X):
    for variant in variants("record", others=False, targets_alone=True):
        after = altered((data, Y), variant.alter)
        assert np.array_equal(after[0][1:], data[1:]) and not np.array_equal(after[0], data)


def one_record_far_off(count, most):
    return [variant.of(np.arange(count) / 3) for variant in other_records(count, most)]


def test_other_records_are_spread_and_no_two_of_them_are_neighbours():
    base = np.arange(100) / 3
    changed = [np.flatnonzero(after != base) for after in one_record_far_off(100, 12)]
    assert all(len(where) == 1 for where in changed)
    where = np.concatenate(changed)
    assert len(where) == 12 and where.min() == 1 and where.max() == 99
    one, two = other_records(100, 12)[:2]
    assert one.neighbours(BASE) and BASE.neighbours(two) and not one.neighbours(two)
    assert len(one_record_far_off(3, 12)) == 2 and not other_records(1, 12)
    assert not other_records(0, 12)


def form_of(record):
    asked = Message(RecordDict(), 1, "train")
    return [seen(asked, Message(RecordDict({"note": record}), reply_to=asked), 0.0, 1e12)]


@pytest.mark.usefixtures("in_a_run")
def test_the_length_of_what_is_random_is_part_of_the_form():
    def sent(*lengths):
        rng = np.random.default_rng(0)
        return [form_of(ConfigRecord({"sealed": rng.bytes(length)})) for length in lengths]

    (found,) = differences(sent(5, 5), sent(8, 8))
    assert found.path == "note/sealed: length" and (found.first, found.second) == ("[5]", "[8]")
    assert not list(differences(sent(5, 6), sent(8, 9)))


@pytest.mark.usefixtures("in_a_run")
def test_what_is_not_there_is_told_by_its_name_only():
    one, two = ([form_of(ConfigRecord({name: "text"}))] for name in ("left", "right"))
    assert [found.path for found in differences(one, two)] == ["note: keys"]
    texts = ([form_of(ConfigRecord({"note": text}))] for text in ("short", "longer"))
    assert [found.path for found in differences(*texts)] == ["note/note"]


def test_steps_of_noise_are_found_where_none_are_neighbours():
    assert _step(np.array([0.5, 6.5, 10.5, 24.5, 30.5, 36.5])) == 2.0
    assert _step(np.random.default_rng(0).normal(size=40)) == 0.0


def test_the_owners_unit_is_not_changed_by_what_is_attached():
    claims = Claims(asked_unit="node", seen_unit="record")
    assert claims.unit == "node" and Claims(seen_unit="record").unit == "record"


def test_a_transform_takes_the_place_of_a_form():
    """As in ``datasets``, where each of both puts an end to the other."""
    rows = Rows(pd.DataFrame({"image": list(X)})).with_format("torch")
    shown = rows.with_transform(lambda batch: {"kind": [type(batch["image"][0])]})
    assert shown[0] == {"kind": np.ndarray}
    rows.set_transform(lambda batch: {"kind": [type(batch["image"][0])]})
    assert rows[0] == {"kind": np.ndarray}
    rows.set_format("torch")
    assert isinstance(rows[0]["image"], torch.Tensor)
