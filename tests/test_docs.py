"""What the docs state about code holds."""

import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import InProcessGrid, Users, randomizers
from ldp_flower.cli.studies import as_toml
from ldp_flower.clients import NetworkClientApp
from ldp_flower.guarantee.studies import Studies
from ldp_flower.models import Network
from ldp_flower.strategies import LdpFedAvg
from ldp_flower.strategies.models.trained import Trained

DOCS = Path(__file__).parents[1] / "docs"


def test_the_accounting_example():
    example = re.search(r"```python\n(.*?)```", (DOCS / "accounting.md").read_text(), re.DOTALL)
    lines = example[1].strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines[:-1]), names)
    assert 1 < eval(lines[-1].split("#")[0], names) < 10


def test_the_example_of_an_approved_study(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "approved-studies.md").read_text("utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert "nihss" in capsys.readouterr().out
    (listed,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "listed.toml").write_text(listed)
    (study,) = Studies.read(tmp_path / "listed.toml").approved.values()
    assert listed == f"format = 1\n\n{as_toml(study)}"


def test_the_recipes(capsys):
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", (DOCS / "recipes.md").read_text(), re.DOTALL):
        exec(example, names)
    capsys.readouterr()
    furthest, weeks = names["furthest"], names["table"]["weeks"].to_numpy()
    assert np.abs(names["reached"] - [(furthest >= i).mean() for i in range(4)]).max() < 0.04
    retained = 1 - names["weeks"].cdf(names["week"] - 0.5)
    assert np.abs(retained - [(weeks >= k).mean() for k in names["week"]]).max() < 0.015


def test_the_heavy_hitters_example(capsys):
    example = re.search(r"```python\n(.*?)```", (DOCS / "heavy-hitters.md").read_text(), re.DOTALL)
    exec(example[1], {})
    assert capsys.readouterr().out.startswith("{'ATL': ")


@pytest.mark.slow
def test_the_tutorial_with_your_own_data(tmp_path, monkeypatch, capsys):
    """From a CSV to a table, a picture and a page; then the same in a deployment's two files."""
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "your-own-data.md").read_text("utf-8")
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example, names)
    shown = capsys.readouterr().out
    assert "age" in shown and "sector=private" in shown and "epsilon = 2 per user" in shown
    assert (tmp_path / "wage.png").stat().st_size > 5_000
    assert "<html" in (tmp_path / "wage.html").read_text("utf-8")[:200]
    # Without privacy R2 is .80, the AUC .89.
    result, table = names["result"], names["table"]
    assert 0.6 < r2_score(table["wage"], result.predict(table)) < 0.81
    assert type(result).from_dict(json.loads(json.dumps(result.to_dict()))).coef == pytest.approx(
        result.coef
    )
    likely = names["classes"].predict_proba(table)[:, 1]
    assert 0.8 < roc_auc_score(table["promoted"] == "yes", likely) < 0.9
    assert min(names["scores"]) > 0.6

    (tmp_path / "wage.html").unlink()
    grid = InProcessGrid(names["app"], 1)
    grid.contexts[1].node_config["data-path"] = "people.csv"
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    names["server"](grid, context)
    assert "sector=private" in capsys.readouterr().out and (tmp_path / "wage.html").exists()


