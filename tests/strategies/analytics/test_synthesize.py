"""Synthesize: rows go together as the users' do, and the result says how far they are off."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from ldp_flower import Categories, Numeric, Schema, simulate
from ldp_flower.strategies import Result, Synthesize, TooFewReports
from ldp_flower.strategies.numerics.normal_scale import quantiles

SCHEMA = Schema(
    {"age": Numeric(18, 90), "job": Categories(["office", "shop", 3])}, "wage", Numeric(0, 80)
)


def people(number, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, number)
    job = rng.choice(np.array(["office", "shop", 3], dtype=object), number, p=[0.6, 0.3, 0.1])
    wage = np.clip(8 + 0.4 * age + 9 * (job == "office") + rng.normal(0, 4, number), 0, 80)
    return pd.DataFrame({"age": age, "job": job, "wage": wage})


def design(frame):
    return np.column_stack([frame["age"], frame["job"] == "office"]).astype(float)


def score(rows, frame):
    model = LinearRegression().fit(design(rows), rows["wage"])
    return model.score(design(frame), frame["wage"])


def distance(result, frame):
    """Return the mean total variation of all pairs of columns in the result's cells."""
    codes = []
    for name, scale, measured in zip(result.columns, result.scales, result.measured, strict=True):
        kind, size = SCHEMA.kind(name), len(measured)
        if isinstance(kind, Categories):
            codes.append(kind.coded(frame[name]).astype(int))
        else:
            inner = quantiles(scale, np.linspace(0, 1, size + 1)[1:-1])
            codes.append(np.searchsorted(inner, frame[name]))
    off = []
    for one, other in combinations(range(len(codes)), 2):
        shares = result.mixture.two_way(one, other)
        flat = codes[one] * shares.shape[1] + codes[other]
        counts = np.bincount(flat, minlength=shares.size) / len(frame)
        off.append(np.abs(shares.ravel() - counts).sum() / 2)
    return float(np.mean(off))


@pytest.mark.parametrize(
    ("noise", "number", "epsilon"),
    [("user", 20_000, 3.0), ("node", 6000, 1.0), ("shared", 4000, 1.0)],
)
def test_a_model_of_the_rows_fits_the_users(noise, number, epsilon):
    frame = people(number)
    strategy = Synthesize(SCHEMA, epsilon=epsilon, noise=noise)
    result = simulate(strategy, SCHEMA.users(frame), seed=0, num_nodes=5)
    rows = result.rows(10_000)
    assert score(rows, frame) > score(frame, frame) - 0.1
    assert result.two_way_interval[0] <= distance(result, frame) <= result.two_way_interval[1]
    assert set(rows["job"]) == {"office", "shop", 3}
    for name in ("age", "wage"):
        assert rows[name].between(SCHEMA.kind(name).low, SCHEMA.kind(name).high).all()
    assert result.privacy.epsilon == epsilon
    pd.testing.assert_frame_equal(result.rows(50, seed=3), result.rows(50, seed=3))
    assert not result.rows(50, seed=3).equals(result.rows(50, seed=4))


def test_users_without_an_entry_do_not_count_in_its_pairs():
    frame = people(8000)
    frame.loc[frame.index % 3 == 0, "wage"] = np.nan
    strategy = Synthesize(SCHEMA, epsilon=2.0, noise="node")
    result = simulate(strategy, SCHEMA.users(frame), seed=0, num_nodes=4)
    rows = result.rows(20_000)
    assert not rows.isna().any(axis=None)
    assert abs(rows["wage"].mean() - frame["wage"].mean()) < 2.5  # a fifth of the spread
    assert score(rows, frame.dropna()) > score(frame.dropna(), frame.dropna()) - 0.1


def test_all_categories_need_no_first_step():
    schema = Schema({name: Categories([0, 1]) for name in "abc"})
    table = {name: np.arange(4000) // place % 2 for place, name in enumerate("abc", 1)}
    result = simulate(
        Synthesize(schema, ["a", "c"], epsilon=1.0, noise="node"), schema.users(table), seed=0
    )
    assert [step.statistic for step in result.steps[1:]] == ["cell_shares"]
    assert list(result.rows(3)) == ["a", "c"]


def test_a_result_comes_back_from_json_and_has_a_page():
    users = SCHEMA.users(people(4000))
    result = simulate(Synthesize(SCHEMA, epsilon=2.0, noise="node"), users, seed=0)
    again = Result.from_dict(result.to_dict())
    pd.testing.assert_frame_equal(again.rows(20), result.rows(20))
    table = result.table()
    assert table.groupby("column")["synthetic"].sum().to_numpy() == pytest.approx([1, 1, 1])
    assert "not anonymous data" in result.to_html()


@pytest.mark.parametrize(("noise", "nodes"), [("user", 1), ("node", 1), ("node", 9)])
def test_too_few_users_are_refused_with_a_number_that_does(noise, nodes):
    strategy = Synthesize(SCHEMA, epsilon=1.0, noise=noise)
    few = strategy.refusal(300, num_nodes=nodes)
    assert few is not None and few.reason == "noise" and few.needed > 300
    assert strategy.refusal(few.needed - 1, num_nodes=nodes) is not None
    assert strategy.refusal(few.needed, num_nodes=nodes) is None
    with pytest.raises(TooFewReports, match="too few"):
        simulate(strategy, SCHEMA.users(people(300)), seed=0, num_nodes=nodes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["age"], "distinct columns, at least two"),
        (["age", "age"], "distinct columns, at least two"),
        ("age", "distinct columns, at least two"),
        (["age", "height"], "one of the columns"),
    ],
)
def test_columns_that_make_no_pair_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Synthesize(SCHEMA, columns, epsilon=1.0)


def test_pairs_with_too_many_cells_are_refused():
    many = Categories([str(i) for i in range(50)])
    with pytest.raises(ValueError, match="at most 2047 cells, got 2500"):
        Synthesize(Schema({"a": many, "b": many}), epsilon=1.0)


def test_the_print_says_how_numbers_are_drawn_and_how_far_means_are_off():
    """Means of rows are within the stated reach and five standard errors of a sample."""
    rng = np.random.default_rng(3)
    schema = Schema({"income": Numeric(0, 150_000), "spent": Numeric(0, 1000)})
    income, spends = rng.lognormal(10.4, 0.8, 10_000), rng.random(10_000) < 0.3
    frame = {"income": np.minimum(income, 150_000), "spent": spends * rng.uniform(0, 999, 10_000)}
    strategy = Synthesize(schema, epsilon=2.0, noise="node")
    result = simulate(strategy, schema.users(frame), seed=0, num_nodes=2)
    rows, shown = result.rows(20_000), str(result)
    for name, entries in frame.items():
        off = abs(rows[name].mean() - entries.mean())
        kind, by_chance = schema.kind(name), 5 * entries.std() * (1 / 20_000) ** 0.5
        assert off < result.mean_reach[name] + by_chance
        assert result.mean_reach[name] < (kind.high - kind.low) / 8
    assert "No row that is drawn misses an entry." in shown
    assert "may change the mean of a column by up to: income" in shown
    labels = Schema({"a": Categories([0, 1]), "b": Categories([0, 1])})
    users = labels.users({"a": spends, "b": income > 30_000})
    text = str(simulate(Synthesize(labels, epsilon=2.0, noise="node"), users, seed=0))
    assert "No row that" in text and "histogram" not in text
