"""What tables' descriptions and frequent items are expected to tell, and whether they do."""

import numpy as np
import pytest

from ldp_flower import Categories, Numeric, Schema, Users, simulate
from ldp_flower.planning import NoPlan, Setting, WouldRefuse, expectation
from ldp_flower.planning.in_memory import Simulations
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    HeavyHitters,
    Means,
    Quantiles,
    TwoWay,
)
from ldp_flower.strategies.runtime.run import TooFewReports

NUMBER = Schema({"x": Numeric(0, 1)})
SORT = Schema({"sort": Categories(list("abcd"))})
PLANNED = {
    Means: 2,
    Counts: 6,
    Quantiles: None,
    Distribution: None,
    Describe: 2,
    TwoWay: 3,
    HeavyHitters: 100,
}
each = pytest.mark.parametrize("protocol", PLANNED)
#: The largest ratio of errors that simulated runs state for the same numbers; formulas have none.
SCATTER = {Means: 1.03, Counts: 1.03, TwoWay: 1.03, Describe: 1.03}


def plan(protocol, users, epsilon, rows=1, simulations=None):
    given = {"num_features": PLANNED[protocol], "rows_per_user": rows}
    read = {name: value for name, value in given.items() if name in protocol.plans_with}
    setting = Setting(num_users=users, **read)
    return expectation(protocol.planned_for(setting, epsilon), setting, None, simulations)


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(each, marks=pytest.mark.long) if each is Describe else each for each in PLANNED],
)
def test_more_users_and_more_epsilon_are_never_worse(protocol):
    users, epsilons = (24_000, 34_000, 80_000, 300_000), (0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8)
    known = Simulations()
    expected = np.array([[plan(protocol, n, e, 1, known).value for n in users] for e in epsilons])
    most = np.log(SCATTER.get(protocol, 1 + 1e-9))
    assert all((np.diff(np.log(expected + 1e-9), axis=axis) <= most).all() for axis in (0, 1))
    assert expected[0, 0] > 3 * expected[-1, -1]


@pytest.mark.slow
def test_means_of_a_description_gain_by_a_large_epsilon_too():
    expected = [plan(Describe, 9000, epsilon).value for epsilon in (4, 5, 5.5, 6, 6.5, 7, 7.5, 8)]
    assert (np.diff(np.log(expected)) <= np.log(SCATTER[Describe])).all()
    assert expected[-1] < expected[0]


@pytest.mark.slow
def test_users_too_many_for_the_best_answers_lose_nothing_at_a_large_epsilon():
    schema = Schema({"sort": Categories([str(i) for i in range(1000)])})
    strategy = Counts(schema, "sort", epsilon=8.0)
    few, many = (expectation(strategy, Setting(num_users=each)).value for each in (10**6, 10**7))
    assert many < few


@each
def test_a_plan_has_its_range_rounds_and_mechanisms(protocol):
    found = plan(protocol, 20_000, 1.0)
    assert found.low <= found.value <= found.high < 1.01 and found.report_bytes < 100
    assert found.assumes and all(line.endswith(".") for line in (*found.assumes, *found.notes))


@pytest.mark.parametrize("protocol", [Counts, Quantiles, Distribution, TwoWay])
def test_rows_of_which_one_is_drawn_add_an_error(protocol):
    one, many = (plan(protocol, 3000, 3.0, rows).value for rows in (1, 10))
    assert 1.02 * one < many


@pytest.mark.parametrize("protocol", [Counts, TwoWay, HeavyHitters])
def test_items_are_asked_for_where_their_number_matters(protocol):
    wanted = f"Expected num_features, which a plan of {protocol.__name__} needs, got None."
    with pytest.raises(ValueError, match=wanted) as told:
        protocol.planned_for(Setting(num_users=100), 1.0)
    assert not isinstance(told.value, NoPlan)  # somebody can tell, once it is given


