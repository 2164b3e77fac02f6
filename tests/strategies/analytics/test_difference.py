"""Difference: arms by a public coin, or private; right on average, with right standard errors."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from ldp_flower import Categories, Numeric, Schema, assigned_arms, simulate
from ldp_flower.audit import recorded_queries
from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.planning import Setting, expectation, plan
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.strategies import Difference, DifferenceResult
from ldp_flower.strategies.analytics.cells import ShareEstimates
from ldp_flower.strategies.analytics.difference_window import best_window
from ldp_flower.strategies.analytics.levels import Levels

SCHEMA = Schema({"spend": Numeric(0, 100), "arm": Categories(["old", "new"])})
LAWS = {
    "beta": lambda rng, users: 100 * rng.beta(2, 5, users),
    "triangle": lambda rng, users: rng.triangular(10, 60, 90, users),
    "rounded": lambda rng, users: np.rint(rng.normal(7, 2, users)) * 5,
}


def table(arms, seed=0, effect=4.0, law="beta"):
    """Return users of these arms whose numbers follow a law, by ``effect`` larger in the second."""
    numbers = LAWS[law](np.random.default_rng(seed), len(arms)) + effect * arms
    return SCHEMA.users({"spend": numbers, "arm": np.array(["old", "new"])[arms]})


def test_sums_of_nodes_have_no_window():
    with pytest.raises(ValueError, match=r"got window=False\. .* Leave window out\."):
        Difference(SCHEMA, "spend", by="arm", epsilon=1.0, noise="node", window=False)


# ------------------------------------------------------------------------------ the arms


@pytest.mark.parametrize("allocation", [0.5, 0.2])
def test_users_are_asked_by_the_arm_of_a_coin_that_depends_on_no_data(allocation):
    """Each once; but for those who tell the window, each question asks users of one arm."""
    arms = assigned_arms("arm", np.arange(4000), allocation)
    assert abs(arms.mean() - (1 - allocation)) < 4 * math.sqrt(0.25 / 4000)
    strategy = Difference(
        SCHEMA, "spend", by="arm", epsilon=1.0, assigned=True, allocation=allocation
    )
    first, *others = recorded_queries(strategy, table(arms), 0)
    keys, asked = NodeKeys(0, 0, 4000), np.zeros(4000, int)
    slots = [keys.addressed(query.salt, query.low, query.high) for query in (first, *others)]
    for each in slots:
        asked[each] += 1
    assert (asked == 1).all() and set(arms[slots[0]]) == {0, 1}
    assert {tuple(set(arms[each])) for each in slots[1:]} == {(0,), (1,)}
    other = recorded_queries(strategy, table(arms, seed=1), 1)
    assert {query.salt for query in other} == {first.salt}


def test_arms_of_two_experiments_are_independent():
    one, two = (assigned_arms(name, np.arange(4000)) for name in ("one", "two"))
    assert abs(np.mean(one == two) - 0.5) < 4 * math.sqrt(0.25 / 4000)
    assert assigned_arms("one", [7, 3]).tolist() == [one[7], one[3]]
    for numbers in ([-1], [0.5], ["a"], [[1]]):
        with pytest.raises(ValueError, match="numbers as integers from 0"):
            assigned_arms("one", numbers)


def test_users_with_other_arms_are_refused():
    """Of a table whose arms another coin assigned, which would show no difference."""
    strategy = Difference(SCHEMA, "spend", by="arm", epsilon=1.0, assigned=True)
    with pytest.raises(ValueError, match=r"others for 2,000 of 4,000 users\. If you made them"):
        simulate(strategy, table(np.arange(4000) % 2 ^ assigned_arms("arm", np.arange(4000)) ^ 1))


# ------------------------------------------------------------------------- the estimate


def errors_of(runs, **options):
    """Return the errors of runs over those that they state."""
    found = []
    for seed in range(runs):
        arms = assigned_arms("arm", np.arange(4000), options.get("allocation", 0.5))
        if not options.get("assigned"):
            arms = (np.random.default_rng([seed, 1]).random(4000) < 0.3).astype(np.int64)
        strategy = Difference(SCHEMA, "spend", by="arm", **options)
        result = simulate(strategy, table(arms, seed), seed=seed)
        found.append((result.difference - 4.0) / result.std_error)
    return np.array(found)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 2.0, "assigned": True, "allocation": 0.2},
        {"epsilon": 2.0, "assigned": True, "window": False},
        {"epsilon": 4.0},
        {"epsilon": 1.0, "noise": "node"},
    ],
    ids=str,
)
def test_differences_are_right_with_right_standard_errors(options):
    """Sums of squares of 8 runs: too large once in 10,000 times if errors are those stated."""
    assert np.square(errors_of(8, **options)).sum() < chi2.isf(1e-4, 8)


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("allocation", [0.5, 0.15])
def test_intervals_hold_as_often_as_they_say(law, epsilon, allocation):
    """Of 200 intervals of 95 % fewer than 178 hold once in 2,400 times."""
    arms = assigned_arms("arm", np.arange(8000), allocation)
    strategy = Difference(
        SCHEMA, "spend", by="arm", epsilon=epsilon, assigned=True, allocation=allocation
    )
    held = 0
    for seed in range(200):
        result = simulate(strategy, table(arms, seed, 2.0, law), seed=seed)
        held += result.lower <= 2.0 <= result.upper
    assert held >= binom.ppf(4e-4, 200, 0.95)


def test_arms_that_do_not_differ_are_significant_once_in_twenty_times():
    """Of 60 runs in memory: more than 11 once in 10,000 times, at 5 % each."""
    users = table(np.zeros(3000, np.int64), law="rounded")
    strategy = Difference(SCHEMA, "spend", by="arm", epsilon=2.0, assigned=True)
    values = [run_in_memory(strategy, users, seed).result.p_value for seed in range(60)]
    assert np.sum(np.array(values) < 0.05) <= binom.isf(1e-4, 60, 0.05)
    assert np.median(values) > 0.3


def test_public_arms_have_a_fraction_of_the_error_of_private_ones():
    arms = assigned_arms("arm", np.arange(8000))
    found = [
        simulate(Difference(SCHEMA, "spend", by="arm", epsilon=1.0, **options), table(arms), seed=0)
        for options in (
            {"assigned": True},
            {"assigned": True, "window": False},
            {},
            {"window": False},
        )
    ]
    public, whole, private, private_whole = (result.std_error for result in found)
    assert public < 0.7 * private and whole < 0.7 * private_whole and public < 0.7 * whole
    assert np.ptp(found[0].window) < 70 and found[1].window.tolist() == [0, 100]
    note, (low, high) = found[0].notes[0], found[0].window
    assert f"numbers of 'spend' below {low:.4g} and above {high:.4g} is not counted in full" in note
    assert "If 'new' changes these most, the true difference is larger" in note
    assert not found[1].notes


def test_the_error_of_a_difference_has_the_covariance_of_both_means():
    """The delta method's, against the difference of shares that are moved one at a time."""
    levels = Levels(2.0, 2)
    rng = np.random.default_rng(0)
    cells = rng.dirichlet(np.ones(2 * levels.number))
    root = rng.standard_normal((len(cells), len(cells))) / 1000
    found = ShareEstimates(cells, root @ root.T, 1000)

    def difference(cells):
        each = levels.means(ShareEstimates(cells, found.covariance, 1000), None, 1000)
        return each.mean[1] - each.mean[0]

    step = 1e-6 * np.eye(len(cells))
    slopes = [(difference(cells + own) - difference(cells - own)) / 2e-6 for own in step]
    expected = math.sqrt(slopes @ found.covariance @ slopes)
    assert levels.error_of_difference(found) == pytest.approx(expected, rel=1e-6)


