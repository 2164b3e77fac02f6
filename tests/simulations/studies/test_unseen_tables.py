"""The study of tables that nothing was chosen on: its tables, its judgement, and a run of it."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    return pd.DataFrame(
        {
            "rownames": np.arange(2000),
            "x": x,
            "number": 3 * x + 0.1 * rng.normal(size=2000),
            "kind": np.where(x > 0, "high", "low"),
            "word": rng.choice([*"abcdefghij"], 2000),
        }
    )


def test_a_frame_becomes_a_table_of_people(frame):
    from simulations.studies.unseen_tables.tables import of_frame

    people = of_frame(frame, "some.table", classes=True)
    assert people.schema.target == "kind" and people.schema.bounds == Categories(["high", "low"])
    assert set(people.schema.columns) == {"x", "number", "word"}
    numbers = of_frame(frame, "some.table", classes=False)
    assert numbers.schema.target in ("x", "number")
    assert isinstance(numbers.schema.bounds, Numeric)
    users = people.drawn(500, np.random.default_rng(0))
    rows = np.diff(people.starts)[:-1]
    assert len(users) == 500 and (np.diff(users.offsets)[:-1] <= rows.max()).all()
    assert of_frame(frame[["x", "kind"]], "too.narrow", classes=True) is None


def test_a_model_is_judged_on_the_whole_table(frame):
    from ldp_flower.strategies import PrivateRegression
    from simulations.studies.unseen_tables.__main__ import Cell, auc, fewest, measure, table
    from simulations.studies.unseen_tables.tables import of_frame

    targets = np.array([0, 0, 1, 1])
    assert auc(np.array([[0.1, 0.2, 0.3, 0.4]]), targets) == 1.0
    assert auc(np.array([[0.4, 0.3, 0.2, 0.1], [1.0, 1.0, 1.0, 1.0]]), targets) == 0.75
    rows = []
    for method in ("regression", "classification"):
        people = of_frame(frame, "some.table", method == "classification")
        cell = Cell("some.table", 8.0, 3.0)
        found = measure(method, people, cell, 0)
        strategy = PrivateRegression(of_frame(frame, "some.table", False).schema, epsilon=8.0)
        assert found["worth"] > 0.5 and not found["constant"]
        rows.append({"method": method, "epsilon": 8.0, "times": 3.0, **found})
    least = fewest(strategy, 1)
    assert strategy.refusal(least) is None is not strategy.refusal(least - 1)
    rows.append({**rows[0], "worth": -0.1, "notes": 0})  # one that is worse, and silent
    lines = dict(
        zip(("classification", "regression"), table(pd.DataFrame(rows)).lines, strict=True)
    )
    assert lines["classification"][3].startswith("0.0") and lines["classification"][5] == "0"
    assert lines["regression"][3].startswith("50.0") and lines["regression"][5] == "1"


def test_a_run_is_kept_and_reported(frame, tmp_path, monkeypatch, capsys):
    from simulations.studies.unseen_tables import __main__ as command
    from simulations.studies.unseen_tables.tables import chosen_on, of_frame

    assert len(set(chosen_on())) == len(chosen_on()) > 200
    monkeypatch.setattr(command, "names", lambda: ["some.table"])
    monkeypatch.setattr(command, "read", lambda name, classes: of_frame(frame, name, classes))
    monkeypatch.setattr(command, "_EPSILONS", (8.0,))
    folder = ["--processes", "1", "--output", str(tmp_path)]
    command.main(["--methods", "classification", *folder])
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert list(runs["times"]) == [1.25, 3.0] and (runs["worth"] > 0.6).all()
    command.main(["--only-report", *folder])
    assert "classification" in capsys.readouterr().out
