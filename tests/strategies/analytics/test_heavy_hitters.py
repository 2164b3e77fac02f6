"""Heavy hitters: what is found and what is not, counts against the truth, and resuming."""

import json
import re

import numpy as np
import pytest
from flwr.app import Context
from scipy.stats import binom, norm

from ldp_flower import (
    Categories,
    GeneratedUsers,
    InProcessGrid,
    PrivacyPolicy,
    Schema,
    Users,
    simulate,
)
from ldp_flower.clients import LdpClientApp
from ldp_flower.randomizers import (
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    PrefixExtending,
    SubsetSelection,
    TreeHist,
)
from ldp_flower.strategies import HeavyHitters
from ldp_flower.strategies.analytics.item_mechanism import choose_mechanism

ZIPF = 1 / np.arange(1, 1001) ** 1.5
ZIPF /= ZIPF.sum()


def zipf(num_users, seed=0):
    """Return items of [0, 1000), the small ones frequent: 38 %, 14 %, 8 %, 5 %, 4 %, ..."""
    return np.random.default_rng(seed).choice(1000, num_users, p=ZIPF)


# ---------------------------------------------------------------------------- utility


@pytest.mark.parametrize(
    ("domain_size", "arguments", "mechanism", "num_found"),
    [
        (1000, {}, OptimizedLocalHashing, 4),
        (1000, {"backend": "prefix"}, PrefixExtending, 4),
        (1 << 20, {}, PrefixExtending, 3),
        pytest.param(1 << 40, {}, PrefixExtending, 3, marks=pytest.mark.slow),
        (1000, {"backend": "tree"}, TreeHist, 1),
        (1000, {"set_size": 2}, SubsetSelection, 3),
    ],
)
def test_the_most_frequent_items_are_found(domain_size, arguments, mechanism, num_found):
    """At 20,000 users and epsilon 2, with counts within 5 standard errors of the truth.

    The last of the items asked for exceeds the cut-off by 2 standard errors or more. An
    item that nobody holds is among those found once in 100 runs.
    """
    items = zipf(20_000)
    strategy = HeavyHitters(domain_size, epsilon=2.0, **arguments)
    result = simulate(strategy, Users.from_items(items), seed=1, num_nodes=3)
    assert isinstance(strategy.randomizer(20_000), mechanism)
    assert set(range(num_found)) <= set(result.items.tolist()) <= set(items.tolist())
    truth = np.bincount(items)[result.items]
    assert (np.abs(result.counts - truth) < 5 * result.std_error).all()
    assert (np.diff(result.counts) <= 0).all() and (result.counts > result.cutoff).all()
    np.testing.assert_allclose(result.frequencies, result.counts / 20_000)
    assert result.privacy.epsilon == 2.0 and result.privacy.delta == 0 and result.privacy.exact
    assert result.num_reports == 20_000 and len(result.steps) == 2
    assert not result.notes