def test_a_window_is_as_narrow_as_noise_is_large():
    shares = np.array([0, 0, 0.1, 0.4, 0.3, 0.1, 0.05, 0.05, 0])
    noises = (1.0, 1e-2, 1e-4)
    windows = [best_window(shares, noise) for noise in noises]
    assert windows[0].half < windows[1].half < windows[2].half
    for noise, each in zip(noises, windows, strict=True):  # no worse than the whole range
        assert noise * each.half**2 + (0.75 * each.beyond) ** 2 <= noise
    assert all(abs(each.middle) + each.half <= 1 + 1e-12 for each in windows)
    place = np.abs(np.linspace(-1, 1, 9) - windows[1].middle) - windows[1].half
    assert windows[1].beyond == pytest.approx(np.maximum(place, 0) @ shares)


# ------------------------------------------------------------------------------ plans


@pytest.mark.slow
@pytest.mark.parametrize("assigned", [True, False])
def test_a_plan_and_the_curve_of_another_agree(assigned):
    strategy = Difference(SCHEMA, "spend", by="arm", epsilon=2.0, assigned=assigned)
    curve = plan(strategy, num_users=12_000).table().set_index(["users", "epsilon"])["error"]
    few = plan(strategy, num_users=3000).expected.value
    assert curve[3000, 2.0] == few > 1.5 * curve[12_000, 2.0]


