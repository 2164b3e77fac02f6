"""Quantiles and distributions of groups: right for each group, at the user and at the node."""

import json
from functools import partial

import numpy as np
import pytest
from scipy import stats

from ldp_flower import Categories, Numeric, Schema, simulate
from ldp_flower.clients.statistics import compute
from ldp_flower.questions import CellShares, MessageError, TableCell
from ldp_flower.strategies import Distribution, Means, Quantiles, Result
from ldp_flower.strategies.analytics.column import NumericColumn
from ldp_flower.strategies.analytics.group_functions import GroupFunctions, adapted
from ldp_flower.strategies.analytics.groups import Groups, differ
from ldp_flower.strategies.runtime import TooFewReports

SCHEMA = Schema({"x": Numeric(0, 200), "sort": Categories([*"abc"]), "flag": Categories([0, 1])})
LAWS = {"a": stats.gamma(2, scale=15), "b": stats.norm(60, 10), "c": stats.uniform(0, 100)}
LEVELS = [0.25, 0.5, 0.75]


def table(people, seed, shares=(0.5, 0.3, 0.2)):
    rng = np.random.default_rng(seed)
    sort, x = rng.choice([*"abc"], people, p=shares), np.zeros(people)
    for name, law in LAWS.items():
        x[sort == name] = law.rvs((sort == name).sum(), random_state=rng)
    return {"x": np.clip(x, 0, 200), "sort": sort, "flag": rng.integers(0, 2, people)}


@pytest.mark.parametrize(
    ("options", "rank"),
    [({"epsilon": 4.0}, 0.05), ({"epsilon": 1.0, "noise": "node"}, 0.03)],
    ids=str,
)
def test_quantiles_of_groups_are_within_their_intervals(options, rank):
    """Of 36 intervals of 95 % more than 8 miss once in 10,000 times; their errors are small."""
    strategy = Quantiles(SCHEMA, "x", LEVELS, by="sort", **options)
    missed, off = 0, []
    for seed in range(4):
        result = simulate(strategy, SCHEMA.users(table(8000, seed)), seed=seed)
        shown = result.table()
        assert list(shown.columns[:3]) == ["sort", "quantile", "x"]
        true = np.array([LAWS[sort].ppf(level) for sort in "abc" for level in LEVELS])
        missed += ((true < result.lower) | (true > result.upper)).sum()
        own = zip(shown["sort"], result.levels, result.values, strict=True)
        off += [LAWS[sort].cdf(value) - level for sort, level, value in own]
    assert missed <= stats.binom.isf(1e-4, 36, 0.05)
    assert np.sqrt(np.mean(np.square(off))) < rank
    again = type(result).from_dict(json.loads(json.dumps(result.to_dict())))
    assert again.keys == result.keys == {"sort": np.repeat([*"abc"], 3).tolist()}
    assert "a median of x: " in str(result) and "<svg" in result.to_html()
    assert result.estimates().names[:2] == ["x a 25 %", "x a 50 %"]


@pytest.mark.parametrize("options", [{"epsilon": 4.0}, {"epsilon": 1.0, "noise": "node"}], ids=str)
def test_whole_numbers_of_groups_are_seen_as_such(options):
    """Functions rise at whole numbers only, and errors are those of a few cells."""
    rng = np.random.default_rng(0)
    chances = {"F": 0.3, "M": 0.6}
    schema = Schema({"weeks": Numeric(0, 6), "sex": Categories([*chances])})
    sex = rng.choice([*chances], 8000)
    users = schema.users({"weeks": rng.binomial(6, [chances[each] for each in sex]), "sex": sex})
    result = simulate(Distribution(schema, "weeks", by="sex", **options), users, seed=0)
    assert "result.of('F') is the distribution of a group" in str(result)
    median = simulate(Quantiles(schema, "weeks", [0.5], by="sex", **options), users, seed=0)
    assert median.step == 1.0 and median.values.tolist() == [2.0, 4.0]
    for name, chance in chances.items():
        own, true = result.of(name), stats.binom(6, chance)
        assert own.step == 1.0
        assert np.abs(own.cdf(np.arange(7)) - true.cdf(np.arange(7))).max() < 0.04
        assert (own.cdf(np.arange(7) + 0.4) == own.cdf(np.arange(7))).all()
        assert (own.quantile(LEVELS) == true.ppf(LEVELS)).all()


def test_a_group_with_a_single_multiple_within_the_bounds_runs():
    """No middle between two multiples is there to end a cell at."""
    column = NumericColumn.of(Schema({"x": Numeric(0.9, 1.2)}), "x")
    functions = GroupFunctions(SCHEMA, column, Groups.of(SCHEMA, "sort"), 1.0)
    even = np.linspace(*column.kind.ends, 5)
    np.testing.assert_allclose(functions._edges(even, np.ones(4), 4, 1.0), even)


def test_an_empty_group_has_no_quantiles_and_is_named():
    users = SCHEMA.users(table(8000, 0, (0.6, 0.4, 0.0)))
    result = simulate(Quantiles(SCHEMA, "x", [0.5], by="sort", epsilon=4.0), users, seed=0)
    assert np.isnan(result.values).tolist() == [False, False, True]
    assert result.notes[0].startswith("Groups of 'sort' that may be empty, so that nothing")
    assert "known of them: c." in result.notes[0]


