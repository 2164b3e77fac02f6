"""The experiments of Wang & Xu: their data, the worth of the printed noise, the sweep."""

import csv
import math
from urllib.error import URLError

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def few_rows_and_no_download(repository_on_the_path, monkeypatch):
    def unreachable(**_):
        raise URLError("no network in tests")

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", unreachable)
    from simulations.papers.wang_xu_2019 import data

    monkeypatch.setattr(data, "COVERTYPE_ROWS", 24_000)


def test_the_printed_noise_is_worth_what_the_page_says():
    from simulations.papers.wang_xu_2019 import printed

    # sigma_1 at epsilon 1: 0.05 sqrt(32 ln 1250).
    assert printed.label_noise(1.0) == pytest.approx(0.05 * math.sqrt(32 * 7.13090), rel=1e-4)
    found = {s: [printed.label_epsilon(e, s) for e in (0.5, 1.0, 2.0)] for s in (5, 10)}
    assert found[5] == pytest.approx([15.4, 42.8, 132.0], abs=0.1)
    assert found[10] == pytest.approx([42.2, 129.8, 439.3], abs=0.1)
    assert [printed.silo_epsilon(e) for e in (0.5, 1.0)] == pytest.approx([0.976, 2.245], abs=0.01)


def test_the_printed_sign_climbs_and_the_other_one_descends():
    from simulations.papers.wang_xu_2019 import printed
    from simulations.papers.wang_xu_2019.data import labelled

    x, y, theta = labelled(4000, 20, 3, seed=0)
    printed_error, meant_error = (
        np.linalg.norm(printed.label_ldp_iht(x, y, 20, np.random.default_rng(0), sign) - theta)
        for sign in (-1.0, 1.0)
    )
    start = np.linalg.norm(np.random.default_rng(0).standard_normal(20) - theta)
    assert meant_error < 0.5 * start < start < printed_error


@pytest.mark.slow
def test_what_is_called_printed_never_has_the_nominal_epsilon():
    from simulations.papers.wang_xu_2019.experiments import BASES, METHODS, Task, run

    for experiment, base in BASES.items():
        small = type(base)(experiment, 400, min(base.dim, 40), 3, 1.0)
        for method in METHODS[experiment]:
            row = run(Task(small, method, 0))
            if method == "no noise":
                assert row["true_epsilon"] is None
            elif "printed" in method:
                assert row["true_epsilon"] > 2 and row["delta"] == 1e-3
            else:
                assert row["true_epsilon"] == 1.0
            assert math.isfinite(row["error"])


def test_the_stand_in_is_as_its_docstring_says():
    from ldp_flower.questions.sparse import iht, objective
    from simulations.papers.wang_xu_2019.data import covertype, stand_in

    x, y = stand_in(20_000)
    assert x.shape == (20_000, 54) and set(y) == {0.0, 1.0}
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1)
    loss = {"link": "logistic", "ridge": 1e-3}
    best = objective(iht(x, y, 10, **loss), x, y, **loss)
    assert 0.4 < best < 0.6
    assert covertype(None)[2] == "stand-in"


def test_covertype_is_read_from_a_file(tmp_path):
    """Ten numbers, four areas, forty soils, in libsvm's format; lodgepole pine is class 2."""
    from simulations.papers.wang_xu_2019 import experiments
    from simulations.papers.wang_xu_2019.data import covertype

    rng = np.random.default_rng(0)
    classes = rng.integers(1, 8, 500)
    with (path := tmp_path / "covtype").open("w") as file:
        for label in classes:
            numbers = " ".join(f"{c}:{rng.normal(label, 3):.4f}" for c in range(1, 11))
            file.write(f"{label} {numbers} {rng.integers(11, 15)}:1 {rng.integers(15, 55)}:1\n")
    x, y, name = covertype(path)
    assert name == "Covertype" and x.shape == (500, 54)
    np.testing.assert_array_equal(y, classes == 2)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1)
    setting = experiments.Setting("silos", 300, 54, 3, 1.0)
    row = experiments.run(experiments.Task(setting, "DpIht, one silo", 0), path)
    assert row["data"] == "Covertype" and row["true_epsilon"] == 1.0


@pytest.mark.slow
def test_the_librarys_rounds_and_the_papers_one_are_drawn_beside_the_print():
    """At the base setting the rounds are better than noise that is truly worth epsilon 439."""
    from simulations.papers.wang_xu_2019.experiments import BASES, CURVES, Task, run

    methods = [name for name in CURVES["labels"] if name.startswith("LabelLdpIht")]
    assert [CURVES["labels"][name] for name in methods] == ["rounds", "one round"]
    rows = [run(Task(BASES["labels"], name, 0)) for name in CURVES["labels"]]
    rounds, one_round, printed = (row["error"] for row in rows)
    assert rounds < printed < one_round / 10
    assert rows[0]["true_epsilon"] == rows[1]["true_epsilon"] == 2 < 439 < rows[2]["true_epsilon"]


@pytest.mark.long
def test_the_sweep_writes_a_table_and_a_figure_and_can_be_continued(tmp_path, capsys):
    from simulations.papers.wang_xu_2019.__main__ import main

    arguments = ["--quick", "--seeds", "1", "--processes", "1", "--output", str(tmp_path)]
    main(arguments)
    assert "true eps" in capsys.readouterr().out
    table = (tmp_path / "table.md").read_text()
    assert "| printed noise, solved well | 2 | 439.3, delta 0.001 |" in table
    assert (tmp_path / "wang-xu.png").stat().st_size > 10_000
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    main(arguments)
    assert list(csv.DictReader((tmp_path / "runs.csv").open())) == rows
