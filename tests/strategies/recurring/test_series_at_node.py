"""Series with noise at the node: all users answer each time, by a share of one plan.

Seeds are fixed; each bound says how often chance would break it.
"""

import numpy as np
import pytest

from ldp_flower import Categories, InProcessGrid, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import (
    Counts,
    Means,
    PrivateEvaluation,
    Quantiles,
    Series,
    TooFewReports,
    TwoWay,
)

SCHEMA = Schema(
    {"mood": Categories(["low", "high"]), "place": Categories(["x", "y"])}, "hours", Numeric(0, 24)
)
MEANS = Means(SCHEMA, "hours", epsilon=1.0, noise="node")
USERS, NODES, WEEKS = 3000, 8, 6
MEAN, RISE = 7.0, 0.1  # hours of the population in the first week, and what a week adds


def people(week=0, seed=0, number=USERS):
    """Return the same people every week, whose hours are skewed and grow."""
    rng = np.random.default_rng([seed, 8])
    hours = rng.gamma(4.0, MEAN / 4, number) + RISE * week
    place = rng.choice(["x", "y"], number, p=[0.8, 0.2])
    mood = np.where(rng.random(number) < 0.3 + 0.2 * (place == "y"), "high", "low")
    return SCHEMA.users({"hours": hours, "mood": mood, "place": place})


def collected(series, weeks=WEEKS, seed=0, nodes=NODES, number=USERS):
    for week in range(weeks):
        found = simulate(series, people(week, seed, number), seed=seed, num_nodes=nodes)
    return found


def started(series, users, **arguments):
    grid = InProcessGrid(LdpClientApp(lambda context: users, seed=0), num_nodes=1)
    return series.start(grid, num_nodes=1, **{"seed": 0, **arguments})


@pytest.mark.slow
def test_levels_hold_the_population_and_smooth_the_noise(runs=24):
    """Of 24 bands of .95, five or more miss in one of 150 tests; past bands are wider than that."""
    truth, missed, smoothed = MEAN + RISE * np.arange(WEEKS), [], []
    for seed in range(700, 700 + runs):
        found = collected(Series(MEANS, collections=WEEKS), seed=seed)
        scores = [
            (found.raw[-1, 0] - truth[-1]) / found.raw_std_error[-1, 0],
            (found.filtered[-1, 0] - truth[-1]) / found.filtered_std_error[-1, 0],
            (found.level[2, 0] - truth[2]) / found.std_error[2, 0],
        ]
        missed.append(np.abs(scores) > 1.96)
        smoothed.append(found.std_error[-1, 0] / found.raw_std_error[-1, 0])
    assert np.sum(missed, axis=0).max() < 5
    assert np.median(smoothed) < 0.9


def test_a_level_keeps_the_error_of_sampling():
    """Without any noise to speak of, more collections of the same users say nothing more."""
    strategy = Means(SCHEMA, "hours", epsilon=50.0, noise="node")
    found = collected(Series(strategy, collections=4), 4)
    sampling = MEAN / 2 / np.sqrt(USERS)  # a gamma law of shape 4
    assert (sampling < found.std_error).all() and (found.std_error < 1.2 * sampling).all()


def test_it_is_far_sharper_than_panels():
    at_node = collected(Series(MEANS, collections=2), 2)
    at_user = collected(Series(Means(SCHEMA, "hours", epsilon=1.0), collections=2), 2)
    assert at_user.std_error[-1, 0] > 3 * at_node.std_error[-1, 0]
    assert at_node.asked.tolist() == [USERS] * 2 and sum(at_user.asked) == USERS


def test_all_collections_cost_one_plan_and_the_result_says_where_the_noise_is():
    found = collected(Series(MEANS, collections=3), 3)
    assert (found.privacy.epsilon, found.privacy.delta) == (1.0, 1e-6)
    assert found.privacy.noise == "node" and "noise at the node" in repr(found)
    assert found.num_reports == 3 * USERS
    again = type(found).from_dict(found.to_dict())
    np.testing.assert_array_equal(again.std_error, found.std_error)