def test_the_flower_app_of_five_minutes(capsys):
    page = (DOCS / "flower-app.md").read_text("utf-8")
    client: dict[str, object] = {}
    server: dict[str, object] = {}
    for names, text in zip(
        (client, server), re.findall(r"```python\n(.*?)```", page, re.DOTALL), strict=True
    ):
        exec(text, names)
    assert client["SCHEMA"] == server["SCHEMA"]
    about = tomllib.loads(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    for path in about["tool"]["flwr"]["app"]["components"].values():
        assert f"`{path.partition(':')[0].replace('.', '/')}.py`" in page
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    server["app"](InProcessGrid(client["app"], 4), context)
    office, shop = re.findall(r"^wage (?:office|shop): ([\d.]+) ±", capsys.readouterr().out, re.M)
    # Standard errors are 1.5, of the system's randomness.
    assert abs(float(office) - 26) < 9 and abs(float(shop) - 20) < 9


def test_the_example_of_a_series(capsys):
    page = (DOCS / "recurring.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)
    assert "collection 6 of 6, over 3,000 users" in capsys.readouterr().out
    # Of 3,000 users 45 minutes in the mean of the last week; 4 standard errors.
    (level,), (error,) = names["result"].level[-1:], names["result"].std_error[-1:]
    assert abs(level[0] - (names["minutes"] + 5).mean()) < 4 * error[0] < 6


def test_the_private_evaluation_example(capsys):
    page = (DOCS / "private-evaluation.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)
    x, y, model, found = (names[name] for name in ("X", "y", "model", "found"))
    assert capsys.readouterr().out.startswith("R2 0.")
    truth = 1 - np.mean((y - x @ model) ** 2) / np.var(y)
    assert abs(found.r2 - truth) < 4 * found.std_error


def test_the_example_of_a_networks_evaluation(capsys):
    page = (DOCS / "private-evaluation.md").read_text("utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)
    exec(second, names)
    found, people = names["score"], names["people"]
    right = names["network"].run(people.features).argmax(1) == people.targets
    assert abs(found.value - right.mean()) < 4 * found.std_error < 0.3
    assert "node 4" in capsys.readouterr().out


def test_plugging_into_an_existing_app(capsys):
    section = (DOCS / "model-updates.md").read_text("utf-8").split("## Statistics in an app")[1]
    client, server = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (3000, 8))
    client_app, server_app = ClientApp(), ServerApp()

    def load_rows(context):
        return x, x[:, 0] * 0.9, np.arange(3000), np.arange(3001)

    exec(client, {"app": client_app, "load_rows": load_rows})
    exec(server, {"app": server_app})
    grid = InProcessGrid(client_app, 1)
    server_app(
        grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    )
    assert "epsilon = 2 per user" in capsys.readouterr().out
    assert len((client + server).strip().splitlines()) <= 20


def test_the_model_updates_example():
    example = re.search(r"```python\n(.*?)```", (DOCS / "model-updates.md").read_text(), re.DOTALL)
    names = {}
    exec(example[1], names)

    @names["app"].train()
    def train(message, context):
        assert set(message.content["config"]) == {"lr", "local-epochs", "server-round"}
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        content = RecordDict({"arrays": ArrayRecord([np.add(weights, [1.0, 0.0])])})
        return Message(content, reply_to=message)

    grid = InProcessGrid(names["app"], 300)
    (weights,) = names["main"](grid, ArrayRecord([np.zeros(2)])).to_numpy_ndarrays()
    assert weights[0] > 10 and abs(weights[1]) < 10


def test_the_example_of_a_head():
    pytest.importorskip("torch")
    examples = re.findall(
        r"```python\n(.*?)```", (DOCS / "model-updates.md").read_text(), re.DOTALL
    )
    names = {}
    exec(next(text for text in examples if "trainable_of" in text), names)
    for trainable in (names["strategy"].trainable, ["2.*"]):
        trained = Trained.of(names["initial_arrays"], trainable)
        assert trained.names == ["2.bias", "2.weight"] and len(trained.start) == 1026
    assert len(Trained.of(names["initial_arrays"], None).start) == 34306


def test_the_example_with_several_users_behind_one_node(tmp_path):
    section = (DOCS / "model-updates.md").read_text().split("## Several users behind one node")[1]
    names = {}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], names)
    patients = np.arange(300)
    rng = np.random.default_rng(0)
    groups = np.repeat(patients, 5)
    x = rng.standard_normal((len(groups), 2)) / 2
    np.savez(tmp_path / "x.npz", x=x, y=x[:, 0] > 0, patient=groups, patients=patients)
    grid = InProcessGrid(names["app"], 1)
    grid.contexts[1].node_config["data-path"] = str(tmp_path / "x.npz")
    start = ArrayRecord([np.zeros(2)])
    result = LdpFedAvg(epsilon=4.0).start(grid, start, num_nodes=1, num_rounds=10)
    assert result.num_reports == result.num_users == 300
    (weights,) = result.arrays.to_numpy_ndarrays()
    assert weights[0] > 2 * abs(weights[1])


@pytest.mark.slow
def test_the_record_dp_sgd_example():
    """Labels are by the first of four features, which has a weight of many deviations then."""
    text = (DOCS / "silos.md").read_text().partition("## DP-SGD in an app of your own")[2]
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    rows = torch.randn(4, 1000, 4, generator=torch.Generator().manual_seed(0))
    labels = (rows[..., 0] > 0).long()

    def load_dataset(context):
        silo = context.node_config["partition-id"]
        return torch.utils.data.TensorDataset(rows[silo], labels[silo])

    names = {"Net": lambda: torch.nn.Linear(4, 2), "load_dataset": load_dataset}
    exec(example, names)
    result = names["main"](InProcessGrid(names["app"], 4))
    weight = result.arrays.to_torch_state_dict()["weight"]
    assert weight.diff(dim=0)[0].argmax() == 0


@pytest.mark.slow
def test_the_models_as_data_example():
    """Labels are by the sign of the first of four features."""
    text = (DOCS / "models-as-data.md").read_text("utf-8")
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    rows = np.random.default_rng(0).normal(size=(5, 2000, 4)).astype(np.float32)

    def load_records(context):
        silo = int(context.node_config["partition-id"])
        return rows[silo], (rows[silo, :, 0] > 0).astype(np.int64)

    result = names["main"](InProcessGrid(NetworkClientApp(load_records), 4))
    outputs = names["net"](torch.from_numpy(rows[4])).detach().numpy()
    np.testing.assert_allclose(result.network.run(rows[4]), outputs, atol=1e-5)
    assert np.mean(outputs.argmax(1) == (rows[4, :, 0] > 0)) > 0.8


def test_the_example_of_a_sites_own_head(tmp_path):
    section = (DOCS / "models-as-data.md").read_text("utf-8").split("## A head for each site")[1]
    names = {}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], names)
    rows = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    net = Network.export(torch.nn.Linear(4, 2), rows[0], "cross_entropy")
    net.save(tmp_path / "net.json")
    outputs = names["own_head"](tmp_path / "net.json", rows, rows[:, 0] > 0)
    assert np.mean(outputs.argmax(1) == (rows[:, 0] > 0)) > 0.9


