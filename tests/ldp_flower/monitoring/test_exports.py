"""Exports: what monitoring systems and trackers get, and the board that shows it."""

import json
import re
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ldp_flower import Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.monitoring import (
    MlflowExport,
    OpenTelemetryExport,
    PrometheusExport,
    TensorBoardExport,
    WandbExport,
)
from ldp_flower.monitoring.gauges import Gauge, as_text
from ldp_flower.strategies import Means
from ldp_flower.supernode.accounts import Accounts
from ldp_flower.supernode.bookkeeping import renew_budgets

cli = import_module("ldp_flower.cli.app").app
ROOT = Path(__file__).parents[3]
BOARD = ROOT / "docs" / "grafana.json"
PAGE = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
SCHEMA = Schema({"x": Numeric(0, 1)})
PEOPLE = SCHEMA.users({"x": np.arange(3000) % 7 / 6})


def run(*callbacks):
    return simulate(Means(SCHEMA, "x", epsilon=2.0), PEOPLE, seed=0, callbacks=callbacks)


@pytest.fixture(scope="module")
def finished():
    """The last progress of a run."""
    seen = []
    run(seen.append)
    return seen[-1]


@pytest.fixture
def ledger(tmp_path):
    """A ledger on which a has spent 1.5 in two runs, b 0.5, c 0.25."""
    kept, policy = SqliteLedger.create(tmp_path / "ledger.db"), PrivacyPolicy(2.0)
    for number, users, epsilon in ((1, ["a", "b"], 0.5), (2, ["a"], 1.0), (2, ["c"], 0.25)):
        entry = Entry(f"q{users}{epsilon}", number, "view", "Codebook")
        assert kept.reserve(entry, np.array(users), Cost(epsilon), policy).users.all()
    return tmp_path / "ledger.db"


def metrics_on(port):
    """Return the lines of a page that are no comments."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        return [line for line in page.read().decode().splitlines() if line[0] != "#"]


# -------------------------------------------------------------------- monitoring systems


def test_prometheus_reads_the_last_state_of_each_source(finished, ledger):
    pytest.importorskip("prometheus_client")
    export = PrometheusExport(0)
    assert metrics_on(export.port) == []
    result = run(export)
    shown = metrics_on(export.port)
    assert f'ldp_flower_server_reports{{strategy="Means"}} {float(result.num_reports)}' in shown
    assert 'ldp_flower_server_epsilon{strategy="Means"} 2.0' in shown
    assert len(shown) == sum(len(gauge.samples) for gauge in finished.gauges())
    export(Accounts.of(ledger))
    assert shown == metrics_on(export.port)[: len(shown)]
    assert "ldp_flower_users 3.0" in metrics_on(export.port)
    export.close()
    with pytest.raises(OSError):
        metrics_on(export.port)


def test_prometheus_takes_a_registry_that_is_served_already(finished):
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    export = PrometheusExport(port=None, registry=registry)
    export(finished)
    assert registry.get_sample_value("ldp_flower_server_users", {"strategy": "Means"}) == 3000
    assert export.port is None
    export.close()
    with pytest.raises(ValueError, match="Expected an integer 0 <= port <= 65535"):
        PrometheusExport(70_000)


def test_opentelemetry_has_the_same_numbers(finished, ledger):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    reader = sdk.export.InMemoryMetricReader()
    export = OpenTelemetryExport(sdk.MeterProvider([reader]))
    for measured in (finished, Accounts.of(ledger)):
        export(measured)
        (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
        found = {
            (metric.name, *sorted(point.attributes.items())): point.value
            for metric in scope.metrics
            for point in metric.data.data_points
        }
        for gauge in measured.gauges():
            for labels, value in gauge.samples:
                assert found[gauge.name, *sorted(labels.items())] == value


def test_a_node_can_commit_while_its_report_is_computed(ledger, monkeypatch):
    read, commits = pd.read_sql_query, []

    def slowly(*arguments):
        with closing(sqlite3.connect(ledger, timeout=0)) as node:
            node.execute("UPDATE spent SET epsilon = 9")
            node.commit()
        commits.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(pd, "read_sql_query", slowly)
    accounts = Accounts.of(ledger)
    assert len(commits) > 3 and accounts.totals["largest epsilon spent"] == 1.5


def test_a_node_serves_totals_and_no_user(ledger, monkeypatch):
    pytest.importorskip("prometheus_client")
    shown = []

    def scraped(seconds):
        shown.append((seconds, metrics_on(port)))
        if len(shown) == 2:
            raise KeyboardInterrupt
        renew_budgets(SqliteLedger(ledger), ["a"])

    class Watched(PrometheusExport):
        def __init__(self, *arguments):
            nonlocal port
            super().__init__(*arguments)
            port = self.port

    port = None
    monkeypatch.setattr("ldp_flower.monitoring.PrometheusExport", Watched)
    monkeypatch.setattr("time.sleep", scraped)
    options = ["--port", "0", "--max-epsilon", "2", "--every", "30"]
    CliRunner().invoke(cli, ["ledger", "serve", str(ledger), *options])
    (seconds, before), (_, after) = shown
    assert seconds == 30 and {"ldp_flower_users 3.0", "ldp_flower_runs 2.0"} <= {*before}
    spent = {"smallest": 0.25, "median": 0.5, "largest": 1.5}
    assert {f"ldp_flower_{name}_epsilon_spent {value}" for name, value in spent.items()} < {*before}
    assert "ldp_flower_smallest_epsilon_left 0.5" in before and "ldp_flower_renewals 1.0" in after
    assert not any("{" in line for line in before)  # neither users nor runs nor days


def test_a_ledger_that_is_not_there_is_not_served(tmp_path):
    failed = CliRunner().invoke(cli, ["ledger", "serve", str(tmp_path / "none.db")])
    assert failed.exit_code == 1 and "No ledger at" in failed.stderr


def test_labels_are_escaped_in_text():
    gauge = Gauge("a", [({"b": 'x"\\\n', "c": "y"}, 0.5), ({}, 2)], "Help.")
    assert as_text([gauge]) == (
        '# HELP a Help.\n# TYPE a gauge\na{b="x\\"\\\\\\n",c="y"} 0.5\na 2\n'
    )


@pytest.mark.parametrize(
    ("missing", "export", "command"),
    [
        ("prometheus_client", PrometheusExport, "ldp-flower[monitoring]"),
        ("opentelemetry", OpenTelemetryExport, "ldp-flower[monitoring]"),
        ("mlflow", MlflowExport, "pip install mlflow-skinny"),
        ("wandb", lambda: WandbExport(None), "pip install wandb"),
    ],
)
def test_an_error_names_what_to_install(monkeypatch, missing, export, command):
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=re.escape(command)):
        export()


# ------------------------------------------------------------------- experiment trackers


class Recorder:
    """An object on which every call of a method is recorded, by its name."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *given, **named: self.calls.append((name, *given, *named.values()))

    def of(self, name):
        return [given for called, *given in self.calls if called == name]


