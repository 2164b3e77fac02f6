"""Correlation: its questions, its errors by noise, and its intervals, with noise at the node."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric, Schema, Users, simulate
from ldp_flower.clients.arithmetic import chosen
from ldp_flower.clients.statistics.sums import correlation_spread, products
from ldp_flower.questions import CorrelationSpread, Products
from ldp_flower.questions.sums import BESIDE
from ldp_flower.strategies import Correlation, TooFewReports
from ldp_flower.strategies.sums.correlations import _Moments

SCHEMA = Schema(
    {"x": Numeric(-10, 10), "sort": Categories(["a", "b"]), "y": Numeric(0, 400, centre=9)},
    "z",
    Numeric(-50, 50),
)


def people(number, seed=0):
    """Return rows of which x and y correlate by .6, and z with neither."""
    rng = np.random.default_rng(seed)
    x, y, z = rng.standard_normal((3, number))
    y = 0.6 * x + 0.8 * y
    return pd.DataFrame({"x": 2 * x, "sort": "a", "y": 90 + 20 * y, "z": 5 * z})


def test_values_are_moments_of_rows_between_the_limits():
    """By hand: a user of whose rows one lacks an entry, one without rows, and one clipped."""
    rows = np.array([[0.0, 1.0], [2.0, np.nan], [9.0, -9.0]])
    users = Users.from_rows(rows, groups=["a", "a", "c"], ids=["a", "b", "c"])
    question = Products(np.array([0, 1]), np.array([-2.0, -2.0]), np.array([2.0, 2.0]))
    found = products(chosen(users, question, np.zeros(3, np.uint64)), question)
    of_users, of_means = BESIDE[0], BESIDE[1] / np.sqrt(2)
    expected = [
        [of_users, 0, 0.5 * of_means, 0, 0, 0.25 / 2],
        [0] * 6,
        [of_users, of_means, -of_means, 1 / 2, -np.sqrt(2) / 2, 1 / 2],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # a user at the ends has the greatest length
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(Products.radius)
    assert question.width(2) == 6
    spread = CorrelationSpread(
        *(question.coordinates, question.lows, question.highs),
        *(np.array([0.0, 0.5]), np.array([0.5, 1.0]), np.array([0.2]), 2.0),
    )
    # z are (0, 0) and (2, -1.5): the influence of the last is -3 - .1 (4 + 2.25), beyond the bound
    found = correlation_spread(chosen(users, spread, np.zeros(3, np.uint64)), spread)
    np.testing.assert_allclose(found, [[-0.5], [0.0], [0.5]])


def test_errors_by_noise_are_those_of_noisy_moments():
    """Standard deviation of 5,000 draws; its standard error is 1 %."""
    rng = np.random.default_rng(0)
    means, present = np.array([0.3, -0.2]), 0.9
    covariance = np.array([[0.1, 0.05], [0.05, 0.08]])
    truth = present * (covariance + np.outer(means, means))
    sizes = 2e-3, 1e-3, 1.5e-3, 1e-3
    stated = _Moments(present, present * means, truth, sizes).correlations()[1]
    found = []
    for noise in rng.standard_normal((5_000, 6)):
        square = np.diag(noise[3:5] * sizes[2])
        product = noise[5] * sizes[3] * (1 - np.eye(2))
        moved = present * means + noise[1:3] * sizes[1]
        own = _Moments(present + noise[0] * sizes[0], moved, truth + square + product, sizes)
        found.append(own.correlations()[0])
    assert np.std(found) == pytest.approx(stated[0], rel=0.05)
    assert np.mean(found) == pytest.approx(0.05 / np.sqrt(0.008), abs=0.01)


@pytest.mark.parametrize("noise", ["node", "shared"])
def test_correlations_are_estimated_and_shown(noise):
    strategy = Correlation(SCHEMA, epsilon=2.0, noise=noise)
    table = people(20_000)
    table.loc[:999, "y"] = np.nan
    result = simulate(strategy, SCHEMA.users(table), seed=0, num_nodes=10)
    assert result.columns == ["x", "y", "z"] and not result.notes
    truth = table[["x", "y", "z"]].corr().to_numpy()
    off = ~np.eye(3, dtype=bool)
    assert (np.abs(result.correlation - truth)[off] < 4 * result.std_error[off]).all()
    assert (result.std_error[off] < 0.1).all() and (np.diag(result.correlation) == 1).all()
    low, high = result.limits.T
    assert (low < [-4, 50, -10]).all() and (high > [4, 130, 10]).all()  # two sigma
    assert high[1] < 300  # wide bounds cost little
    pairs = result.table()
    assert list(pairs["second"]) == ["y", "z", "z"] and (pairs.lower < pairs.upper).all()
    assert "x and y: 0." in str(result)
    assert len(result.plot().texts) == 9


def test_limits_of_a_column_of_0_and_1_are_its_bounds():
    table = people(20_000)
    table["z"] = np.where(table.x > 1, 50.0, -50.0)  # the bounds; a third is above
    result = simulate(Correlation(SCHEMA, epsilon=2.0), SCHEMA.users(table), seed=0, num_nodes=10)
    assert result.limits[2].tolist() == [-50, 50]
    truth = table[["x", "z"]].corr().to_numpy()[0, 1]
    assert abs(result.correlation[0, 2] - truth) < 4 * result.std_error[0, 2] < 0.2


def test_what_noise_hides_is_nan_with_a_note():
    table = people(8_000).assign(z=0.0)
    result = simulate(Correlation(SCHEMA, epsilon=1.0), SCHEMA.users(table), seed=0, num_nodes=10)
    assert np.isnan(result.correlation[:2, 2]).all() and np.isnan(result.lower[2, :2]).all()
    assert "Noise hides" in result.notes[0]
    result.plot()


@pytest.mark.long
def test_intervals_hold(runs=60):
    """Of 60 intervals of 95 % fewer than 51 hold with probability below .001."""
    schema = Schema({"x": Numeric(-10, 10)}, "y", Numeric(0, 400))
    held = 0
    for seed in range(runs):
        users = schema.users(people(6000, seed))
        result = simulate(Correlation(schema, epsilon=3.0), users, seed=seed, num_nodes=4)
        held += result.lower[0, 1] <= 0.6 <= result.upper[0, 1]
    assert held >= 51


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"noise": "user"}, "noise='node' or noise='shared' for correlations, got noise='user'"),
        ({"columns": ["x"]}, "at least two, got"),
        ({"columns": ["x", "x"]}, "distinct"),
        ({"columns": ["x", "sort"]}, "columns of numbers, got 'sort'"),
        ({"columns": ["x", "w"]}, "got 'w'"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, words):
    with pytest.raises(ValueError, match=words):
        Correlation(SCHEMA, epsilon=1.0, **arguments)


@pytest.mark.parametrize(("columns", "users"), [(2, 2200), (5, 5400)])
def test_a_plan_says_how_many_users_a_run_needs(columns, users):
    schema = Schema({f"x{i}": Numeric(0, 1) for i in range(columns)})
    few = Correlation(schema, epsilon=1.0).refusal(10, num_nodes=10)
    assert few.needed == pytest.approx(users, rel=0.02)
    assert f"{users:,} " in Correlation.no_plan
    half = Correlation(schema, epsilon=2.0).refusal(10, num_nodes=10)
    assert half.needed == pytest.approx(users / 2, rel=0.1)


def test_too_few_users_are_refused():
    with pytest.raises(TooFewReports, match="are too few at epsilon 1"):
        simulate(Correlation(SCHEMA, epsilon=1.0), SCHEMA.users(people(500)), seed=0, num_nodes=10)