@pytest.mark.parametrize(
    ("strategy", "table"),
    [
        (Means(NUMBER, "x", epsilon=0.5), {"x": np.zeros(60)}),
        (Counts(SORT, "sort", epsilon=0.5), {"sort": ["a"] * 60}),
        (Counts(SORT, "sort", epsilon=9.0, min_reports=61), {"sort": ["a"] * 60}),
        (Quantiles(NUMBER, "x", [0.1, 0.5], epsilon=1.0), {"x": np.zeros(60)}),
        (Distribution(NUMBER, "x", epsilon=1.0), {"x": np.zeros(60)}),
        (Means(NUMBER, "x", epsilon=9.0, min_reports=50), {"x": np.zeros(60)}),
        (Quantiles(NUMBER, "x", [0.5], epsilon=9.0, min_reports=61), {"x": np.zeros(60)}),
        (Describe(NUMBER, epsilon=1.0), {"x": np.zeros(60)}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_plan_is_refused_with_the_words_of_the_run(strategy, table):
    users = strategy.schema.users(table)
    with pytest.raises(TooFewReports) as run:
        simulate(strategy, users, seed=0)
    with pytest.raises(WouldRefuse) as planned:
        expectation(strategy, Setting(num_users=60))
    assert str(planned.value) == str(run.value)


def test_refused_tables_and_items_have_the_words_of_the_run():
    pairs = Schema({"a": Categories(list("xy")), "b": Categories(list("xy"))})
    two_way = TwoWay(pairs, "a", "b", epsilon=0.5)
    items = HeavyHitters(10, epsilon=1.0, min_reports=61)
    for strategy, users in [
        (two_way, pairs.users({"a": ["x"] * 60, "b": ["y"] * 60})),
        (items, Users.from_items(np.zeros(60, int), np.arange(60))),
    ]:
        with pytest.raises(TooFewReports) as run:
            simulate(strategy, users, seed=0)
        with pytest.raises(WouldRefuse) as planned:
            expectation(strategy, Setting(num_users=60))
        assert str(planned.value) == str(run.value)


def test_sets_of_items_have_no_plan():
    with pytest.raises(NoPlan, match="Expected set_size 1 for a plan, got 2"):
        expectation(HeavyHitters(10, epsilon=1.0, set_size=2), Setting(num_users=1000))


def test_shares_are_off_by_what_was_expected():
    """Of 30 shares in 4 runs, the mean square over its expectation.

    Its standard error is sqrt(2 / 120) = .13; seven of these are off in one of 10^11.
    """
    schema = Schema({"sort": Categories([str(i) for i in range(30)])})
    drawn = np.random.default_rng(0).integers(0, 30, 4000)
    users, truth = schema.users({"sort": drawn.astype(str)}), np.bincount(drawn) / 4000
    strategy = Counts(schema, "sort", epsilon=1.0)
    off = [simulate(strategy, users, seed=seed).shares - truth for seed in range(4)]
    expected = expectation(strategy, Setting(num_users=4000)).value
    assert abs(np.mean(np.square(off)) / expected**2 - 1) < 7 * 0.13


def test_means_report_the_standard_errors_that_were_expected():
    """By groups too, equally large. Of three runs, and of the plan's, they differ by 2 %."""
    schema = Schema({"sort": Categories(list("abc"))}, "y", Numeric(0, 10))
    rng = np.random.default_rng(0)
    table = {"sort": np.array(list("abc"))[np.arange(6000) % 3], "y": rng.normal(5, 1.2, 6000)}
    for by in (None, "sort"):
        strategy = Means(schema, "y", by=by, epsilon=3.0)
        found = simulate(strategy, schema.users(table), seed=1).users_std_error / 10
        plan = expectation(strategy, Setting(num_users=6000))
        assert (np.abs(found / plan.value - 1) < 0.1).all()


def test_what_describe_expects_names_all_that_it_tells():
    schema = Schema({"sort": Categories(list("abcd"))}, "y", Numeric(0, 10))
    plan = expectation(Describe(schema, epsilon=2.0), Setting(num_users=20_000))
    assert plan.error == "standard error of a mean, in widths of the bounds"
    assert any("category's share" in note for note in plan.notes)
    assert any("rank error" in note for note in plan.notes)
    only = expectation(Describe(SORT, epsilon=2.0), Setting(num_users=20_000))
    assert only.error == "standard error of a category's share" and not only.notes