def test_mlflow_gets_each_step_and_the_result(monkeypatch):
    mlflow = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    result = run(MlflowExport())
    logged = {step: metrics for metrics, step in mlflow.of("log_metrics")}
    assert {s: m.get("reports") for s, m in logged.items()} == reports_of(result) | {0: None}
    assert mlflow.of("log_params") == [[result.to_dict()["privacy"]]]
    assert mlflow.of("log_dict") == [[result.to_dict(), "result.json"]]
    assert mlflow.of("log_text") == [[result.to_html(), "result.html"]]


def test_weights_and_biases_gets_each_step_and_the_result(monkeypatch):
    kinds = SimpleNamespace(Table=lambda dataframe: dataframe, Html=str)
    monkeypatch.setitem(sys.modules, "wandb", kinds)
    wandb_run, updated = Recorder(), {}
    wandb_run.config, wandb_run.summary = updated, {}
    result = run(WandbExport(wandb_run))
    logged = wandb_run.of("log")
    steps = {given[1]: given[0].get("reports") for given in logged if len(given) == 2}
    assert steps == reports_of(result) | {0: None}
    assert updated == result.to_dict()["privacy"]
    assert wandb_run.summary == {"result": result.to_dict()}
    table, page = (given[0] for given in logged[-2:])
    assert table["table"].equals(result.table()) and page == {"page": result.to_html()}


def test_tensorboard_gets_each_step_and_the_result():
    writer = Recorder()
    result = run(TensorBoardExport(writer))
    written = writer.of("add_scalar")
    assert {s: v for name, v, s in written if name == "reports"} == reports_of(result)
    ((tag, text, step),) = writer.of("add_text")
    assert tag == "result" and repr(result) in text and step == len(result.steps) - 1
    assert writer.calls[-1] == ("flush",)


def reports_of(result):
    return {step.number: step.reports for step in result.steps[1:]}


# ----------------------------------------------------------------------------- the board


def exposed(finished, ledger):
    """Return the names and labels of all metrics of a server and of a node."""
    measured = (*finished.gauges(), *Accounts.of(ledger, 2.0).gauges())
    planned = "ldp_flower_server_steps_planned"  # of protocols that know it
    return {gauge.name for gauge in measured} | {planned}


def test_the_board_asks_for_metrics_that_are_exported(finished, ledger):
    board = json.loads(BOARD.read_text("utf-8"))
    targets = [target for panel in board["panels"] for target in panel.get("targets", ())]
    asked = [set(re.findall(r"ldp_flower_\w+", target["expr"])) for target in targets]
    assert len(targets) > 15 and all(asked)
    assert set().union(*asked) <= exposed(finished, ledger)
    for target in targets:
        server = "ldp_flower_server_" in target["expr"]
        assert server == ('strategy=~"$strategy"' in target["expr"]), target
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_page_lists_all_metrics_and_no_other(finished, ledger):
    listed = {
        name
        for row in re.findall(r"^\| (`ldp_flower_.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(ldp_flower_\w+)", row)
    }
    assert listed == exposed(finished, ledger)
