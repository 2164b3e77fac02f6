"""Real tables with users: what is declared, how they are split, the table, the quick sweep."""

import csv

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def test_only_bounds_and_categories_are_declared():
    from simulations.studies.grouped_data.data import READERS
    from simulations.studies.grouped_data.schemas import DECLARED

    assert list(DECLARED) == list(READERS)
    for declared in DECLARED.values():
        plain = declared.schema.to_dict()
        for kind in (*plain["columns"].values(), plain["bounds"]):
            assert set(kind) in ({"low", "high"}, {"values"})


def test_a_split_is_by_user_and_reproducible():
    from simulations.studies.grouped_data.data import split

    divided = split("synthetic", None, 1)
    training, held_out = divided.training, divided.held_out
    assert not set(training.user) & set(held_out.user)
    assert len(set(held_out.user)) == 300 and len(divided.users) == 1200
    assert np.abs(training.features).max() <= 2 and np.abs(training.targets).max() <= 2
    split.cache_clear()
    assert (split("synthetic", None, 1).held_out.user == held_out.user).all()
    assert set(split("synthetic", None, 2).held_out.user) != set(held_out.user)


def test_files_have_to_be_given():
    from simulations.studies.grouped_data.data import split

    with pytest.raises(FileNotFoundError, match="--data"):
        split("nlswork", None, 0)


def test_the_lasso_is_scikit_learns_on_standardised_columns():
    from simulations.studies.grouped_data.data import split
    from simulations.studies.grouped_data.methods import lasso, penalty

    divided = split("synthetic", None, 3)
    model = make_pipeline(StandardScaler(), Lasso(alpha=penalty("synthetic", None)))
    model.fit(divided.training.features[:, 1:].astype(float), divided.training.targets)
    predicted = model.predict(divided.held_out.features[:, 1:].astype(float))
    error = divided.held_out.raw - divided.declared.schema.in_units(predicted)
    assert lasso("synthetic", None, 3) == pytest.approx(np.mean(error**2), rel=1e-4)


def test_the_best_method_is_marked_and_refusals_are_counted():
    from simulations.studies.grouped_data.report import cells

    rng = np.random.default_rng(0)
    spread = {"LdpIht": (1.2, ""), "two-round": (1.5, "refused"), "local Lasso": (1.0, "")}
    rows = [
        ("flights", 1.0, name, seed, size + 0.1 * rng.standard_normal(), 1.0, 0.5, outcome)
        for seed in range(12)
        for name, (size, outcome) in spread.items()
    ]
    columns = ["data", "epsilon", "method", "seed", "mse", "lasso_mse", "r2", "outcome"]
    runs = pd.DataFrame(rows, columns=columns)
    found = cells(runs)["flights", 1.0]
    assert found["LdpIht"].best and found["LdpIht"].significant  # a local Lasso does not compete
    assert str(found["two-round"]).endswith("(12r)") and not found["two-round"].best
    tied = runs.assign(mse=1.0)
    assert not any(cell.significant for cell in cells(tied)["flights", 1.0].values())


def test_the_quick_sweep_goes_on_where_it_was_and_writes_table_and_figure(tmp_path, capsys):
    from simulations.studies.grouped_data.__main__ import main

    for methods in (["two-round"], ["two-round", "LdpIht", "local Lasso"]):
        arguments = ["--quick", "--processes", "1", "--output", str(tmp_path)]
        main([*arguments, "--epsilons", "1", "4", "--methods", *methods])
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert len(rows) == 3 * 2 * 2
    assert {row["outcome"] for row in rows if row["method"] == "two-round"} >= {"refused"}
    for row in rows:
        if row["outcome"] == "refused":
            assert abs(float(row["r2"])) < 0.01
    ours = [
        float(row["r2"]) for row in rows if row["method"] == "LdpIht" and row["epsilon"] == "4.0"
    ]
    assert min(ours) > 0.3  # of .74 without privacy
    assert "| synthetic |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "grouped-data.png").stat().st_size > 10_000
    assert "local Lasso" in capsys.readouterr().out
