"""Plans of series: closed forms against the recursions' limits, and the command."""

import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower import Numeric, Schema, simulate
from ldp_flower.cli.app import app
from ldp_flower.planning import NoPlan, Setting
from ldp_flower.planning.series import level_errors, plan_series
from ldp_flower.strategies import Means, PrivateEvaluation, PrivateRegression, Quantiles, Series


def test_levels_that_do_not_drift_are_means_and_those_that_do_reach_their_limits():
    today, past = level_errors(2.0, 0.0, 25)
    assert past == pytest.approx(2 / 5)
    assert today == pytest.approx(2 * math.sqrt(np.mean(1 / np.arange(1, 26))))
    # A long time: P = (sqrt(q^2 + 4 q v) - q) / 2, and both sides together.
    variance, drift = 4.0, 0.25
    limit = (math.sqrt(drift**2 + 4 * drift * variance) - drift) / 2
    both = 1 / (1 / limit + 1 / (limit + drift))
    found = np.square(level_errors(math.sqrt(variance), math.sqrt(drift), 5000))
    assert found == pytest.approx([limit, both], rel=0.01)


def test_panels_beat_a_split_budget():
    plan = plan_series(Means, Setting(num_users=10_000), 8.0, 52, 0.005)
    assert plan.past < plan.today < plan.panel < plan.split
    refused = plan_series(Means, Setting(num_users=10_000), 2.0, 52, 0.005)
    assert refused.memoised < refused.past
    # An error of (e^eps + 1) / (e^eps - 1) / 2 for one user in the middle of the bounds.
    assert refused.memoised == pytest.approx(1 / math.tanh(1.0) / 2 / 100)
    assert math.isinf(plan_series(Quantiles, Setting(num_users=10_000), 8.0, 52, 0.005).memoised)
    assert math.isnan(plan_series(Means, Setting(num_users=20), 0.1, 52, 0.005).memoised)
    assert math.isnan(refused.split) and refused.today < refused.panel


def test_evaluations_are_simulated_and_models_have_no_series():
    setting = Setting(num_users=20_000, num_features=3)
    plan = plan_series(PrivateEvaluation, setting, 8.0, 4, 0.005)
    assert plan.error == "standard error of R2" and plan.today < plan.panel < plan.split
    with pytest.raises(NoPlan, match="The error to expect of PrivateRegression is not known"):
        plan_series(PrivateRegression, setting, 8.0, 4, 0.005)


def test_noise_at_the_node_is_planned_as_it_comes_out():
    """Collections differ by chance in how far sampling is overstated, and by the noise of it."""
    setting = Setting(num_users=4000, num_nodes=8)
    plan = plan_series(Means, setting, 1.0, 6, 0.0)
    assert plan.node_past < plan.node_today < plan.node < plan.panel / 3
    schema = Schema({"x1": Numeric(0, 1)})
    series = Series(Means(schema, "x1", epsilon=1.0, noise="node"), collections=6)
    # A standard deviation of an eighth, and a mean that is an eighth from the middle, as in plans.
    numbers = np.random.default_rng(5).normal(5 / 8, 1 / 8, 4000)
    for _ in range(6):
        found = simulate(series, schema.users({"x1": numbers}), seed=2, num_nodes=8)
    noise = np.sqrt(found.raw_std_error[-1, 0] ** 2 - 1 / 64 / 4000)
    assert noise == pytest.approx(plan.node, rel=0.1)
    assert math.isinf(plan_series(Means, Setting(num_users=4000), 1.0, 6, 0.0).node)
    few = plan_series(Means, Setting(num_users=100, num_nodes=8), 1.0, 6, 0.0)
    assert math.isnan(few.node) and math.isnan(few.node_past)


def test_the_command_shows_them_side_by_side():
    asked = ["plan", "Means", "--users", "10000", "--epsilon", "8", "--collections", "52"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    shown = [float(each) for each in re.findall(r"│ +(0?\.\d+) +│", result.output)]
    plan = plan_series(Means, Setting(num_users=10_000), 8.0, 52, 0.005)
    expected = [plan.split, plan.panel, plan.today, plan.past, plan.memoised]
    assert shown == pytest.approx(expected, rel=0.06)
    small = CliRunner().invoke(app, [*asked[:3], "100", *asked[4:]])
    assert small.exit_code == 0 and small.output.count("refused") >= 3
    none = CliRunner().invoke(app, ["plan", "Series", "--users", "100", "--collections", "5"])
    assert none.exit_code == 0 and "is planned by its protocol" in none.output
    nodes = CliRunner().invoke(
        app, ["plan", "Means", "--users", "10000", "--nodes", "8", *asked[6:]]
    )
    assert nodes.exit_code == 0 and nodes.output.count("noise at the node") == 3
    assert "noise at the node" not in result.output
    for other in (["--target", "0.1"], ["--quality", "0.5"], ["--html", "page.html"]):
        assert CliRunner().invoke(app, [*asked, *other]).exit_code == 2
    assert CliRunner().invoke(app, [*asked[:-2], "--drift", "0.1"]).exit_code == 2
