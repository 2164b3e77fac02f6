"""The user-level experiment: its data, its baseline, its sweep and its app, in process."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import InProcessGrid

ROOT = Path(__file__).parents[3]
APP = ROOT / "simulations" / "user_level"


@pytest.fixture(autouse=True)
def app_and_repository_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(APP))
    yield
    for name in [
        name for name in sys.modules if name.split(".")[0] in ("user_level", "simulations")
    ]:
        del sys.modules[name]


def small(**changes):
    from user_level.population import Population, Setting

    options = {"num_users": 12, "samples_per_user": 5, "dim": 10} | changes
    return Population(Setting(**options), seed=3)


@pytest.mark.parametrize("design", ["independent", "ar"])
def test_data_do_not_depend_on_batches_or_nodes(design):
    users = small(design=design).users()
    everyone = users.take(np.arange(12))
    assert everyone.num_rows.tolist() == [5] * 12
    np.testing.assert_array_equal(
        everyone.features, small(design=design).users().take(np.arange(12)).features
    )
    for node in range(5):
        part = users.partition(node, 5)
        own = everyone.partition(node, 5)
        taken = part.take(np.arange(len(part)))
        np.testing.assert_array_equal(taken.features, own.features)
        np.testing.assert_array_equal(taken.targets, own.targets)
    backwards = users.take(np.arange(12)[::-1])
    np.testing.assert_array_equal(backwards.targets.reshape(12, 5)[::-1].ravel(), everyone.targets)


def test_all_views_show_the_same_records():
    population = small()
    everyone = population.users().take(np.arange(12))
    single = population.single_records(2.0)
    assert len(single) == 60
    rows = single.take(np.array([7, 31]))
    np.testing.assert_array_equal(rows.features * 2, everyone.features[[7, 31]])
    np.testing.assert_array_equal(rows.targets, everyone.targets[[7, 31]])
    batches = list(population.batches())
    np.testing.assert_array_equal(
        np.concatenate([x for x, _ in batches]).reshape(-1, 10), everyone.features
    )


def test_another_seed_gives_other_data_and_coefficients():
    from user_level.population import Population, Setting

    first, second = Population(Setting(), 0), Population(Setting(), 1)
    assert set(first.support) != set(second.support)
    assert np.abs(first.rows(np.arange(5))[1] - second.rows(np.arange(5))[1]).min() > 0


@pytest.mark.parametrize(("design", "correlation"), [("independent", 0.0), ("ar", 0.6)])
def test_the_designs_covariance(design, correlation):
    population = small(design=design, samples_per_user=10_000)
    x, y = population.rows(np.arange(120_000))
    lag = np.abs(np.arange(10)[:, None] - np.arange(10))
    expected = np.where(lag == 0, 1.0, correlation**lag)
    np.testing.assert_allclose(x.T @ x / len(x), expected, atol=0.02)
    noise = y - x @ population.coef
    assert noise.std() == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(x.T @ noise / len(x), 0, atol=0.015)


def test_the_coefficients():
    from user_level.population import NORM

    for sizes in ("equal", "unequal"):
        coef = small(sizes=sizes, signs="random", dim=50).coef
        assert np.linalg.norm(coef) == pytest.approx(NORM) and np.count_nonzero(coef) == 8
        assert (coef < 0).any()
    assert small(positions="first").support.tolist() == list(range(8))
    np.testing.assert_allclose(small().values, 0.2)
    values = small(sizes="unequal").values
    assert values[-1] / values[0] == pytest.approx(7)


# -------------------------------------------------------------------------- LDPPROX


def test_ldpprox_never_moves_further_than_it_states():
    from user_level.ldpprox import LdpProx

    prox, rng = LdpProx(6, 100, 2.0), np.random.default_rng(0)
    second, cross = [], []
    for _ in range(300):
        scale = 10 ** rng.uniform(-1, 4)
        x = scale * rng.standard_t(2, (2, rng.integers(1, 4), 6))
        y = scale * rng.standard_t(2, x.shape[:2])
        second.append(np.linalg.norm(prox.second_moment(x[0]) - prox.second_moment(x[1])))
        cross.append(np.linalg.norm(prox.cross_moment(x[0], y[0]) - prox.cross_moment(x[1], y[1])))
    assert max(second) <= prox.second_moment_sensitivity * (1 + 1e-12)
    assert max(cross) <= prox.cross_moment_sensitivity * (1 + 1e-12)
    # The worst pairs: orthogonal records, and opposite targets at a corner.
    far = 1e6 * np.eye(6)[:, None]
    apart = np.linalg.norm(prox.second_moment(far[0]) - prox.second_moment(far[1]))
    assert 0.99 <= apart / prox.second_moment_sensitivity <= 1 + 1e-12
    corner, target = np.full((1, 6), 1e6), np.array([1e6])
    apart = np.linalg.norm(prox.cross_moment(corner, target) - prox.cross_moment(corner, -target))
    assert 0.99 <= apart / prox.cross_moment_sensitivity <= 1 + 1e-12


def test_ldpproxs_noise_has_the_calibrated_size(monkeypatch):
    from user_level import ldpprox

    from ldp_flower.accounting import gaussian_epsilon
    from ldp_flower.randomizers.real_valued.gaussian import gaussian_mu

    prox = ldpprox.LdpProx(30, 100, 2.0)
    mu = gaussian_mu(2.0, prox.delta)
    assert gaussian_epsilon(mu, prox.delta) == pytest.approx(2.0, abs=1e-4)
    seen = {}

    def eigh(matrix):
        seen["second"] = matrix
        return np.ones(30), np.eye(30)

    monkeypatch.setattr(ldpprox.np.linalg, "eigh", eigh)
    users = [(np.zeros((1, 30)), np.zeros(1))] * 100
    prox.estimate(users, np.random.default_rng(0))
    # As a vector in which an entry above the diagonal counts sqrt(2) times, the report
    # has the same noise in every coordinate.
    above = seen["second"][np.triu_indices(30, 1)] * np.sqrt(2)
    deviation = prox.second_moment_sensitivity / mu / np.sqrt(50)
    assert above.std() == pytest.approx(deviation, rel=0.12)
    assert np.diag(seen["second"]).std() == pytest.approx(deviation, rel=0.4)
    np.testing.assert_array_equal(seen["second"], seen["second"].T)


def test_ldpprox_finds_the_coefficients_when_noise_is_small():
    from user_level.ldpprox import LdpProx

    rng = np.random.default_rng(0)
    x = rng.standard_normal((40_000, 1, 4))
    y = x @ np.array([0.5, 0, 0, -0.5])
    coef = LdpProx(4, 40_000, 200.0).estimate(zip(x, y, strict=True), rng)
    np.testing.assert_allclose(coef, [0.5, 0, 0, -0.5], atol=0.1)


# ---------------------------------------------------------------------------- sweep


def test_a_sweep_does_not_repeat_what_its_file_holds(tmp_path, monkeypatch):
    from simulations.harness.runs import Task
    from simulations.user_level import runs
    from simulations.user_level.user_level.population import Setting

    calls = []

    def method(population):
        calls.append((population.setting.epsilon, population.seed))
        if calls[-1] == (2.0, 1) and len(calls) == 4:
            raise KeyboardInterrupt
        return runs.methods.zero(population)

    monkeypatch.setitem(runs.METHODS, "zero", runs.methods.Method("asks nothing", method))
    tasks = [
        Task(Setting(epsilon=epsilon), "zero", seed) for seed in (0, 1) for epsilon in (0.5, 2)
    ]
    path = tmp_path / "runs.csv"
    with pytest.raises(KeyboardInterrupt):
        runs.sweep(tasks, path, processes=1)
    assert len(calls) == 4 and len(runs.sweep.missing(tasks, path)) == 1
    runs.sweep(tasks, path, processes=1)
    runs.sweep(tasks, path, processes=1)
    assert calls[4:] == [(2, 1)]
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 4 and list(rows[0]) == runs.sweep.columns
    assert {float(row["error"]) for row in rows} == {float(np.sqrt(0.32))}


@pytest.mark.long
def test_several_processes_write_the_same_rows(tmp_path):
    from simulations.harness.runs import Task
    from simulations.user_level import runs
    from simulations.user_level.user_level.population import Setting

    tasks = [Task(Setting(num_users=20, dim=16), "oracle", seed) for seed in range(3)]
    for processes in (1, 2):
        list(runs.sweep.run_all(tasks, tmp_path / f"{processes}.csv", processes))
    rows = [
        {(row["seed"], row["error"]) for row in csv.DictReader((tmp_path / f"{n}.csv").open())}
        for n in (1, 2)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 3


@pytest.mark.slow
def test_the_quick_sweep_writes_table_and_figures(tmp_path, capsys):
    from simulations.user_level.__main__ import main

    arguments = ["--quick", "--seeds", "1", "--processes", "1", "--output", str(tmp_path)]
    main([*arguments, "--methods", "zero", "oracle"])
    assert "n=400, m=100, d=256, eps=4" in capsys.readouterr().out
    assert "| oracle |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "user-level-error.png").stat().st_size > 10_000


def test_a_scale_that_cannot_be_bought_is_declared():
    from user_level.methods import METHODS

    method = METHODS["SparseRegression"]
    bought = method.estimate(small(num_users=100, samples_per_user=20, dim=8))
    declared = method.estimate(small(num_users=100, samples_per_user=20, dim=8, epsilon=1.0))
    assert not bought.scale_declared and declared.scale_declared


def test_every_method_declares_a_guarantee_that_is_known():
    from user_level.methods import METHODS, Method, zero
    from user_level.population import Setting

    spent = {name: method.epsilon(Setting(epsilon=3.0)) for name, method in METHODS.items()}
    assert {name for name, epsilon in spent.items() if epsilon is None} == {
        "local Lasso",
        "oracle",
        "zero",
    }
    assert METHODS["two-round"].guarantee == METHODS["multi-round"].guarantee == "user-level LDP"
    with pytest.raises(ValueError, match=r"Expected guarantee in .*, got 'LDP'"):
        Method("LDP", zero)


def test_records_one_by_one_protect_records_or_at_a_part_of_epsilon_users(monkeypatch):
    """What a record's report costs is what its mechanism is made for."""
    from simulations.user_level import runs

    spent = []

    def noted(method, records, rng):
        spent.append((method.epsilon, sum(len(y) for _, y in records)))
        return np.zeros(method.dim)

    monkeypatch.setattr(runs.ItemLevel, "estimate", noted)
    each, part = (runs.METHODS[name] for name in ("each record", "each record at epsilon / m"))
    for method in (each, part):
        method.estimate(small(epsilon=3.0))  # 12 users of 5 records
    assert spent == [(3.0, 60), (0.6, 60)]
    assert each.guarantee == "record-level LDP" and part.guarantee == "user-level LDP"


