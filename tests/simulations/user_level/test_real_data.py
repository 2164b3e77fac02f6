"""The six data sets of Ma, Jia & Yang from files: a stand-in in their format, split and scored."""

import csv

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.fixture
def folder(tmp_path):
    """Wine as 200 users of ten records, whose first column decides the target."""
    rng = np.random.default_rng(0)
    x = rng.normal(5, 2, (2000, 6))
    y = 3 * x[:, 0] + rng.normal(0, 1, 2000)
    users = rng.permutation(np.repeat(np.arange(200), 10))
    np.savetxt(tmp_path / "wine.csv", np.column_stack([y, x, users]), delimiter=",")
    return tmp_path


def test_a_fifth_of_the_users_is_held_out_in_the_scale_of_the_others(folder):
    from simulations.harness.paper_data import USER_DATA
    from simulations.user_level.real_data import split

    users = USER_DATA["Wine"].load(folder)
    train, test = split(users, seed=0)
    assert (len(train), len(test)) == (160, 40) and train.num_rows.tolist() == [10] * 160
    assert np.abs(train.features).max() <= 3 and np.abs(test.targets).max() <= 3
    np.testing.assert_allclose(train.features.mean(axis=0), 0, atol=0.02)  # but for the clip
    np.testing.assert_allclose(train.features.std(axis=0), 1, atol=0.03)
    assert abs(test.features.mean()) < 0.15 and abs(test.features.mean()) > 1e-6


def test_errors_are_relative_to_a_lasso_on_all_records(folder, tmp_path):
    from simulations.user_level.real_data import main

    output = tmp_path / "out"
    arguments = f"--data {folder} --output {output} --sets Wine --seeds 1 --processes 1".split()
    methods = ["SparseRegression", "two-round", "each record (record-level)", "the mean"]
    main([*arguments, "--methods", *methods])
    rows = list(csv.DictReader((output / "runs.csv").open()))
    ratios = {(row["method"], row["epsilon"]): float(row["ratio"]) for row in rows}
    # The target has 37 times the variance of its noise, and the Lasso finds that.
    mean = ratios["the mean", "4.0"]
    assert 25 < mean < 45 and mean == ratios["the mean", "1.0"]
    assert ratios["SparseRegression", "4.0"] < mean / 2
    assert 0.9 < ratios["each record (record-level)", "4.0"] <= mean
    assert "| Wine | 160 | 4 |" in (output / "table.md").read_text()


def test_a_folder_without_the_file_is_named(folder):
    from simulations.harness.runs import Task
    from simulations.user_level.real_data import Setting, run

    with pytest.raises(ValueError, match=r"Expected Taxi in .*taxi\.csv: rows of a target"):
        run(folder, Task(Setting("Taxi", 1.0), "the mean", 0))