@pytest.mark.parametrize(
    ("options", "far"),
    [({"epsilon": 4.0}, 0.08), ({"epsilon": 1.0, "noise": "node"}, 0.04)],
    ids=str,
)
def test_distributions_of_groups_are_within_their_bands(options, far):
    """Of 9 bands of 95 % more than 4 miss once in 30,000 times; errors are small."""
    missed, off = 0, []
    for seed in range(3):
        strategy = Distribution(SCHEMA, "x", by="sort", **options)
        result = simulate(strategy, SCHEMA.users(table(8000, seed + 10)), seed=seed)
        for name, law in LAWS.items():
            band = result.of(name).band()
            true, slack = law.cdf(band["x"].to_numpy()), 1e-6
            missed += ((true < band["lower"] - slack) | (true > band["upper"] + slack)).any()
            at = np.linspace(0, 200, 101)
            off.append(np.abs(result.of(name).cdf(at) - law.cdf(at)).max())
    assert missed <= stats.binom.isf(3e-5, 9, 0.05) and np.mean(off) < far
    shown = result.table()
    assert list(shown.columns[:3]) == ["sort", "quantile", "x"] and len(shown) == 27
    again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
    assert repr(again) == repr(result) and again.table().equals(shown)
    assert "a: quartiles of x" in str(result) and "<svg" in result.to_html()
    with pytest.raises(ValueError, match=r"group in \['a', 'b', 'c'\], got 'd'"):
        result.of("d")


def test_groups_by_two_columns_are_all_pairs():
    strategy = Quantiles(SCHEMA, "x", [0.5], by=["sort", "flag"], epsilon=2.0, noise="node")
    result = simulate(strategy, SCHEMA.users(table(8000, 0)), seed=0)
    assert result.keys == {"sort": [*"aabbcc"], "flag": ["0", "1"] * 3}
    true = np.array([LAWS[sort].ppf(0.5) for sort in "aabbcc"])
    assert ((result.lower <= true) & (true <= result.upper)).all()


@pytest.mark.parametrize(
    "make",
    [partial(Quantiles, SCHEMA, "x", [0.5]), partial(Distribution, SCHEMA, "x")],
    ids=["quantiles", "distribution"],
)
def test_too_small_groups_are_refused_before_anybody_is_asked(make):
    strategy = make(by="sort", epsilon=1.0)
    with pytest.raises(TooFewReports, match=r"1 / 3 of them .* Nobody has been") as few:
        simulate(strategy, SCHEMA.users(table(2000, 0)), seed=0)
    assert 2000 < few.value.needed < 20_000 and strategy.refusal(few.value.needed) is None


def test_a_cell_beside_a_category_is_that_of_the_drawn_rows_number():
    """The node counts the shares of both; a user without an entry is in the cell after all."""
    x = [10.0, 20.0, 20.1, 150.0, np.nan]
    users = SCHEMA.users({"x": x, "sort": [*"abcab"], "flag": [0] * 5})
    places = np.array([*SCHEMA.places("sort"), *SCHEMA.places("x")])
    edges = SCHEMA.kind("x").coded(np.array([[20.0, 100.0]]))
    question = TableCell(places, np.array([3.0]), edges=edges)
    assert question.num_cells == 9 and question.width(SCHEMA.num_features) == 1
    present = users.take(np.arange(4))
    assert compute(present, question).ravel().tolist() == [0, 3, 7, 2]
    shares = compute(present, CellShares(places, np.array([3.0]), edges))
    assert shares.argmax(axis=1).tolist() == [0, 3, 7, 2] and (shares.sum(axis=1) == 1).all()
    for wrong in (edges[:, ::-1], np.zeros(0), np.float64(1.0)):
        with pytest.raises(MessageError, match="edges"):
            TableCell(places, np.array([3.0]), edges=np.asarray(wrong))
    with pytest.raises(MessageError, match="or edges"):
        TableCell(places, np.array([3.0]), 2, -1.0, 1.0, edges=edges)


def test_edges_are_dense_where_entries_are_and_span_the_range():
    edges = adapted(np.linspace(0, 8, 9), np.array([0, 0, 1.0, 0, 0, 0, 0, 0]), 8)
    assert edges[0] == 0 and edges[-1] == 8 and (np.diff(edges) > 0).all()
    assert ((edges > 2) & (edges < 3)).sum() == 4
    np.testing.assert_allclose(adapted(np.linspace(0, 8, 9), np.zeros(8), 4), [0, 2, 4, 6, 8])


def test_means_that_noise_hides_are_said_to_be_hidden():
    """Bounds of 200 times the means hide the groups' differences; those of 4 times do not."""
    rng = np.random.default_rng(0)
    sort = rng.choice([*"ab"], 6000)
    table = {"sort": sort, "spend": np.where(sort == "a", 0.5, 1.5)}
    found = []
    for high in (200, 4):
        schema = Schema({"sort": Categories([*"ab"]), "spend": Numeric(0, high)})
        strategy = Means(schema, "spend", by="sort", epsilon=1.0)
        found.append(simulate(strategy, schema.users(table), seed=0))
    (note,) = found[0].notes
    most = found[0].std_error.max()
    assert note.startswith(
        "The means of 'spend' in the groups by 'sort' do not differ by more than"
    )
    assert f"0 to 200, are {200 / most:,.0f} times as wide: narrower bounds" in note
    assert not found[1].notes


def test_equal_means_seldom_differ():
    """At a level of 5 %; 5 standard errors."""
    rng = np.random.default_rng(0)
    errors = np.array([0.5, 1.0, 3.0])
    drawn = rng.normal(size=(2000, 3)) * errors
    found = np.mean([differ(means, errors) for means in drawn])
    assert abs(found - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 2000)
    assert differ(np.array([0.0, 0.0, 12.0]), errors)