@pytest.mark.parametrize(
    "strategy",
    [
        Counts(SCHEMA, "mood", epsilon=1.0, noise="node"),
        TwoWay(SCHEMA, "mood", "place", epsilon=1.0, noise="node"),
        Means(SCHEMA, "hours", by="place", epsilon=1.0, noise="node"),
        Quantiles(SCHEMA, "hours", [0.5, 0.9], epsilon=4.0, noise="node"),
        PrivateEvaluation(np.eye(1, SCHEMA.num_features)[0], epsilon=4.0, noise="node"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_strategy_with_estimates_has_a_series_at_the_node(strategy):
    """The first collection has the strategy's own estimate, with the root of two as much noise."""
    found = collected(Series(strategy, collections=2), 2, nodes=2)
    own = simulate(strategy, people(), seed=1, num_nodes=2).estimates()
    assert found.names == own.names
    errors = np.hypot(found.raw_std_error[0], own.std_errors)
    assert (np.abs(found.raw[0] - own.values) < 4 * errors).all()
    assert (found.raw_std_error[0] > own.std_errors * 0.8).all()
    assert np.isfinite(found.std_error).all()


def test_users_may_join_and_leave_and_weeks_may_be_left_out():
    series = Series(MEANS, collections=5)
    collected(series, 2)
    found = started(series, people(4, number=2 * USERS), collection=5)
    assert found.users.tolist() == [USERS, USERS, 0, 0, 2 * USERS]
    assert np.isnan(found.raw[2:4]).all() and np.isfinite(found.std_error).all()
    assert abs(found.level[-1, 0] - MEAN - 4 * RISE) < 4 * found.std_error[-1, 0]


def test_a_store_goes_on_where_it_was_stopped(tmp_path):
    whole = collected(Series(MEANS, collections=3), 3)
    path = tmp_path / "series.db"
    for week in range(3):
        series = Series(MEANS, collections=3, store=path)
        if week == 2:
            with pytest.raises(ValueError, match="seed of the first collection"):
                simulate(series, people(week), seed=1, num_nodes=NODES)
        found = simulate(series, people(week), seed=0, num_nodes=NODES)
    np.testing.assert_array_equal(found.raw, whole.raw)


def test_too_few_users_are_refused_before_any_pays():
    series = Series(MEANS, collections=9)
    with pytest.raises(TooFewReports, match="Each of 9 collections has an equal share") as refused:
        collected(series, 1, number=200)
    needed = refused.value.refusal.needed
    assert series.refusal(needed, num_nodes=NODES) is None
    assert series.refusal(needed - 1, num_nodes=NODES) is not None
    assert needed == pytest.approx(3 * MEANS.refusal(20, num_nodes=NODES).needed, abs=3)
    assert collected(series, 1, number=needed).num_users == needed


def test_a_small_limit_on_reports_is_kept():
    """A third of epsilon 1 is above the operator's min-epsilon, a tenth of it is not."""
    strict = PrivacyPolicy(1.0, max_delta=1e-6, noise="node", min_epsilon=0.3)
    simulate(Series(MEANS, collections=3), people(), seed=0, num_nodes=NODES, policy=strict)
    with pytest.raises(TooFewReports, match="does not allow this mechanism"):
        simulate(Series(MEANS, collections=10), people(), seed=0, num_nodes=NODES, policy=strict)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Series(
                Counts(SCHEMA, "mood", epsilon=1.0, noise="node"), collections=3, memoised=True
            ),
            "Expected memoised=False with noise='node', got True",
        ),
        (
            lambda: Series(
                Means(many(20), [f"x{i}" for i in range(20)], epsilon=1.0, noise="node"),
                collections=600,
            ),
            "Expected steps that have 1 / 10,000 of the budget or more, got 8.3e-05",
        ),
    ],
)
def test_what_has_no_sum_is_refused_at_construction(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def many(number):
    return Schema({f"x{i}": Numeric(0, 1) for i in range(number)})
