"""The telemetry app: the whole of it in process on a few aircraft, and a deployment's node."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import InProcessGrid

APP = Path(__file__).parents[3] / "simulations" / "telemetry"


@pytest.fixture(autouse=True)
def telemetry_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(APP))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "telemetry"]:
        del sys.modules[name]


@pytest.mark.slow
def test_the_app_in_process(tmp_path, capsys, monkeypatch):
    from telemetry import data, questions
    from telemetry.client_app import app as client_app
    from telemetry.server_app import app as server_app

    monkeypatch.setattr(questions, "CARRIERS", ("DL", "UA"))
    config = {
        "epsilon": 8.0,
        "num-users": 1200,
        "num-nodes": 2,
        "seed": 1,
        "evaluate": True,
        "output-dir": str(tmp_path / "out"),
    }
    grid = InProcessGrid(client_app, 2, config)
    server_app(
        grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    )
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert {name: told["privacy"]["epsilon"] for name, told in written.items()} == dict.fromkeys(
        ["describe", "delays", "destinations"], 8.0
    )
    rows = data.chosen(1, 1200)
    weight = 1 / rows.groupby("tailnum")["tailnum"].transform("size")
    dest = rows["dest"].where(rows["dest"].isin(data.DESTINATIONS), "other")
    truth = (weight.groupby(dest).sum() / weight.sum()).reindex(
        written["destinations"]["categories"], fill_value=0.0
    )
    told = written["destinations"]
    scores = (np.array(told["shares"]) - truth) / told["std_error"]
    assert np.abs(scores).max() < 5
    below = [
        weight[rows["arr_delay"] <= value].sum() / 1200 for value in written["delays"]["values"]
    ]
    assert np.abs(np.array(below) - [0.1, 0.5, 0.9]).max() < 0.1
    assert (tmp_path / "out" / "telemetry.png").stat().st_size > 20_000
    assert "<svg" in (tmp_path / "out" / "delays.html").read_text()
    assert "75%" in capsys.readouterr().out


def test_the_series_in_process(tmp_path, capsys):
    """Three weeks, each a run of its own on nodes that remember nothing."""
    from telemetry import data
    from telemetry.client_app import app as client_app
    from telemetry.questions import weekly_delays
    from telemetry.server_app import app as server_app

    config = {
        **{"epsilon": 4.0, "num-users": 2600, "num-nodes": 2, "seed": 1, "evaluate": True},
        "output-dir": str(tmp_path),
    }
    for week in (1, 2, 3, 3):  # the third is asked twice, and is one
        own = {**config, "week": week}
        context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=own)
        server_app(InProcessGrid(client_app, 2, own), context)
    result = weekly_delays(4.0, tmp_path / "weekly.db").result()
    written = json.loads((tmp_path / "result.json").read_text())  # `ldp-flower run` looks for it
    assert written == {"weekly": json.loads(json.dumps(result.to_dict()))}
    assert result.users.tolist() == [2600] * 3 and result.reports.sum() == result.num_reports
    # A panel is 1 / 26 of the aircraft: within 4 standard deviations.
    assert (np.abs(result.asked - 100) < 40).all()
    rows = data.chosen(1, 2600)
    weeks = [data.in_week(rows, week) for week in (1, 2, 3)]
    truth = [each.groupby("tailnum")["arr_delay"].mean().clip(-60, 300).mean() for each in weeks]
    assert (np.abs(result.level[:, 0] - truth) < 4 * result.std_error[:, 0]).all()
    assert "collection 3 of 26, over 2,600 users" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "weekly.html").read_text()


def test_a_deployments_node_reads_its_operators_file(tmp_path):
    from telemetry import data
    from telemetry.client_app import load_users

    rows = data.chosen(0, 20)
    rows.to_csv(tmp_path / "flights.csv", index=False)
    context = Context(
        run_id=1,
        node_id=1,
        node_config={"data-path": str(tmp_path / "flights.csv")},
        state=RecordDict(),
        run_config={},
    )
    users, expected = load_users(context), data.users_of(rows)
    np.testing.assert_array_equal(users.ids, expected.ids)
    np.testing.assert_allclose(users.features, expected.features)
    # What one row holds changes no other one.
    lines = (tmp_path / "flights.csv").read_text().splitlines()
    names, own = lines[0].split(","), lines[1].split(",")
    rest = np.flatnonzero(users.ids != own[names.index("tailnum")])
    sound = users.take(rest).features.tobytes()
    (tmp_path / "all").write_text("\n".join(users.ids))
    for name, cell in [("distance", "about 9"), ("carrier", '"'), ("dest", "a,b")]:
        odd = [cell if name == each else entry for each, entry in zip(names, own, strict=True)]
        (tmp_path / "odd.csv").write_text("\n".join([lines[0], ",".join(odd), *lines[2:]]))
        context.node_config = {
            "data-path": str(tmp_path / "odd.csv"),
            "aircraft-path": str(tmp_path / "all"),
        }
        assert load_users(context).take(rest).features.tobytes() == sound
    # An aircraft that has not flown yet is a user like any other, if it is named.
    pd.DataFrame(rows).head(0).to_csv(tmp_path / "none.csv", index=False)
    (tmp_path / "aircraft").write_text("N1\n")
    context.node_config = {
        "data-path": str(tmp_path / "none.csv"),
        "aircraft-path": str(tmp_path / "aircraft"),
    }
    assert load_users(context).num_rows.tolist() == [0]