@pytest.mark.parametrize("domain_size", [1000, 1 << 24])
def test_the_answer_does_not_depend_on_how_users_are_spread(domain_size):
    users = Users.from_items(zipf(6000), np.arange(6000) // 2)
    one, seven = (
        simulate(HeavyHitters(domain_size, epsilon=4.0), users, seed=5, num_nodes=nodes)
        for nodes in (1, 7)
    )
    assert one.items.tolist() == seven.items.tolist() and len(one.items) >= 3
    np.testing.assert_allclose(one.counts, seven.counts, rtol=1e-12)
    np.testing.assert_allclose(one.std_error, seven.std_error, rtol=1e-9)


def test_users_may_be_generated():
    def generate(indices):
        return Users.from_items(indices % 3)

    users = GeneratedUsers(3000, 1, generate)
    result = simulate(HeavyHitters(50, epsilon=4.0), users, seed=0, num_nodes=2)
    assert sorted(result.items.tolist()) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("set_size", [1, 3])
def test_standard_errors_cover_the_truth(set_size):
    """Of all items, frequent ones and others, found or not: no selection.

    With 4 items in each of 50 runs at least 90 % of 200 scores lie within 2 but for
    once in 1,200 times, and their mean square lies in the interval but once in 1,600.
    """
    scores = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        shares = ZIPF[:60] / ZIPF[:60].sum()
        held = np.stack([rng.choice(60, 3, replace=False, p=shares) for _ in range(400)])
        held = held[:, [2, 1, 0, 0, 1, 0]]  # thrice, twice, once
        users = Users.from_items(held.ravel(), np.repeat(np.arange(400), 6))
        strategy = HeavyHitters(
            60, epsilon=2.0, set_size=set_size, item="most-frequent", false_alarm=0.5
        )
        result = simulate(strategy, users, seed=seed)
        mechanism = strategy.randomizer(400)
        truth = np.zeros(60)
        for row in held:
            truth[[row[2], row[1], row[0]][:set_size]] += 1
        for item in (0, 1, 7, 59):
            variance = 400 * mechanism.variance_at(truth[item] / 400)
            scores.append((result.all_counts[item] - truth[item]) / np.sqrt(variance))
        shares = np.clip(result.frequencies, 0, 1)
        expected = [np.sqrt(400 * mechanism.variance_at(share)) for share in shares]
        np.testing.assert_allclose(result.users_std_error, expected)
        drawn = 400 * shares * (1 - shares)
        np.testing.assert_allclose(result.std_error, np.sqrt(np.square(expected) + drawn))
    assert np.mean(np.abs(scores) < 2) > 0.9
    assert 0.7 < np.mean(np.square(scores)) < 1.36


@pytest.mark.parametrize(
    "arguments",
    [{}, pytest.param({"set_size": 3}, marks=pytest.mark.slow), {"backend": "prefix"}],
)
def test_false_alarms_are_as_rare_as_asked(arguments):
    """Items nobody holds appear in at most 20 % of 100 runs: 37 or more once in 10,000."""
    users = Users.from_items(np.zeros(400, np.int64))
    alarms = 0
    for seed in range(100):
        strategy = HeavyHitters(100, epsilon=1.0, false_alarm=0.2, **arguments)
        found = simulate(strategy, users, seed=seed).items
        alarms += bool((found != 0).any())
    assert alarms <= 36


@pytest.mark.slow
def test_the_false_discovery_rate_is_as_asked_and_finds_more():
    """.05 is stated of the share of wrong items; .1 is four standard errors of 60 runs above.

    At epsilon 1 the cut-off against any wrong item finds 3.8 of the 10 items in the mean, the
    other 5.6; the difference has a standard error of .15.
    """
    found, shares = np.zeros((2, 60)), np.zeros(60)
    for seed in range(60):
        items = np.random.default_rng([11, seed]).choice(10, 4000, p=np.arange(1, 11) / 55)
        users = Users.from_items(items)
        for row, cutoff in enumerate(("any", "fdr")):
            result = simulate(HeavyHitters(200, epsilon=1.0, cutoff=cutoff), users, seed=seed)
            found[row, seed] = np.sum(result.items < 10)
        shares[seed] = np.sum(result.items >= 10) / max(1, len(result.items))
    assert shares.mean() <= 0.1
    assert found[1].mean() > found[0].mean() + 0.5


def test_users_without_items_add_to_no_item():
    """Were they given random items, each of 4 items would gain 750 counts (30 errors)."""
    for set_size, seed in ((1, 0), (2, 1)):
        holders = Users.from_items(np.full(3000, 1))
        users = Users(
            holders.features, holders.targets, np.r_[np.zeros(3000, int), np.arange(3001)]
        )
        strategy = HeavyHitters(4, epsilon=4.0, set_size=set_size)
        result = simulate(strategy, users, seed=seed)
        assert result.items.tolist() == [1]
        assert np.abs(result.all_counts - [0, 3000, 0, 0]).max() < 5 * result.std_error[0]


@pytest.mark.parametrize("domain_size", [50, 1 << 30])
def test_bad_items_cost_their_users_only(domain_size, caplog):
    bad = [np.nan, np.inf, -np.inf, -3.0, 0.5, 1e300, 2.0**41]
    items = np.concatenate([np.full(3000, 7.0), np.repeat(bad, 100)])
    users = Users(items[:, None], np.zeros(len(items)), np.arange(len(items) + 1))
    result = simulate(HeavyHitters(domain_size, epsilon=4.0), users, seed=0)
    assert result.items.tolist() == [7] and result.num_reports == 3700
    assert abs(result.counts[0] - 3000) < 5 * result.std_error[0]
    assert all("hold no item of the domain" in record.message for record in caplog.records)
    assert sum(record.args[0] for record in caplog.records) == 700  # in the nodes' log alone


# ---------------------------------------------------------------------------- strings


def test_strings_are_named_again():
    names = ["JFK"] * 2000 + ["LGA"] * 1500 + ["EWR"] * 1000
    result = simulate(HeavyHitters(2**40, epsilon=4.0), Users.from_items(names), seed=2)
    found = result.named(["LGA", "JFK", "SFO"])
    assert list(found)[:2] == ["JFK", "LGA"] and list(found)[2].isdigit()
    assert found["JFK"] == result.counts[0]


def test_names_that_share_an_item_are_all_shown():
    users = Users.from_items(["a"] * 3000, num_bits=1)
    result = simulate(HeavyHitters(2, epsilon=4.0), users, seed=0)
    (name,) = result.named("abcdefgh")
    assert "a" in name.split(" or ") and len(name.split(" or ")) > 1
    odd = simulate(HeavyHitters(3, epsilon=4.0), users, seed=0)
    with pytest.raises(ValueError, match="Expected a power of two as domain_size, got 3"):
        odd.named(["a"])


# ------------------------------------------------------------------------- the result


def test_the_result_shows_what_was_found_and_fits_json():
    users = Users.from_items(zipf(20_000))
    result = simulate(HeavyHitters(1000, epsilon=4.0), users, seed=0)
    assert len(result.items) > 10
    lines = repr(result).splitlines()
    assert lines[0].startswith(f"{len(result.items)} of 1000 items above the cut-off of ")
    assert lines[1].startswith("  0: ") and lines[11] == f"  and {len(result.items) - 10} more"
    assert "coef" not in repr(result) and not hasattr(result, "coef")
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["items"] == result.items.tolist() and plain["privacy"]["epsilon"] == 4.0
    items, counts = result.arrays.to_numpy_ndarrays()
    np.testing.assert_array_equal(items, result.items)
    np.testing.assert_array_equal(counts, result.counts)


def test_the_distribution_is_closer_than_all_counts():
    """Hardly anybody holds most of the 1,000 items: thresholding removes their noise."""
    items = zipf(20_000)
    result = simulate(HeavyHitters(1000, epsilon=2.0), Users.from_items(items), seed=0)
    truth = np.bincount(items, minlength=1000) / 20_000
    sparse, dense = result.distribution, result.all_counts / 20_000
    assert np.flatnonzero(sparse).tolist() == sorted(result.items.tolist())
    for order in (1, 2):
        lost, noisy = (np.linalg.norm(e - truth, order) for e in (sparse, dense))
        assert lost < 0.5 * noisy
    huge = simulate(HeavyHitters(2**30, epsilon=2.0), Users.from_items(items[:500]), seed=0)
    assert huge.all_counts is None
    with pytest.raises(ValueError, match="Expected at most 1048576 items"):
        _ = huge.distribution


@pytest.mark.parametrize("domain_size", [1000, 1 << 30])
def test_noise_that_cannot_be_beaten_is_said(domain_size):
    result = simulate(HeavyHitters(domain_size, epsilon=0.5), Users.from_items(zipf(300)), seed=0)
    assert not len(result.items) and not len(result.counts)
    (note,) = result.notes
    assert "No item exceeds the noise: with 300 reports the standard error" in note
    assert "users or epsilon" in note and note in repr(result)


def test_where_a_frequent_item_would_be_seen_the_note_says_so():
    users = Users.from_items(np.arange(20_000) % 1000)
    (note,) = simulate(HeavyHitters(1000, epsilon=4.0), users, seed=0).notes
    assert note.endswith("An item that 5% of them hold would very likely be seen.")


@pytest.mark.parametrize(
    "mechanism", [OptimizedLocalHashing(2.0, 1000), SubsetSelection(2.0, 1000, 3)]
)
def test_the_advice_is_right(mechanism):
    """As many users as advised see the item with probability 95 % (a number of two digits)."""
    p, q = float(mechanism.own), float(mechanism.other)
    advice = HeavyHitters(1000, epsilon=2.0)._to_see(mechanism, 100)
    users = int(re.search(r"about (\d+) users", advice)[1])
    cut = binom.isf(0.01 / 1000, users, q)
    mean = users * (0.05 * p + 0.95 * q)
    spread = np.sqrt(users * (0.05 * p * (1 - p) + 0.95 * q * (1 - q)))
    assert norm.sf((cut + 0.5 - mean) / spread) == pytest.approx(0.95, abs=0.02)


# ------------------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("epsilon", "domain_size", "num_users", "kind"),
    [
        (4.0, 20, 1000, KRandomizedResponse),
        (1.0, 1000, 10**5, OptimizedLocalHashing),
        (0.5, 1 << 18, 10**6, HadamardResponse),
        (4.0, 1 << 18, 10**6, PrefixExtending),
        (8.0, 1 << 14, 10**6, KRandomizedResponse),
        (1.0, 1 << 40, 1000, PrefixExtending),
    ],
)
def test_the_mechanism_of_the_least_noise_that_can_be_read(epsilon, domain_size, num_users, kind):
    mechanism = choose_mechanism(epsilon, domain_size, num_users)
    assert type(mechanism) is kind and mechanism.report_bytes <= 64