@pytest.mark.parametrize(("epsilon", "options"), [(2.0, {"assigned": True}), (4.0, {})], ids=str)
def test_runs_state_the_error_that_was_planned(epsilon, options):
    """Of a normal and a skewed column: windows vary by a fifth or less, so medians of 30 by .05."""
    strategy = Difference(SCHEMA, "spend", by="arm", epsilon=epsilon, **options)
    expected = expectation(strategy, Setting(num_users=6000))
    assert ("Arms are assigned" in expected.assumes[0]) == strategy.assigned
    skewed = float(expected.notes[0].split()[-1].rstrip("."))
    rng = np.random.default_rng(0)
    arms = np.array(["old", "new"])[rng.integers(2, size=2000)]
    normal, exponential = rng.normal(62.5, 12.5, 2000), rng.exponential(20, 2000)
    for numbers, planned in ((normal, expected.value), (exponential, skewed)):
        users = SCHEMA.users({"spend": numbers, "arm": arms})
        stated = [run_in_memory(strategy, users, s, 6000).result.std_error for s in range(30)]
        assert np.median(stated) / 100 == pytest.approx(planned, rel=0.2)


# --------------------------------------------------------------------- result, refusals


def test_a_result_tells_what_was_found_and_what_would_have_been():
    result = DifferenceResult(
        column="spend",
        by="arm",
        arms=["old", "new"],
        means=np.array([30.0, 33.0]),
        std_errors=np.array([0.6, 0.8]),
        difference=3.0,
        std_error=1.0,
        window=np.array([0.0, 100.0]),
    )
    assert result.p_value == pytest.approx(2 * norm.sf(3))
    power = norm.sf(1.959964 - result.detectable) + norm.cdf(-1.959964 - result.detectable)
    assert power == pytest.approx(0.8, abs=1e-5)
    assert "spend, new less old: 3.0 ± 1.0 (95 % from 1.0 to 5.0, p = 0.0027)" in str(result)
    assert "a difference of 2.8 is detected by 80% of such studies" in str(result)
    assert result.table()["value"].tolist() == [3.0, 30.0, 33.0]


def test_arms_without_numbers_have_no_difference():
    users = SCHEMA.users({"spend": [None] * 4000, "arm": ["old", "new"] * 2000})
    result = simulate(Difference(SCHEMA, "spend", by="arm", epsilon=4.0), users, seed=0)
    assert math.isnan(result.difference) and math.isnan(result.p_value)
    assert result.notes[0].startswith(
        "The share of users in old, new of 'arm' with a number in 'spend' is not clearly above 0"
    )
    assert "not estimated" in str(result) and "<svg" in result.to_html()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "spend"}, "by to be a column of categories"),
        ({"column": "arm"}, "columns of numbers, got 'arm', one of categories. For a rate"),
        ({"schema": Schema({"spend": Numeric(0, 1), "arm": Categories([*"abc"])})}, "two arms"),
        ({"allocation": 1.0, "assigned": True}, "0 < allocation < 1, got 1.0"),
        ({"allocation": 0.3}, "allocation"),
        ({"noise": "node", "assigned": True}, "assigned=False with noise='node', got True"),
        ({"noise": "node", "window": False}, "window"),
    ],
)
def test_bad_arguments_are_refused_at_once(options, words):
    given = {"schema": SCHEMA, "column": "spend", "by": "arm", "epsilon": 1.0, **options}
    with pytest.raises(ValueError, match=words):
        Difference(given.pop("schema"), given.pop("column"), **given)
