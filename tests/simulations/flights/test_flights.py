"""The flights app: its public design, and the whole app in process on a few aircraft."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import InProcessGrid

APP = Path(__file__).parents[3] / "simulations" / "flights"


@pytest.fixture(autouse=True)
def flights_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(APP))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "flights"]:
        del sys.modules[name]


def test_the_design_is_centred_bounded_and_complete():
    from flights import data, design

    rows = data.flights()
    assert rows["tailnum"].nunique() == 4037 and len(rows) == 327_346
    x = design.features(rows.iloc[::50])
    assert x.shape[1] == len(design.COLUMNS) == len(set(design.COLUMNS)) == 156
    assert np.isfinite(x).all() and np.abs(x).max() <= 9
    bounded = design.features(rows.iloc[::50], design.BOUNDS)
    assert design.BOUNDS.names == design.COLUMNS and np.abs(bounded).max() <= 2
    assert not design.BOUNDS.centred[1:13].any() and not design.BOUNDS.scaled[1:13].any()
    for name, values in design.CATEGORIES.items():
        block = [i for i, column in enumerate(design.COLUMNS) if column.startswith(f"{name}=")]
        # every flight is in one category: indicators minus 1/k add up to zero
        np.testing.assert_allclose(x[:, block].sum(axis=1), 0, atol=1e-5)
        assert len(block) == len(values)


def test_missing_values_and_unknown_categories_count_as_typical():
    from flights import data, design

    row = data.flights().iloc[[0]].copy()
    row[["temp", "wind_gust"]] = np.nan
    row["dest"] = "XXX"
    x = dict(zip(design.COLUMNS, design.features(row)[0], strict=True))
    assert x["temp"] == x["wind_gust"] == 0.0
    assert all(x[name] == 0.0 for name in design.COLUMNS if name.startswith("dest="))
    assert x["origin=EWR"] == pytest.approx(2 / 3)


def test_predictions_return_to_minutes():
    from flights import design

    frame = pd.DataFrame({"arr_delay": [-20.0, 0.0, 120.0]})
    np.testing.assert_allclose(design.minutes(design.targets(frame)), frame["arr_delay"])


def test_no_aircraft_is_on_both_sides_of_the_split():
    from flights import data

    train, held_out = data.split(3, 500)
    aircraft = set(train["tailnum"]), set(held_out["tailnum"])
    assert [len(each) for each in aircraft] == [400, 100]
    assert not aircraft[0] & aircraft[1]
    everyone = data.training_users(3, 500)
    assert set(everyone.ids) == aircraft[0] and len(everyone.targets) == len(train)


@pytest.mark.long
def test_the_app_in_process(tmp_path, capsys):
    from flights.client_app import app as client_app
    from flights.server_app import app as server_app

    config = {
        "epsilon": 4.0,
        "protocol": "PrivateRegression",
        "num-users": 1500,
        "num-nodes": 3,
        "seed": 1,
        "sweep-protocols": "PrivateRegression LDP-IHT",
        "sweep-epsilons": "4",
        "sweep-seeds": 2,
        "evaluate": True,
        "output-dir": str(tmp_path / "out"),
    }
    grid = InProcessGrid(client_app, 3, config)
    server_app(
        grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    )
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    rows = {row["method"]: row for row in written["rows"]}
    assert written["privacy"] == {
        "epsilon": 4.0,
        "delta": 0.0,
        "unit": "user",
        "exact": True,
        "seeded": True,
        "noise": "user",
        "alone": None,
        "part": "",
    }
    assert rows["predict the mean"]["r2"] == pytest.approx(0, abs=0.01)
    ours, best = rows["PrivateRegression"], rows["least squares"]["r2"]
    assert 0.6 < ours["r2"] < best < 0.9 and ours["bytes_per_user"] <= 2
    # The seed decides everything: the sweep's run of the same seed is the same run.
    assert written["sweep"]["PrivateRegression"]["4"][1] == pytest.approx(ours["r2"], abs=1e-9)
    assert all(0.5 < score < best for score in written["sweep"]["LDP-IHT"]["4"])
    assert (tmp_path / "out" / "flights.png").stat().st_size > 20_000
    assert "held-out aircraft" in capsys.readouterr().out


def test_a_deployments_node_reads_its_operators_file(tmp_path):
    from flights import data
    from flights.client_app import load_users

    train, _ = data.split(0, 20)
    train.to_csv(tmp_path / "flights.csv", index=False)
    context = Context(
        run_id=1,
        node_id=1,
        node_config={"data-path": str(tmp_path / "flights.csv")},
        state=RecordDict(),
        run_config={"protocol": "PrivateRegression"},
    )
    users, expected = load_users(context), data.training_users(0, 20)
    np.testing.assert_array_equal(users.ids, expected.ids)
    np.testing.assert_allclose(users.features, expected.features, atol=1e-6)
    # What one row holds changes no other one.
    lines = (tmp_path / "flights.csv").read_text().splitlines()
    names, own = lines[0].split(","), lines[1].split(",")
    tail = names.index("tailnum")
    rest = np.flatnonzero(users.ids != own[tail])
    sound = users.take(rest).features.tobytes()
    for name, cell in [("month", "01"), ("month", "13"), ("dest", '"'), ("sched_dep_time", "?")]:
        odd = [cell if name == each else entry for each, entry in zip(names, own, strict=True)]
        (tmp_path / "odd.csv").write_text("\n".join([lines[0], ",".join(odd), *lines[2:]]))
        (tmp_path / "all").write_text("\n".join(users.ids))
        context.node_config = {
            "data-path": str(tmp_path / "odd.csv"),
            "aircraft-path": str(tmp_path / "all"),
        }
        assert load_users(context).take(rest).features.tobytes() == sound
    # One aircraft that has not flown yet is a user like any other, if it is named.
    train.head(0).to_csv(tmp_path / "none.csv", index=False)
    (tmp_path / "aircraft").write_text("N1\n")
    context.node_config = {
        "data-path": str(tmp_path / "none.csv"),
        "aircraft-path": str(tmp_path / "aircraft"),
    }
    alone = load_users(context)
    assert alone.ids.tolist() == ["N1"] and alone.num_rows.tolist() == [0]
    assert alone.num_features == expected.num_features