def test_the_grids_start_from_the_papers_setting():
    from simulations.user_level.grids import DEFAULT, GRIDS, QUICK, TABLE, settings_of

    assert all(
        DEFAULT in GRIDS[name].settings.values() for name in ("epsilon", "users", "records", "dim")
    )
    assert set(QUICK) <= set(TABLE)
    every = settings_of([*GRIDS, "table"])
    assert len(every) == len(set(every)) and set(settings_of(["quick"])) <= set(every)


# ------------------------------------------------------------------------------ app


@pytest.mark.parametrize("nodes", [2, 100])
def test_the_app_in_process(nodes, tmp_path, capsys):
    from user_level.client_app import app as client_app
    from user_level.server_app import app as server_app

    config = {
        "num-users": 100,
        "samples-per-user": 60,
        "dim": 12,
        "epsilon": 8.0,
        "design": "independent",
        "sizes": "unequal",
        "signs": "positive",
        "positions": "random",
        "scale": "estimated",
        "seed": 1,
        "num-nodes": nodes,
        "compare": nodes == 2,
        "output-dir": str(tmp_path),
    }
    grid = InProcessGrid(client_app, nodes, config)
    server_app(
        grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    )
    written = json.loads((tmp_path / "result.json").read_text())
    rows = {row["method"]: row for row in written["rows"]}
    assert written["privacy"]["epsilon"] == 8.0 and written["privacy"]["exact"]
    ours = rows["SparseRegression, in Flower"]
    assert ours["error"] == pytest.approx(0.1, abs=0.1)
    if nodes == 2:
        assert rows["oracle"]["error"] < ours["error"] < rows["zero"]["error"]
        declared = {row["method"].split(" (")[0]: row["epsilon"] for row in written["rows"]}
        assert declared.pop("oracle") is None and declared.pop("zero") is None
        assert declared.pop("local Lasso") is None
        assert len(declared) == 5 and set(declared.values()) == {8.0}
    assert "user-level LDP" in capsys.readouterr().out
