"""Plans with noise at the node, against runs on nodes."""

import dataclasses
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower import Numeric, Schema, plan, simulate
from ldp_flower.cli.app import app
from ldp_flower.planning import Setting, WouldRefuse, expectation
from ldp_flower.planning.in_memory import mean_without_noise
from ldp_flower.presentation.words import TRUSTS
from ldp_flower.randomizers import BallSum, CellSum
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    LdpIht,
    Means,
    PrivateClassification,
    PrivateRegression,
    Quantiles,
    SparseMean,
    TooFewReports,
    TwoWay,
)

FEATURES = {
    Means: None,
    Counts: 5,
    TwoWay: 3,
    Quantiles: None,
    Distribution: None,
    Describe: 2,
    PrivateRegression: 5,
    PrivateClassification: 5,
}
each = pytest.mark.parametrize("protocol", FEATURES)
COLUMN = Schema({"x": Numeric(-10, 30)})


def planned(protocol, users, nodes=10, epsilon=1.0, runs=2, **numbers):
    setting = Setting(num_users=users, num_nodes=nodes, num_features=FEATURES[protocol], **numbers)
    strategy = dataclasses.replace(protocol.planned_for(setting, epsilon), noise="node")
    return strategy, expectation(strategy, setting, runs)


def humps(seed, users, columns=1):
    """Return numbers of the law that plans assume, in [0, 1]."""
    rng = np.random.default_rng([7, seed])
    places = rng.choice([-1, 1], columns) + rng.standard_normal((users, columns))
    return np.clip(0.5 + places / 8, 0, 1)


@each
def test_a_plan_has_its_range_rounds_mechanisms_and_delta(protocol):
    strategy, found = planned(protocol, 20_000)
    assert 0 < found.low <= found.value <= found.high < 0.2
    assert found.assumes and all(line.endswith(".") for line in (*found.assumes, *found.notes))
    assert {each.delta for each in found.randomizers} == {strategy.delta}


@each
def test_a_refusal_has_the_words_of_a_run_on_so_many_nodes(protocol):
    features = FEATURES[protocol]
    setting = Setting(num_users=60, num_nodes=4, num_features=features)
    strategy = dataclasses.replace(protocol.planned_for(setting, 0.3), noise="node")
    with pytest.raises(WouldRefuse, match="on 4 nodes are too few") as told:
        expectation(strategy, setting)
    schema = strategy.schema
    table = {name: np.zeros(60) for name in schema.columns_read}
    for name in schema.columns_read:
        if not isinstance(schema.kind(name), Numeric):
            table[name] = [schema.kind(name).declared[0]] * 60
    with pytest.raises(TooFewReports) as refused:
        simulate(strategy, schema.users(table), seed=0, num_nodes=4)
    assert str(told.value) == str(refused.value)
    enough = dataclasses.replace(setting, num_users=told.value.refusal.needed)
    assert expectation(strategy, enough, 1).value > 0


def test_a_mean_has_the_standard_error_of_a_run():
    """Noise is known, so that runs state nearly the same error: of any two within 3 %."""
    strategy, found = planned(Means, 5000)
    users = strategy.schema.users({"x1": humps(0, 5000)[:, 0]})
    stated = simulate(strategy, users, seed=0, num_nodes=10).users_std_error[0, 0]
    assert found.value == pytest.approx(stated, rel=0.03)


def test_the_noise_of_more_nodes_is_larger_by_the_root_of_their_number():
    few, many = (planned(Means, 100_000, nodes)[1].value for nodes in (4, 64))
    assert many == pytest.approx(4 * few, rel=0.01)
    huge = planned(Means, 10**8, 4)[1].value
    assert huge == pytest.approx(few / 1000, rel=0.01)


