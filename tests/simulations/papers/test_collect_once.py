"""The sweep of the protocols that collect once, and the studies of real data."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.long
def test_every_problem_is_easy_at_a_large_epsilon_and_errors_are_relative_to_zero():
    """Any three of eight coefficients are the hardest: one seed in six exceeds .12 by chance."""
    from simulations.papers.collect_once.problems import PROBLEMS

    for name, problem in PROBLEMS.items():
        if name in ("mean", "regression-64"):  # the same classes, larger
            continue
        users = 100_000 if name == "regression-anywhere" else 20_000
        easy = np.median(
            [problem.run(users, seed, epsilon=16.0, method="auto") for seed in range(3)]
        )
        hard = problem.run(100, 0, epsilon=0.1, method="auto")
        assert easy < 0.12 and easy < hard, name


def test_excess_ratios_are_zero_at_the_best_and_one_at_zero():
    from simulations.papers.collect_once.problems import logistic_ratio, quadratic_ratio

    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 3)) / 3
    best = np.array([0.5, -0.2, 0.0])
    assert quadratic_ratio(x, x @ best, best) == pytest.approx(0.0, abs=1e-9)
    assert quadratic_ratio(x, x @ best, 0 * best) == pytest.approx(1.0)
    y = np.sign(x @ best + 0.3 * rng.standard_normal(500))
    assert logistic_ratio(x, y, np.zeros(3)) == pytest.approx(1.0)
    assert logistic_ratio(x, y, np.array([9.0, 9.0, 9.0])) > 1


def test_the_sweep_goes_on_where_it_was_interrupted(tmp_path, capsys, monkeypatch):
    from simulations.papers.collect_once import __main__ as command

    common = ["--max-users", "3000", "--output", str(tmp_path), "--epsilons", "2"]
    common += ["--processes", "1"]
    command.main(["--problems", "kernel", "--seeds", "1", *common])
    first = (tmp_path / "runs.csv").read_text()
    ran = []
    monkeypatch.setattr(command, "sweep", replace(command.sweep, run=ran.append))
    command.main(["--problems", "kernel", "--seeds", "1", *common])
    assert not ran and (tmp_path / "runs.csv").read_text() == first
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert list(runs["method"]) == ["auto", "paper"] and runs["error"].iloc[0] < 0.3
    assert (tmp_path / "collect-once.png").stat().st_size > 10_000
    assert "| KernelRidgeRegression, 1-d, 16 features | 3,000 | auto |" in (
        tmp_path / "table.md"
    ).read_text("utf-8")
    assert "answering zero" in capsys.readouterr().out


@pytest.mark.long
def test_the_studies_say_what_a_constant_and_a_fit_without_privacy_give():
    from simulations.papers.collect_once import questions

    flights = questions.regression(aircraft=True)
    assert flights.users == "3,230 aircraft" and 0.75 < flights.best < 0.85
    assert 0.3 < flights.run(8.0, 0, "auto") < flights.best
    hours = questions.kernel(aircraft=True)
    assert hours.run(16.0, 0, "auto") > 0.5
    cancer = questions.logistic(None)
    assert cancer.baseline < 0.8 < cancer.best
    assert cancer.run(16.0, 0, "auto") > cancer.baseline


def test_the_census_is_coded_from_its_indicators(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    from simulations.papers.collect_once import questions

    rows = np.zeros((2, 123))
    rows[0, [0, 38, 79, 39, 72, 73, 76]] = 1  # youngest, most educated, hours in the 3rd fifth
    rows[1, [4, 34, 77, 45, 71, 74, 75]] = 1
    path = tmp_path / "a9a"
    dump_svmlight_file(rows, [1, -1], str(path), zero_based=False)
    x, y = questions.census(path)
    np.testing.assert_array_equal(y, [1, -1])
    root = np.sqrt(2)
    np.testing.assert_allclose(x[0], [1, -root, root, 0, 1, 1, -1, 1])
    np.testing.assert_allclose(x[1], [1, root, -root, -root, -1, -1, 1, -1])


@pytest.mark.long
def test_real_data_are_kept_in_a_file_from_which_table_and_figure_come(
    tmp_path, capsys, monkeypatch
):
    from simulations.papers.collect_once import questions, real_data

    asked = questions.Question("R2", "9 people", 0.0, 0.9, lambda *known: sum(known[:2]) / 8)
    monkeypatch.setattr(real_data, "question", lambda title, adult: asked)
    arguments = ["--seeds", "3", "--output", str(tmp_path)]
    real_data.main(arguments)
    runs = (tmp_path / "runs.csv").read_text()
    assert len(runs.splitlines()) == 1 + 5 * 2 * 4 * 3
    line = (
        "| Breast cancer | 9 people | R2 | 0.000 | auto | 0.250 | 0.375 | 0.625 | 1.125 | 0.900 |"
    )
    assert line in (tmp_path / "table.md").read_text()
    assert (tmp_path / "collect-once-real.png").stat().st_size > 10_000
    monkeypatch.setattr(real_data, "question", None)
    real_data.main([*arguments, "--only-report"])
    assert (tmp_path / "runs.csv").read_text() == runs
    assert "a user an aircraft" in capsys.readouterr().out
    assert questions.titles(None)[-1:] == ["Breast cancer"]
    assert questions.titles(tmp_path)[-1:] == ["High income (Adult)"]
