"""Memoised series: levels and changes with errors that hold, and what is refused."""

import json
import math

import numpy as np
import pytest

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import (
    Counts,
    Means,
    Quantiles,
    Series,
    SeriesResult,
    TooFewReports,
)

KINDS = [*"abcde"]
SCHEMA = Schema({"x": Numeric(0, 10), "y": Numeric(-1, 1), "kind": Categories(KINDS)})
MEANS = Means(SCHEMA, ["x", "y"], epsilon=4.0)
COUNTS = Counts(SCHEMA, "kind", epsilon=4.0)
USERS, WEEKS = 3000, 4


def population(seed, weeks=WEEKS, missing=0.2):
    """Return the tables of some weeks, in which 5 % of the users change, and some have no entry."""
    rng = np.random.default_rng([17, seed])
    x, y = 10 * rng.beta(2, 5, USERS), rng.uniform(-1, 0.5, USERS)
    kind = rng.choice(KINDS, USERS, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    none = rng.random(USERS) < missing
    tables = []
    for _ in range(weeks):
        change = rng.random(USERS) < 0.05
        x = np.where(change, np.clip(x + rng.normal(0.5, 1, USERS), 0, 10), x)
        y = np.where(change, np.clip(y + rng.normal(0.1, 0.3, USERS), -1, 1), y)
        kind = np.where(change, rng.choice(KINDS, USERS), kind)
        table = {"x": np.where(none, np.nan, x), "y": y, "kind": kind.astype(object)}
        table["kind"][none] = None
        tables.append(table)
    return tables


def truth(strategy, table):
    if strategy is MEANS:
        return np.array([np.nanmean(table["x"]), np.nanmean(table["y"])])
    held = [kind for kind in table["kind"] if kind is not None]
    return np.array([np.mean([kind == each for kind in held]) for each in KINDS])


def collected(strategy, tables, seed):
    series = Series(strategy, collections=WEEKS, memoised=True)
    for table in tables:
        result = simulate(series, SCHEMA.users(table), seed=seed)
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [pytest.param(MEANS, marks=pytest.mark.slow), COUNTS],
    ids=["Means", "Counts"],
)
def test_levels_and_changes_have_errors_of_their_own(strategy):
    """25 runs: squared errors in units of the stated ones have the mean 1, up to 5 standard errors.

    Of all numbers of a run together, which are alike: so 25 independent squares, at least, of
    standard error sqrt(2 / 25) = .28. Levels are about these very users and their errors about
    a population: somewhat smaller.
    """
    levels, changes = [], []
    for seed in range(25):
        tables = population(seed)
        result = collected(strategy, tables, seed)
        true = np.array([truth(strategy, table) for table in tables])
        levels.append((((result.level - true) / result.std_error) ** 2).mean())
        moved = (result.change - np.diff(true, axis=0, prepend=np.nan))[1:]
        changes.append(((moved / result.change_std_error[1:]) ** 2).mean())
    assert 0.3 < np.mean(levels) < 1 + 5 * 0.28
    assert 0.3 < np.mean(changes) < 1 + 5 * 0.28
    # Noise that is permanent cancels: some 5 % of the answers change in a week.
    ratio = result.change_std_error[1:] / result.std_error[1:]
    assert (ratio < 0.55).all()


@pytest.mark.slow
def test_users_without_an_entry_do_not_weigh_on_a_mean():
    for missing in (0.0, 0.5):
        off = []
        for seed in range(20):
            tables = population(seed, 2, missing)
            result = collected(MEANS, tables, seed)
            off.append(
                (result.level[-1, 0] - truth(MEANS, tables[-1])[0]) / result.std_error[-1, 0]
            )
        assert abs(np.mean(off)) < 5 / math.sqrt(20)


def test_nothing_changes_where_nobody_does():
    table = population(1, 1)[0]
    result = collected(COUNTS, [table] * 3, 5)
    assert (result.level == result.level[0]).all()
    assert (result.change[1:] == 0).all() and (result.change_std_error[1:] == 0).all()
    assert np.isnan(result.change[0]).all() and np.isinf(result.change_std_error[0]).all()


def test_changes_are_about_users_who_answered_twice():
    first, second = population(2, 2)
    few = {name: column[: USERS // 2] for name, column in second.items()}
    result = collected(MEANS, [first, few], 5)
    assert result.reports.tolist() == [USERS, USERS // 2]
    whole = {name: column[: USERS // 2] for name, column in first.items()}
    moved = truth(MEANS, few) - truth(MEANS, whole)
    assert (np.abs(result.change[1] - moved) < 5 * result.change_std_error[1] + 1e-12).all()


def test_a_week_that_is_left_out_and_a_store(tmp_path):
    tables = population(3)

    def started(series, number, table):
        users = SCHEMA.users(table)
        grid = InProcessGrid(LdpClientApp(lambda context, users=users: users, seed=1), 1)
        return series.start(grid, num_nodes=1, timeout=0.0, seed=1, collection=number)

    whole = Series(COUNTS, collections=6, memoised=True)
    for number, asked in ((1, 1), (4, 2)):
        series = Series(COUNTS, collections=6, memoised=True, store=tmp_path / "series.db")
        result = started(series, number, tables[number - 1])
        expected = started(whole, asked, tables[number - 1])
    assert np.isnan(result.change[1:3]).all() and np.isnan(result.level[1:3]).all()
    np.testing.assert_array_equal(result.level[[0, 3]], expected.level)
    np.testing.assert_array_equal(result.change[3], expected.change[1])
    for other in ({"memoised": False}, {"collections": 7}):
        with pytest.raises(ValueError, match="Expected a store of"):
            arguments = {"collections": 6, "memoised": True, **other}
            started = Series(COUNTS, store=tmp_path / "series.db", **arguments)
            simulate(started, SCHEMA.users(tables[0]), seed=1)


def test_a_result_says_what_is_public_and_is_read_back():
    result = collected(COUNTS, population(4, 2), 1)
    assert "The times at which a user's answer changes are public." in repr(result)
    assert {"change", "change error"} < set(result.table().columns)
    plain = json.dumps(result.to_dict())
    assert json.dumps(SeriesResult.from_dict(json.loads(plain)).to_dict()) == plain
    assert result.privacy.epsilon == 4.0
    panels = Series(COUNTS, collections=2)
    for _ in range(2):
        shown = simulate(panels, SCHEMA.users(population(4, 1)[0]), seed=1)
    assert shown.change is None and "change" not in shown.table().columns


@pytest.mark.parametrize(
    "strategy",
    [
        Quantiles(SCHEMA, "x", [0.5], epsilon=4.0),
        Means(SCHEMA, "x", by="kind", epsilon=4.0),
    ],
    ids=["Quantiles", "groups"],
)
def test_only_what_is_one_bit_is_memoised(strategy):
    with pytest.raises(ValueError, match="Expected memoised Counts, or Means without by, got"):
        Series(strategy, collections=3, memoised=True)
    with pytest.raises(ValueError, match="Expected memoised true or false, got 1"):
        Series(strategy, collections=3, memoised=1)


def test_too_few_users_are_refused_before_anybody_is_asked():
    series = Series(Counts(SCHEMA, "kind", epsilon=0.5), collections=3, memoised=True)
    users = SCHEMA.users({name: column[:500] for name, column in population(5, 1)[0].items()})
    with pytest.raises(TooFewReports) as refused:
        simulate(series, users, seed=1)
    needed = refused.value.needed
    assert series.refusal(needed) is None is not series.refusal(needed - 1)
    assert needed == pytest.approx((1 / math.tanh(0.25) / 0.1) ** 2, rel=0.01)
