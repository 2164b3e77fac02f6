"""What docs/gallery.md sends to other tools arrives there."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.strategies import LdpIht, Result

PAGE = (Path(__file__).parents[1] / "docs" / "gallery.md").read_text("utf-8")
SECTION = PAGE.partition("## Where results go")[2]
FILE, MLFLOW, WANDB = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (3000, 8))
    strategy = LdpIht(dim=8, sparsity=2, epsilon=2.0)
    return simulate(strategy, Users.from_rows(x, 0.9 * x[:, 0]), seed=0)


def test_each_takes_about_ten_lines():
    for block in (FILE, MLFLOW, WANDB):
        assert len(block.strip().splitlines()) <= 10


def test_a_file_is_read_again(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(FILE, {"result": result})
    again = Result.from_dict(json.loads(Path("result.json").read_text()))
    np.testing.assert_equal(again.to_dict(), result.to_dict())


def test_mlflow_has_every_round_and_the_page(result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(tmp_path.as_uri())
    exec(MLFLOW, {"result": result})
    client = mlflow.MlflowClient()
    run = client.get_run(mlflow.last_active_run().info.run_id)
    assert run.data.params["epsilon"] == "2.0" and run.info.run_name == "LdpIht"
    kept = client.get_metric_history(run.info.run_id, "epsilon-spent")
    rounds = range(1, len(result.steps))
    assert [(each.step, each.value) for each in kept] == [(step, 2.0) for step in rounds]
    folder = tmp_path / run.info.experiment_id / run.info.run_id / "artifacts"
    assert json.loads((folder / "result.json").read_text()) == result.to_dict()
    assert (folder / "result.html").read_text("utf-8") == result.to_html()


def test_weights_and_biases_has_the_table_and_the_page(result, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    settings = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    logged = []
    keep = wandb.sdk.wandb_run.Run.log
    monkeypatch.setattr(
        "wandb.sdk.wandb_run.Run.log",
        lambda self, data, step=None: (logged.append((step, data)), keep(self, data, step)),
    )
    exec(WANDB, {"result": result})
    spent = [(step, data["epsilon-spent"]) for step, data in logged if step]
    assert spent == [(step, 2.0) for step in range(1, len(result.steps))]
    (table,) = tmp_path.rglob("*.table.json")
    assert len(json.loads(table.read_text())["data"]) == 8
    (page,) = tmp_path.rglob("*.html")
    body = result.to_html().partition("<body>")[2].strip()
    assert body and page.read_text("utf-8").endswith(body)
