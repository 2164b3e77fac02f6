"""Series: who is asked when, what is kept, and what comes out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.messages import NodeKeys, Query
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    HeavyHitters,
    Means,
    PrivateEvaluation,
    Quantiles,
    Series,
    SeriesResult,
    TooFewReports,
    TwoWay,
)

SCHEMA = Schema(
    {"x": Numeric(0, 1), "sort": Categories([*"abc"]), "kind": Categories([*"kl"])},
    *("y", Numeric(-1, 1)),
)
MEANS = Means(SCHEMA, "x", epsilon=4.0)


def people(number, shift=0.0, first=0):
    rng = np.random.default_rng(first)
    x = rng.beta(2, 5, number) + shift
    return SCHEMA.users(
        {
            "x": x,
            "sort": rng.choice([*"abc"], number, p=[0.6, 0.3, 0.1]),
            "kind": rng.choice([*"kl"], number),
            "y": np.clip(x - 0.3 + rng.normal(0, 0.1, number), -1, 1),
        }
    )


class Watching(InProcessGrid):
    """A grid of nodes of one user table each, that keeps who is asked.

    ``tables`` has the users of each node; a node that is away is not among ``online``.
    """

    def __init__(self, tables, online=None, seed=1, fails_at=None):
        def load(context):
            return replace(tables[context.node_id], first=None)

        super().__init__(LdpClientApp(load, seed=seed), max(tables))
        self.online = sorted(tables if online is None else online)
        self.asked, self.sizes, self.fails_at = (
            set(),
            {n: len(t) for n, t in tables.items()},
            fails_at,
        )

    def get_node_ids(self):
        return self.online

    def _handle(self, message):
        node = message.metadata.dst_node_id
        assert node in self.online
        if message.metadata.message_type == "query.report":
            if self.fails_at is not None and len(self.asked) >= self.fails_at:
                raise KeyboardInterrupt
            query = Query.from_record_dict(message.content)
            keys = NodeKeys(node, 0, self.sizes[node])
            slots = keys.addressed(query.salt, query.low, query.high)
            assert not self.asked & {(node, int(slot)) for slot in slots}
            self.asked |= {(node, int(slot)) for slot in slots}
        return super()._handle(message)


def started(series, grid, **arguments):
    return series.start(grid, num_nodes=len(grid.online), timeout=0.0, **{"seed": 3, **arguments})


def test_every_user_is_asked_in_one_collection_whoever_comes_and_goes():
    series = Series(Means(SCHEMA, "x", epsilon=4.0, min_reports=1), collections=4)
    tables = {1: people(300), 2: people(200)}
    asked, joined = [], []
    for week in range(4):
        if week == 1:  # a node is new, and another one grows
            tables |= {3: people(150), 1: people(400)}
        online = {0: [1, 2], 1: [1, 2, 3], 2: [1, 3], 3: [1, 2, 3]}[week]  # one is away once
        grid = Watching(tables, online)
        result = started(series, grid)
        asked.append(grid.asked)
        joined.append(sum(len(tables[node]) for node in online))
    assert result.users.tolist() == joined
    assert result.asked.tolist() == result.reports.tolist() == [len(each) for each in asked]
    everyone = set().union(*asked)
    assert sum(len(each) for each in asked) == len(everyone)
    # Those who were there all the time are all asked; others are where their panels are left.
    assert everyone >= {(1, slot) for slot in range(300)}
    # 1 / 4 of each week's census: within 4 standard deviations.
    for each, users in zip(asked, joined, strict=True):
        assert abs(len(each) - users / 4) < 4 * np.sqrt(users * 3 / 16)


def test_panels_depend_on_public_hashes_only():
    panels = []
    for tables in ({1: people(400)}, {1: people(400, 5.0, 9), 2: people(100)}):
        series = Series(MEANS, collections=3)
        grids = [Watching(tables, seed=seed) for seed in range(3)]
        for grid in grids:
            started(series, grid)
        panels.append([{slot for node, slot in grid.asked if node == 1} for grid in grids])
    assert panels[0] == panels[1]
    other = Series(MEANS, collections=3)
    grid = Watching({1: people(400)})
    started(other, grid, seed=4)
    assert grid.asked != {(1, slot) for slot in panels[0][0]}


def test_a_collection_that_is_asked_twice_is_one():
    series = Series(MEANS, collections=3)
    first = started(series, Watching({1: people(300)}), collection=1)
    again = Watching({1: people(300)})
    second = started(series, again, collection=1)
    assert not again.asked and repr(first) == repr(second) == repr(series.result())
    assert len(started(series, Watching({1: people(300)})).level) == 2


def plain(result):
    return json.dumps(result.to_dict())


def test_a_store_goes_on_where_it_was_stopped(tmp_path):
    tables = {node: people(100, first=node) for node in range(1, 6)}
    whole = [started(s, Watching(tables)) for s in [Series(MEANS, collections=3)] * 3]
    path = tmp_path / "series.db"
    for expected in whole:
        with pytest.raises(KeyboardInterrupt):
            started(Series(MEANS, collections=3, store=path), Watching(tables, fails_at=50))
        # Another process: reports that have arrived are kept, and only the others are asked.
        found = started(Series(MEANS, collections=3, store=path), Watching(tables))
        assert plain(found) == plain(expected)
    with pytest.raises(ValueError, match="all are over"):
        started(Series(MEANS, collections=3, store=path), Watching(tables))
    assert plain(Series(MEANS, collections=3, store=path).result()) == plain(whole[-1])


def test_a_store_is_of_one_series(tmp_path):
    path, tables = tmp_path / "series.db", {1: people(300)}
    started(Series(MEANS, collections=3, store=path), Watching(tables))
    for other in (
        Series(MEANS, collections=4, store=path),
        Series(Means(SCHEMA, "x", epsilon=3.0), collections=3, store=path),
        Series(Counts(SCHEMA, "sort", epsilon=4.0), collections=3, store=path),
    ):
        with pytest.raises(ValueError, match="Expected a store of"):
            started(other, Watching(tables))
    with pytest.raises(ValueError, match="Expected the seed of the first collection, got 4"):
        started(Series(MEANS, collections=3, store=path), Watching(tables), seed=4)
    with pytest.raises(ValueError, match="as an argument of Series"):
        started(Series(MEANS, collections=3), Watching(tables), store=path)


def test_a_collection_may_be_left_out_and_is_over_then():
    series = Series(MEANS, collections=5)
    with pytest.raises(ValueError, match="Expected a complete collection, got none"):
        series.result()
    started(series, Watching({1: people(600)}))
    result = started(series, Watching({1: people(600)}), collection=3)
    assert np.isnan(result.raw[1]).all() and np.isfinite(result.level).all()
    assert result.reports[1] == 0 and result.std_error[1] > result.std_error[0]
    with pytest.raises(ValueError, match="Expected a collection from 3 on, got 2"):
        started(series, Watching({1: people(600)}), collection=2)
    with pytest.raises(ValueError, match="1 <= collection <= 5, got 6"):
        started(series, Watching({1: people(600)}), collection=6)


def test_a_level_without_an_estimate_is_noted():
    """An R2 of targets that no longer vary."""
    model = np.linspace(-0.5, 0.5, SCHEMA.num_features)
    series = Series(PrivateEvaluation(model, epsilon=4.0), collections=3)
    far = replace(people(3000), targets=np.resize([-2.0, 2.0], 3000))
    tables = [far, replace(far, targets=np.zeros(3000)), far]
    results = [simulate(series, users, seed=2) for users in tables]
    noted = [any("found no estimate of R2" in note for note in each.notes) for each in results]
    assert noted == [False, True, False]
    assert [np.isnan(each.raw[-1, 0]) for each in results] == noted


def test_a_series_is_asked_by_its_own_start():
    series, grid = Series(MEANS, collections=2), Watching({1: people(3000)})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a call of Series"), series.opened(grid):
            pass
        started(series, grid)


def test_too_few_users_are_refused_before_anybody_is_asked():
    series = Series(MEANS, collections=20)
    grid = Watching({1: people(300)})
    with pytest.raises(TooFewReports) as refused:
        started(series, grid)
    assert not grid.asked
    needed = refused.value.needed
    assert series.refusal(needed) is None is not series.refusal(needed - 1)
    started(series, Watching({1: people(needed)}))


def test_a_later_panel_that_is_too_small_is_refused_alone():
    series = Series(MEANS, collections=3)
    started(series, Watching({1: people(300)}))
    with pytest.raises(TooFewReports, match="users are needed"):
        started(series, Watching({1: people(40)}))
    result = started(series, Watching({1: people(260)}), collection=3)
    assert len(result.level) == 3
    assert "The census fell by 13% since collection 1" in result.notes[-1]


STRATEGIES = [
    MEANS,
    Means(SCHEMA, ["x", "y"], by="kind", epsilon=4.0),
    Counts(SCHEMA, "sort", epsilon=4.0),
    TwoWay(SCHEMA, "sort", "kind", epsilon=4.0),
    TwoWay(SCHEMA, "x", "kind", cells=3, epsilon=4.0),
    Quantiles(SCHEMA, "x", [0.25, 0.5], epsilon=4.0),
    PrivateEvaluation(np.linspace(-0.5, 0.5, SCHEMA.num_features), bound=1.0, epsilon=4.0),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: type(each).__name__)
def test_every_strategy_with_estimates_has_a_series(strategy):
    series = Series(strategy, collections=2)
    users = people(4000)
    alone = simulate(strategy, users, seed=2).estimates()
    for _ in range(2):
        result = simulate(series, users, seed=2)
    assert result.names == alone.names and result.level.shape == (2, len(alone.names))
    # The same users all the time: 5 standard errors of a difference, and of an error's own noise.
    known = np.isfinite(result.std_error[-1])
    assert known.all()
    off = np.abs(result.level[-1] - alone.values)
    assert (off < 5 * np.hypot(result.std_error[-1], alone.std_errors) + 1e-9).all()
    assert result.privacy.epsilon == strategy.epsilon and 3990 <= result.num_reports <= 4000
    assert result.strategy == f"Series of {type(strategy).__name__}"


def test_a_result_is_shown_and_read_back():
    series = Series(Counts(SCHEMA, "sort", epsilon=4.0), collections=4)
    for week in range(3):
        result = simulate(series, people(900), seed=1)
        assert len(result.table()) == 3 * (week + 1)
    again = SeriesResult.from_dict(json.loads(plain(result)))
    assert plain(again) == plain(result)
    assert result.table()["reports"].sum() == 3 * result.num_reports
    assert "collection 3 of 4, over 900 users" in repr(result)
    panels = result.plot().child_axes
    assert len(panels) == 4 and len(panels[-1].patches) == 3
    page = result.to_html()
    assert "Series of Counts" in page and "known then" in page


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"strategy": Describe(SCHEMA)}, "Expected a strategy with estimates .* got Describe"),
        ({"strategy": Distribution(SCHEMA, "x", epsilon=4.0)}, "got Distribution"),
        ({"strategy": HeavyHitters(8, epsilon=1.0)}, "got HeavyHitters"),
        ({"strategy": Means}, "Expected strategy to be an LdpStrategy, got ABCMeta"),
        ({"collections": 1}, "2 <= collections <= 1000, got 1"),
        ({"collections": 1001}, "collections"),
        ({"store": 5}, "Expected store to be a path, got 5"),
    ],
)
def test_arguments_are_checked(arguments, expected):
    given = {"strategy": MEANS, "collections": 3, **arguments}
    with pytest.raises(ValueError, match=expected):
        Series(given.pop("strategy"), **given)


def test_a_season_is_taken_off_the_levels_and_given_back():
    """Seven days of which two have half of the others' mean, for four weeks."""
    schema = Schema({"x": Numeric(0, 1)})
    series, plain_one = (
        Series(Means(schema, "x", epsilon=8.0), collections=28, season=season)
        for season in (7, None)
    )
    rng = np.random.default_rng(2)
    truth = np.where(np.arange(28) % 7 < 5, 0.6, 0.3)
    for day in range(28):
        users = schema.users({"x": np.clip(rng.normal(truth[day], 0.1, 6000), 0, 1)})
        found = simulate(series, users, seed=5)
        without = simulate(plain_one, users, seed=5)
    errors = [np.sqrt(np.mean((each.level[:, 0] - truth) ** 2)) for each in (found, without)]
    assert errors[0] < 0.8 * errors[1]
    assert np.mean(np.abs(found.level[:, 0] - truth) > 1.96 * found.std_error[:, 0]) < 0.2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"season": 1}, "season >= 2, got 1"),
        ({"season": 11}, "Expected collections >= 33 with a season of 11, got 30"),
        ({"season": 7, "memoised": True}, "Expected no season with memoised, .*got 7"),
    ],
)
def test_a_season_is_checked(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        Series(Means(SCHEMA, "x", epsilon=4.0), collections=30, **arguments)
