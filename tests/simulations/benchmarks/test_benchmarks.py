"""The benchmarks' smallest run, without the engine and other libraries."""

import json

import pandas as pd
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.long
def test_the_quick_run_measures_stores_and_draws(tmp_path, capsys):
    from simulations.benchmarks import __main__ as benchmarks

    benchmarks.main(["protocols", "scaling", "--quick", "--output", str(tmp_path)])
    shown = capsys.readouterr().out
    stored = json.loads((tmp_path / "benchmarks.json").read_text())
    quick = benchmarks.protocols(quick=True) + benchmarks.scaling(quick=True)
    measured = [(row["place"], row["name"], row["users"]) for row in stored["runs"]]
    assert measured == [(cell.place, cell.name, cell.users) for cell in quick]
    for row in stored["runs"]:
        assert 50 < row["peak_mb"] < 2000
        assert row["times_reference"] == row["cpu_seconds"] / row["reference_cpu_seconds"]
    assert (tmp_path / "benchmarks.png").stat().st_size > 10_000
    assert "HeavyHitters" in shown and "SparseRegression" in shown


def test_a_slope_is_fitted_where_one_size_alone_changes():
    from simulations.benchmarks.report import slopes

    runs = pd.DataFrame(
        {
            "place": "generated",
            "name": "a",
            "users": [10, 100, 1000, 10_000, 10],
            "dim": 4,
            "rows": [1, 1, 1, 1, 2],
            "cpu_seconds": [1.0, 10.0, 100.0, 1000.0, 7.0],
        }
    )
    (curve,) = slopes(runs)
    assert curve["axis"] == "users" and curve["slope"] == pytest.approx(1.0)
    assert slopes(runs.iloc[:0]) == []


def test_without_a_run_there_are_still_the_other_libraries_to_show(tmp_path, capsys):
    from simulations.benchmarks.figure import draw
    from simulations.benchmarks.measure import COLUMNS
    from simulations.benchmarks.report import show, slopes
    from simulations.harness.figures import save

    runs = pd.DataFrame(columns=COLUMNS)
    known = {"oracle": "k-RR", "users": 9, "microseconds": 2.0, "empirical": 1.0, "exact": 1.0}
    theirs = {"library": "pure-ldp", "times_ours": 33.0, "variance_over_ours": 1.0, **known}
    rows = [{"library": "ldp-flower", **known}, theirs]
    oracles = {"users": 9, "domain": 4, "epsilon": 2.0, "rows": rows}
    show(runs, slopes(runs), oracles)
    save(draw(runs, slopes(runs), oracles), tmp_path / "figure.png")
    assert "33.0" in capsys.readouterr().out
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_every_protocol_has_a_workload():
    from ldp_flower.strategies.catalogue import PROTOCOLS
    from simulations.benchmarks.workloads import WORKLOADS

    measured = {name.partition(",")[0] for name in WORKLOADS}
    # Series asks as the protocol in it does; of RecordDpSgd opacus.py measures a step.
    assert measured == set(PROTOCOLS) - {"Series", "RecordDpSgd"}


@pytest.mark.long
def test_every_workload_runs_in_process():
    import numpy as np
    from flwr.clientapp import ClientApp

    from ldp_flower import InProcessGrid
    from simulations.benchmarks.workloads import WORKLOADS, Training

    for name, workload in WORKLOADS.items():
        users = min(workload.users, 600 if isinstance(workload, Training) else 4_000)
        dim = min(workload.dim, 16) if workload.features(3) == 3 else workload.dim
        rows = min(workload.rows, 20)
        nodes = users if isinstance(workload, Training) else 1
        everyone, app = workload.population(users, dim, rows), ClientApp()
        workload.serve(app, everyone, nodes)
        result = workload.start(InProcessGrid(app, nodes), dim, rows, nodes)
        assert result.num_reports > 0, name
        assert result.num_users == users, name
        taken = everyone.take(np.array([3, 1]))
        again = workload.population(users, dim, rows).take(np.array([1]))
        np.testing.assert_array_equal(taken[1:].features, again.features)


def test_the_engines_quick_run_has_users_enough():
    from simulations.benchmarks import __main__ as benchmarks
    from simulations.benchmarks.measure import in_process

    (cell,) = benchmarks.engine(quick=True)
    assert in_process(cell)["seconds"] > 0
