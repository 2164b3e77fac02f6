"""PrivateRegression with public features: what leaves, how good it is, what its intervals hold."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema, Users, simulate
from ldp_flower.audit import recorded_queries
from ldp_flower.clients.arithmetic import chosen
from ldp_flower.clients.statistics import compute, public_block
from ldp_flower.planning import Setting, expectation
from ldp_flower.questions import DrawnLabels
from ldp_flower.strategies import PrivateRegression, TooFewReports

COLUMNS = {
    "age": Numeric(0, 100),
    "pay": Numeric(0, 80),
    "sector": Categories(["a", "b", "c"]),
}
SCHEMA = Schema(COLUMNS, target="y", bounds=Numeric(-40, 100))


def table(num_users, seed, rows=3, late=0.0):
    """Return rows with lognormal noise; least squares explains half. ``late`` shifts later rows."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(num_users), rows)
    age, pay = rng.uniform(20, 80, len(who)), np.clip(rng.normal(40, 12, len(who)), 0, 80)
    sector = rng.choice(["a", "b", "c"], len(who), p=[0.6, 0.3, 0.1])
    noise = np.exp(rng.normal(0, 0.9, len(who)))
    y = 0.25 * (age - 50) + 0.2 * (pay - 40) + 5 * (sector == "c") + 3 * noise
    y += late * (np.arange(len(who)) % rows > 0)
    return pd.DataFrame({"who": who, "age": age, "pay": pay, "sector": sector, "y": y})


def fitted(frame, seed=0, epsilon=1.0, **options):
    strategy = PrivateRegression(SCHEMA, epsilon=epsilon, features="public")
    return simulate(strategy, SCHEMA.users(frame, groups="who"), seed=seed, **options)


def r2(fit, frame):
    y = frame["y"].to_numpy()
    return 1 - np.mean((y - fit.predict(frame)) ** 2) / np.var(y)


TEST = table(20_000, 99, 1)
#: By least squares: of the constant, a year and a unit of pay, and sectors beside the average one.
X = np.column_stack([TEST["age"] - 50, TEST["pay"] - 40, *(TEST["sector"] == s for s in "abc")])
BEST = np.linalg.lstsq(X.astype(float), TEST["y"].to_numpy(), rcond=None)[0]
SLOPES = np.concatenate([BEST[:2], BEST[2:] - BEST[2:].mean()])
LEAST_SQUARES = 1 - np.mean((TEST["y"] - X @ BEST) ** 2) / np.var(TEST["y"])


def test_few_users_reach_what_least_squares_does():
    """Where features are private so few are refused. The worst of ten other seeds had .84."""
    frame = table(4000, 0)
    assert r2(fitted(frame), TEST) > 0.75 * LEAST_SQUARES
    assert r2(fitted(frame, epsilon=4.0), TEST) > 0.9 * LEAST_SQUARES
    with pytest.raises(TooFewReports, match="4,615 users"):
        simulate(PrivateRegression(SCHEMA, epsilon=1.0), SCHEMA.users(frame, groups="who"), seed=0)


@pytest.mark.slow
def test_intervals_hold_the_slopes_of_least_squares():
    """Of 100 intervals of 95 % fewer than 88 hold with probability .0015, and narrow ones would."""
    held, widths = [], []
    for seed in range(20):
        found = fitted(table(6000, 200 + seed), seed, 2.0)
        low, high = found.table()[["95 % from", "95 % to"]].to_numpy()[1:].T
        held.append((low <= SLOPES) & (high >= SLOPES))
        widths.append(high - low)
    assert np.sum(held) >= 88
    assert np.median(widths, axis=0)[0] < 0.25  # of a slope of .25 a year


def test_a_slope_that_rows_do_not_tell_is_not_a_number():
    frame = table(3000, 1)
    frame["pay"] = 40.0
    found = fitted(frame, epsilon=4.0)
    pay = found.table().set_index("name").loc["pay"]
    assert np.isnan(pay["95 % from"]) and np.isfinite(found.interval).sum() == 10
    assert found.from_dict(found.to_dict()).table().equals(found.table())


def test_any_row_of_a_user_is_drawn_not_the_first():
    """First rows lie 12 lower than others: their mean would be 8 too low."""
    found = fitted(table(4000, 2, late=12.0), epsilon=4.0)
    frame = table(4000, 2, late=12.0)
    assert abs(found.predict(frame).mean() - frame["y"].mean()) < 2


def test_the_row_that_leaves_is_the_one_whose_target_is_reported():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((900, 4))
    users = Users.from_rows(rows, rows @ [1.0, 2.0, 3.0, 4.0], np.repeat(np.arange(300), 3))
    question, words = DrawnLabels(1, 99.0), rng.integers(1 << 64, size=300, dtype=np.uint64)
    kept = chosen(users, question, words)
    block, value = public_block(kept, question)[:, 0], compute(kept, question, words)[:, 0]
    np.testing.assert_allclose(block @ [1.0, 2.0, 3.0, 4.0], value, rtol=1e-5)
    firsts = np.isclose(block[:, 0], rows[::3, 0]).sum()
    assert 70 < firsts < 130  # one in three, within 3.7 standard deviations


def test_what_leaves_by_the_wire_is_drawn_alike():
    """Reports of nodes, which draw by words of their own, follow the rows that go with them."""
    frame = table(3000, 3)
    one = fitted(frame, seed=1, epsilon=8.0)
    other = fitted(frame, seed=1, epsilon=8.0, num_nodes=7)
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9)
    assert r2(one, TEST) > 0.95 * LEAST_SQUARES


def test_nobody_pays_where_features_are_not_public():
    with pytest.raises(RuntimeError, match="has not declared the features public"):
        fitted(table(4000, 0), policy=PrivacyPolicy(1.0))
    *_, public = PrivateRegression.audit_runs(3, 2.0)
    assert recorded_queries(*public)[0].question.features_public


def test_a_result_says_that_features_were_not_protected():
    found = fitted(table(4000, 0))
    assert "labels only" in str(found) and "labels only" in found.to_html()


def test_arguments_of_private_features_are_refused():
    for name, value in {"method": "one-stage", "rows_per_user": 3}.items():
        with pytest.raises(ValueError, match=f'no {name} with features="public"'):
            PrivateRegression(SCHEMA, epsilon=1.0, features="public", **{name: value})
    with pytest.raises(ValueError, match="features"):
        PrivateRegression(SCHEMA, epsilon=1.0, features="shown")


def test_missing_targets_and_users_without_rows_change_no_slope():
    frame = table(15_000, 4)
    rng = np.random.default_rng(0)
    frame.loc[rng.random(len(frame)) < 0.3, "y"] = np.nan
    found = fitted(frame, epsilon=4.0)
    assert r2(found, TEST) > 0.85 * LEAST_SQUARES
    assert any("no row with a target" in note for note in found.notes)


@pytest.mark.slow
def test_a_plan_is_of_the_protocol():
    setting = Setting(num_users=3000, num_features=10)
    private = PrivateRegression.planned_for(setting, 2.0)
    public = PrivateRegression(private.schema, epsilon=2.0, features="public")
    few, many = (expectation(each, setting, 6) for each in (public, private))
    assert few.value < 0.6 * many.value and few.rounds < many.rounds
    large = expectation(public, Setting(num_users=10**7, num_features=10), 2)
    assert large.value < few.value