@pytest.mark.parametrize("rows", [1, 4])
def test_shares_are_off_by_what_was_expected(rows):
    """Of 5 shares in 16 runs, the mean square over its expectation.

    Four of five are free, so its standard error is sqrt(2 / 64) = .18; five of these are off in
    one of a million.
    """
    strategy, found = planned(Counts, 2000, 4, rows_per_user=rows)
    off = []
    for seed in range(16):
        drawn = np.random.default_rng(seed).integers(0, 5, 2000 * rows)
        users = strategy.schema.users({"column": drawn.astype(str)}, np.arange(2000 * rows) // rows)
        result = simulate(strategy, users, seed=seed, num_nodes=4)
        off.append(result.shares - np.bincount(drawn) / len(drawn))
    assert abs(np.mean(np.square(off)) / found.value**2 - 1) < 5 * 0.18


@pytest.mark.slow
@pytest.mark.parametrize("users", [8000, 20_000])
def test_quantiles_are_as_far_off_as_planned(users):
    """One run in ten is below the range, and one above.

    The median of seven is outside with probability 2 * 35 * .1**4 = .7 %, of a plan by 12 runs
    with some 3 %; the seeds are fixed. More users than are drawn have others that stand in.
    """
    strategy, found = planned(Quantiles, users, 4, runs=12)
    off = []
    for seed in range(7):
        entries = humps(seed, users)[:, 0]
        result = simulate(
            strategy, strategy.schema.users({"column": entries}), seed=seed, num_nodes=4
        )
        ranks = np.searchsorted(np.sort(entries), result.values) / users
        off.append(np.sqrt(np.mean((ranks - result.levels) ** 2)))
    assert found.low < np.median(off) < found.high
    assert found.rounds == len(result.steps) - 1  # the census is no question
    assert found.report_bytes == max(step.report_bytes for step in result.steps)


@pytest.mark.slow
def test_a_description_is_as_far_off_as_planned():
    """Of 2 means in 10 runs, the mean square is off its expectation by at most 5 errors of .32.

    The plan's is the larger of two stated errors, which differ by some 5 %.
    """
    strategy, found = planned(Describe, 9000, 4)
    off = []
    for seed in range(10):
        entries = humps(seed, 9000, 2)
        table = dict(zip(strategy.schema.columns, entries.T, strict=True))
        result = simulate(strategy, strategy.schema.users(table), seed=seed, num_nodes=4)
        off.append(result.values[1] - entries.mean(axis=0))
    assert abs(np.mean(np.square(off)) / found.value**2 - 1) < 5 * np.sqrt(2 / 20)
    assert any("rank error" in note for note in found.notes)


def test_a_mean_in_memory_is_that_of_the_integers_that_nodes_add_up():
    values = np.random.default_rng(0).uniform(-0.2, 0.6, (300, 4))
    for mechanism in (BallSum(1.0, dim=4, radius=0.5), CellSum(1.0, dim=4)):
        exact = mechanism.total(values) * mechanism.unit / len(values)
        # A value is rounded to multiples of the unit, within half of it or, if shortened, one.
        assert np.abs(mean_without_noise(mechanism, values) - exact).max() <= mechanism.unit


@pytest.mark.parametrize(
    ("protocol", "given", "said"),
    [
        (Means, {"noise": "node"}, "Expected num_nodes >= 1 with noise='node', got None"),
        (
            Means,
            {"noise": "user", "num_nodes": 4},
            "Expected no num_nodes with noise='user', got 4",
        ),
        (Means, {"noise": "server"}, r"Expected noise in \('user', 'node', 'shared'\) with Means"),
        (Means, {"num_nodes": 0}, "num_nodes"),
        (Means, {"num_nodes": 1001}, "num_nodes"),
        (SparseMean, {"num_nodes": 4}, "Expected no num_nodes with noise='user', got 4"),
        (
            SparseMean,
            {"noise": "node"},
            r"Expected noise in \('user',\) with SparseMean, got 'node'",
        ),
    ],
)
def test_arguments_without_effect_are_refused(protocol, given, said):
    features = {"num_features": 8} if protocol in (LdpIht, SparseMean) else {}
    with pytest.raises(ValueError, match=said):
        plan(protocol, num_users=1000, epsilon=1.0, **features, **given)


def test_a_strategy_has_its_own_noise_and_its_page_says_whom_that_trusts():
    strategy = Means(COLUMN, "x", epsilon=1.0, noise="node", delta=1e-5)
    with pytest.raises(ValueError, match="Expected no noise with a strategy"):
        plan(strategy, num_users=1000, noise="node")
    with pytest.raises(ValueError, match="Expected num_nodes >= 1 with noise='node'"):
        plan(strategy, num_users=1000)
    made = plan(strategy, num_users=1000, num_nodes=5)
    assert (made.noise, made.delta) == ("node", 1e-5)
    # Errors fall with the number of users, and with epsilon up to 4 nearly so.
    assert made.changes["users"] == pytest.approx(2000, rel=0.15)
    assert made.changes["epsilon"] == pytest.approx(2.1, rel=0.15)
    page = made.to_html()
    assert TRUSTS["node"] in page and "1,000 people on 5 nodes" in page
    assert "its node's 1 answer" in page and "delta 1e-05" in page
    refused = plan(Means(COLUMN, "x", epsilon=0.1, noise="node"), num_users=30, num_nodes=5)
    assert refused.expected is None and refused.delta == 1e-6
    assert "on 5 nodes are too few" in refused.refusal


def test_the_command_shows_every_noise_side_by_side():
    asked = ["plan", "Means", "--users", "4000", "--epsilon", "1"]
    shown = CliRunner().invoke(app, [*asked, "--nodes", "10"]).output
    rows = dict(re.findall(r"│ (user|node) +│ +([\d.]+) ", shown))
    assert float(rows["user"]) > 3 * float(rows["node"]) > 0
    assert max(map(len, shown.splitlines())) <= 60
    for said in TRUSTS.values():
        assert " ".join(said.split()[:6]) in " ".join(shown.split())
    one = CliRunner().invoke(app, [*asked, "--nodes", "10", "--noise", "node"]).output
    assert rows["node"] in one and "delta 1e-06" in one
    few = CliRunner().invoke(app, ["plan", "Means", "--users", "40", "--nodes", "4"]).output
    assert few.count("refused") >= 2
    for wrong in (["--nodes", "10", "--html", "page.html"], ["--noise", "node"]):
        assert CliRunner().invoke(app, [*asked, *wrong]).exit_code == 2
    wrong = ["plan", "SparseMean", "--users", "4000", "--features", "8", "--nodes", "10"]
    assert CliRunner().invoke(app, wrong).exit_code == 2