def test_more_users_get_a_longer_ladder():
    few, many = (choose_mechanism(1.0, 1 << 40, users) for users in (1000, 10**7))
    assert len(few.lengths) < len(many.lengths)


# ------------------------------------------------------------------------- resuming


class Counting(InProcessGrid):
    """Hands over replies one at a time, and stops at the one it is told to."""

    def __init__(self, users, num_nodes, stop_at=None):
        def load(context: Context):
            return users.partition(int(context.node_config["partition-id"]), num_nodes)

        super().__init__(LdpClientApp(load, PrivacyPolicy(4.0), seed=1), num_nodes)
        self.stop_at = stop_at
        self.asked = []

    def push_messages(self, messages):
        self.queue = {message.metadata.dst_node_id: message for message in messages}
        for number, message in self.queue.items():
            message.metadata.__dict__["_message_id"] = f"{number}"
        return [f"{number}" for number in self.queue]

    def pull_messages(self, message_ids):
        message = self.queue[int(next(iter(message_ids)))]
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        if kind == "query.report":
            self.asked.append(node)
            if node == self.stop_at:
                raise InterruptedError
        return [self._handle(message)]


@pytest.mark.parametrize("domain_size", [20, 1 << 24])
def test_a_stopped_server_goes_on_and_nobody_is_asked_twice(domain_size, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the next reply is always there
    users = Users.from_items(zipf(3000) % 20)

    def start(grid, store=None):
        strategy = HeavyHitters(domain_size, epsilon=4.0)
        return strategy.start(grid, timeout=5, num_nodes=6, seed=3, store=store)

    whole = start(Counting(users, 6))
    grid = Counting(users, 6, stop_at=4)
    with pytest.raises(InterruptedError):
        start(grid, tmp_path / "run.db")
    grid.stop_at = None
    resumed = start(grid, tmp_path / "run.db")
    assert grid.asked == [1, 2, 3, 4, 4, 5, 6]
    again = start(grid, tmp_path / "run.db")
    assert grid.asked == [1, 2, 3, 4, 4, 5, 6]
    for result in (resumed, again):
        assert result.items.tolist() == whole.items.tolist() and len(whole.items) >= 3
        np.testing.assert_array_equal(result.counts, whole.counts)
        assert result.privacy.epsilon == 4.0


def test_counts_refer_to_those_who_answered():
    users = Users.from_items(np.zeros(3000, np.int64))

    class HalfSilent(InProcessGrid):
        def _handle(self, message):
            reply = super()._handle(message)
            dropped = message.metadata.message_type == "query.report" and (
                message.metadata.dst_node_id % 2
            )
            return None if dropped else reply

    def load(context):
        return users.partition(int(context.node_config["partition-id"]), 4)

    grid = HalfSilent(LdpClientApp(load, seed=1), 4)
    result = HeavyHitters(50, epsilon=4.0).start(grid, timeout=0.2, num_nodes=4)
    assert result.num_reports == 1500 and result.num_users == 3000
    assert abs(result.counts[0] - 1500) < 5 * result.std_error[0]
    assert abs(result.frequencies[0] - 1) < 5 * result.std_error[0] / 1500


# ------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "Expected 1e-06 <= epsilon <= 100, got 0.0"),
        ({"domain_size": 1}, "Expected an integer 2 <= domain_size <= 1099511627776, got 1"),
        ({"domain_size": 2**40 + 1}, "Expected an integer 2 <= domain_size <= 1099511627776"),
        ({"set_size": 0}, "Expected an integer 1 <= set_size <= 8, got 0"),
        ({"set_size": 9}, "Expected an integer 1 <= set_size <= 8, got 9"),
        ({"max_items": 0}, "Expected an integer 1 <= max_items <= 32768, got 0"),
        ({"cutoff": "bonferroni"}, "Expected cutoff in .*, got 'bonferroni'"),
        ({"cutoff": "fdr", "backend": "tree"}, "Expected direct counts .*cutoff='fdr', got"),
        ({"cutoff": "fdr", "domain_size": 1 << 21}, "Expected direct counts .*cutoff='fdr', got"),
        ({"false_alarm": 1.0}, "Expected 0 < false_alarm < 1, got 1.0"),
        ({"backend": "fast"}, "Expected backend in .*, got 'fast'"),
        ({"backend": "prefix", "set_size": 2}, "Expected set_size 1 with backend 'prefix', got 2"),
        ({"domain_size": 2**21, "backend": "direct"}, "Expected domain_size <= 1048576 for direct"),
        ({"domain_size": 2**21, "set_size": 2}, "Expected domain_size <= 1048576 for direct"),
        ({"min_reports": 0}, "Expected an integer min_reports >= 1, got 0"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    good = {"domain_size": 8, "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        HeavyHitters(**good | arguments)


def test_the_whole_domain_may_be_held():
    users = Users.from_items(np.tile([0, 1], 300), np.repeat(np.arange(300), 2))
    result = simulate(HeavyHitters(2, epsilon=4.0, set_size=2), users, seed=0)
    assert sorted(result.items.tolist()) == [0, 1]


@pytest.mark.parametrize("domain_size", [(1 << 20) - 1, 1 << 20])
def test_domains_at_the_limit_of_direct_counts(domain_size):
    users = Users.from_items(np.full(60, domain_size - 1))
    result = simulate(HeavyHitters(domain_size, epsilon=8.0), users, seed=0)
    assert result.items.tolist() == [domain_size - 1]
    assert len(result.all_counts) == domain_size


# ------------------------------------------------------------------------- several rows


def test_a_user_with_many_items_counts_for_one_of_its_rows():
    """2,000 users with the items 1 to 9 once each, and 3 once more: at epsilon 30 no noise.

    Each share within 5 standard errors; by frequency all of them report 3.
    """
    rows = np.tile([1, 2, 3, 3, 4, 5, 6, 7, 8, 9], 2000)
    users = Users.from_items(rows, np.repeat(np.arange(2000), 10))
    drawn = simulate(HeavyHitters(16, epsilon=30.0), users, seed=0).distribution
    expected = np.array([0, *[0.1] * 2, 0.2, *[0.1] * 6, *[0] * 6])
    assert (np.abs(drawn - expected) <= 5 * np.sqrt(expected * (1 - expected) / 2000)).all()
    held = simulate(HeavyHitters(16, epsilon=30.0, item="most-frequent"), users, seed=0)
    assert held.items.tolist() == [3] and held.frequencies[0] == pytest.approx(1, abs=0.01)


def test_ties_are_broken_at_random():
    users = Users.from_items(np.tile([9, 2], 2000), np.repeat(np.arange(2000), 2))
    strategy = HeavyHitters(16, epsilon=30.0, item="most-frequent")
    found = simulate(strategy, users, seed=0).distribution
    assert abs(found[2] - 0.5) < 5 * np.sqrt(0.25 / 2000) and found[2] + found[9] > 0.99


def test_rows_are_drawn_by_the_seed_or_by_the_system():
    """Two unseeded runs of 40 users with 16 items each agree once in 10**20 times."""
    users = Users.from_items(np.tile(np.arange(16), 40), np.repeat(np.arange(40), 16))

    def found(seed):
        return simulate(HeavyHitters(16, epsilon=60.0), users, seed=seed).all_counts.tolist()

    assert found(3) == found(3) != found(4)
    assert found(None) != found(None)


def test_a_column_of_a_schema_is_refused_with_the_ways_that_are_there():
    schema = Schema({"city": Categories(["a", "b", "c"])})
    with pytest.raises(ValueError, match=r"got a Schema\. .* Users\.from_items.* Counts\(schema"):
        HeavyHitters(schema, "city", epsilon=1.0)


def test_an_unknown_choice_of_item_is_refused():
    with pytest.raises(ValueError, match=r"item in \['random', 'most-frequent'\], got 'first'"):
        HeavyHitters(16, epsilon=1.0, item="first")


@pytest.mark.parametrize(
    ("epsilon", "users", "advice"),
    [(1e-6, 300, "more than 1100000000000 users or epsilon"), (20.0, 2, "very likely be seen")],
)
def test_advice_at_the_ends_of_what_is_searched(epsilon, users, advice):
    strategy = HeavyHitters(1000, epsilon=epsilon)
    assert advice in strategy._to_see(strategy.randomizer(users), users)


@pytest.mark.parametrize("noise", ["user", "node"])
def test_users_of_a_table_are_refused_before_anybody_pays(noise):
    """Their first feature is a constant, which would be the item of everybody."""
    schema = Schema({"city": Categories(["a", "b", "c"])})
    users = schema.users({"city": ["a", "b", "c"] * 200})
    with pytest.raises(ValueError, match=r"1 feature, .*got \d\. .*from_items.*Counts\(schema"):
        simulate(HeavyHitters(3, epsilon=1.0, noise=noise), users, seed=0)
