"""What the docs send to files, monitoring systems and trackers arrives there."""

import io
import json
import re
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.strategies import LdpIht, Result

DOCS = Path(__file__).parents[1] / "docs"
GALLERY = (DOCS / "gallery.md").read_text("utf-8").partition("## Where results go")[2]
(FILE,) = re.findall(r"```python\n(.*?)```", GALLERY, re.DOTALL)
PAGE = (DOCS / "monitoring.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROMETHEUS, TELEMETRY, MLFLOW, WANDB, TENSORBOARD, OWN = BLOCKS


@pytest.fixture
def names(tmp_path, monkeypatch):
    """The names of the page's first block, without its export."""
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(PROMETHEUS.partition("prometheus = ")[0], names)
    return names


def steps_and_reports(names):
    return [(step.number, step.reports) for step in names["result"].steps[1:]]


def test_a_file_is_read_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).choice([-1.0, 1.0], (3000, 8))
    strategy = LdpIht(dim=8, sparsity=2, epsilon=2.0)
    result = simulate(strategy, Users.from_rows(x, 0.9 * x[:, 0]), seed=0)
    exec(FILE, {"result": result})
    again = Result.from_dict(json.loads(Path("result.json").read_text()))
    np.testing.assert_equal(again.to_dict(), result.to_dict())


def test_prometheus_reads_a_run():
    pytest.importorskip("prometheus_client")
    names = {}
    exec(PROMETHEUS.replace("port=9464", "port=0"), names)
    export = names["prometheus"]
    with urlopen(f"http://127.0.0.1:{export.port}/metrics") as page:
        shown = page.read().decode()
    export.close()
    assert 'ldp_flower_server_users{strategy="Means"} 5000.0' in shown


def test_opentelemetry_prints_a_run(names):
    pytest.importorskip("opentelemetry.sdk")
    names["console"] = io.StringIO()  # the exporter's own is that of the time of its import
    exec(TELEMETRY.replace("ConsoleMetricExporter()", "ConsoleMetricExporter(console)"), names)
    assert "ldp_flower_server_epsilon" in names["console"].getvalue()


def test_mlflow_has_every_step_and_the_page(names, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    exec(MLFLOW, names)
    client, result = mlflow.MlflowClient(), names["result"]
    run = client.get_run(mlflow.last_active_run().info.run_id)
    assert run.data.params["epsilon"] == "1.0" and run.info.run_name == "means"
    kept = client.get_metric_history(run.info.run_id, "reports")
    assert [(each.step, each.value) for each in kept] == steps_and_reports(names)
    folder = tmp_path / run.info.experiment_id / run.info.run_id / "artifacts"
    assert json.loads((folder / "result.json").read_text()) == result.to_dict()
    assert (folder / "result.html").read_text("utf-8") == result.to_html()


def test_weights_and_biases_has_the_table_and_the_page(names, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    settings = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    logged = []
    keep = wandb.sdk.wandb_run.Run.log
    monkeypatch.setattr(
        "wandb.sdk.wandb_run.Run.log",
        lambda self, data, step=None: (logged.append((step, data)), keep(self, data, step)),
    )
    exec(WANDB, names)
    spent = [(step, data["reports"]) for step, data in logged if step]
    assert spent == steps_and_reports(names)
    (table,) = tmp_path.rglob("*.table.json")
    assert len(json.loads(table.read_text())["data"]) == len(names["result"].table())
    (page,) = tmp_path.rglob("*.html")
    body = names["result"].to_html().partition("<body>")[2].strip()
    assert body and page.read_text("utf-8").endswith(body)


def test_tensorboard_has_every_step(names):
    pytest.importorskip("tensorboardX")
    read = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    exec(TENSORBOARD, names)
    events = read.EventAccumulator("logs").Reload()
    assert [(each.step, each.value) for each in events.Scalars("reports")] == steps_and_reports(
        names
    )
    (text,) = events.Tensors("result/text_summary")
    assert repr(names["result"]) in text.tensor_proto.string_val[0].decode()


def test_a_callback_of_ones_own(names, capsys):
    exec(OWN, names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(names["result"].steps) and lines[-1].split()[1] == "True"