def test_the_public_encoder_example():
    page = (DOCS / "public-encoder.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["accuracy"] > 0.5  # guessing: .2; the encoder has seen none of these classes


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_every_mechanism_is_on_the_page():
    text = (DOCS / "randomizers.md").read_text("utf-8")
    classes = [
        name
        for name in randomizers.__all__
        if isinstance(getattr(randomizers, name), type)
        and issubclass(getattr(randomizers, name), randomizers.Randomizer)
    ]
    for name in set(classes) - {"Randomizer", "FrequencyOracle"}:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize(
    ("page", "title"),
    [("ldp-iht", "Private labels"), pytest.param("silos", "", marks=pytest.mark.slow)],
)
def test_the_examples_print_what_they_say(page, title, capsys):
    text = (DOCS / f"{page}.md").read_text().partition(f"# {title}")[2]
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    exec(example, {})
    *_, said = re.findall(r"  # (.*)$", example, re.MULTILINE)
    assert said in capsys.readouterr().out


def test_the_corrections_are_what_their_code_prints(capsys):
    """Every block is followed, in comments, by what it prints."""
    text = (DOCS / "corrections-wang-xu.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 8
    for block in blocks:
        exec(block, {})
        printed = capsys.readouterr().out.split("\n")[:-1]
        assert printed == re.findall(r"(?:^|  )# (.*)$", block, re.MULTILINE), block


def test_the_sparse_regression_example():
    text = (DOCS / "sparse-regression.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(example[1], names)
    assert names["result"].support.tolist() == [7, 9]


def test_the_sparse_mean_example():
    text = (DOCS / "sparse-regression.md").read_text().partition("## SparseMean")[2]
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(example[1], names)
    assert names["result"].support.tolist() == [7, 9]


def test_the_collect_once_example():
    text = (DOCS / "collect-once.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(example[1], names)
    assert np.argmax(np.abs(names["result"].coef)) == 1 and names["result"].privacy.delta == 0


def test_the_counter_example_prints_what_the_page_says(capsys):
    page = DOCS.parent / "simulations" / "papers" / "knowledge_transfer" / "README.md"
    text = page.read_text("utf-8").partition("## The counter-example")[2]
    example, printed = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL
    ).groups()
    names = {}
    exec(example, names)
    assert capsys.readouterr().out == printed
    assert names["true_epsilon"] > 1500 * names["epsilon"]


@pytest.mark.slow
def test_the_knowledge_transfer_example():
    text = (DOCS / "silos.md").read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[1]
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (7200, 1000)).astype(np.float32)
    names = {"silos": Users(x, 3 * x[:, 7] - 2 * x[:, 9], 60 * np.arange(121))}
    exec(example.replace("epsilon=2.0", "epsilon=20.0"), names)
    assert names["result"].support.tolist() == [7, 9]


@pytest.mark.slow
def test_the_tutorial_runs_in_an_empty_folder_as_it_is_printed(tmp_path):
    """Its files are all that there is, and it prints what it says."""
    text = (DOCS / "add-a-protocol.md").read_text()
    for file in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        name = re.match(r"# (\w+\.py)\n", file)[1]
        assert f"`{name}`" in text
        (tmp_path / name).write_text(file)
    shown = subprocess.run(
        [sys.executable, "check.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert shown.stdout == printed and not shown.stderr


# ------------------------------------------------------------------- the plan of the house

ROOT = DOCS.parent
PLAN = (DOCS / "architecture.md").read_text("utf-8")


def test_the_plan_names_every_room_and_nothing_else():
    rooms = {
        f"{init.parent.relative_to(ROOT)}/"
        for folder in ("clients", "ldp_flower", "strategies")
        for init in (ROOT / folder).rglob("__init__.py")
    }
    listed = re.findall(r"^\| \*{0,2}`([a-z_/]+/)`", PLAN, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms | {"simulations/", "tests/"}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "README.md"])
def test_paths_in_the_plan_exist(page):
    text = (ROOT / page).read_text("utf-8")
    paths = re.findall(r"`((?:clients|ldp_flower|strategies|tests|simulations)/[\w/.*]*)`", text)
    assert paths
    for path in paths:
        assert list(ROOT.glob(path)), path


def test_the_picture_names_what_there_is():
    drawing = DOCS / "figures" / "architecture.py"
    stations = runpy.run_path(str(drawing))["STATIONS"]
    assert len(stations) == 10
    for station in stations:
        module = "ldp_flower." + station.path.removesuffix(".py").replace("/", ".")
        found = importlib.import_module(module)
        assert inspect.getfile(found).endswith(station.path)
        for name in station.name.split("."):
            found = getattr(found, name)
        assert found.__module__ == module, station


@pytest.mark.slow
def test_ten_hospitals_train_one_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "silos.md").read_text().partition("## Ten hospitals")[2]
    names: dict[str, object] = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    known = names["result"].network.run(names["X"][1500:]).argmax(axis=1) == names["y"][1500:]
    assert np.mean(known) > 0.6  # .75 to .80 by seed; a guess is right once in ten
    assert "epsilon" in (tmp_path / "statement.html").read_text("utf-8")
    stops = text.partition("### Stop early")[2]
    exec(re.search(r"```python\n(.*?)```", stops, re.DOTALL)[1], names)
    assert (
        names["result"].epsilon < 3.9 and "of 10 silos have confirmed" in names["result"].notes[-1]
    )
