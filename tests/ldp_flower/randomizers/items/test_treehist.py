"""One bit per user; what it shares with other prefix trees is in test_pem."""

import math

import numpy as np
import pytest

from ldp_flower.randomizers import TreeHist
from ldp_flower.randomness import KeyedRandom, derive


def public_coins(users, salt=0):
    return derive(salt, np.arange(users, dtype=np.uint64))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 12.0])
def test_a_report_is_one_bit(epsilon):
    tree = TreeHist(epsilon, 40)
    assert tree.report_shape == () and tree.report_bytes == 1
    reports = tree.randomize(np.arange(500.0)[:, None], np.random.default_rng(0))
    assert reports.shape == (500,) and set(reports.tolist()) == {0, 1}
    assert not tree.contains(np.array([2], np.uint8))
    assert (tree._choice.num_likely, tree._choice.num_unlikely) == (1, 1)


def test_the_report_is_a_function_of_the_prefix_of_the_assigned_length():
    # With the same private words, items that share the assigned prefix give the same
    # bit, whatever else differs.
    tree, users = TreeHist(1.0, 8), 200
    coins, states = public_coins(users), derive(5, np.arange(users, dtype=np.uint64))
    items = [np.full((users, 1), float(item)) for item in range(256)]
    table = np.array([tree.randomize(values, KeyedRandom(states), coins) for values in items])
    for user, level in enumerate(tree._levels(coins)):
        length = tree.lengths[level]
        groups = table[:, user].reshape(2**length, -1)
        assert (groups == groups[:, :1]).all()


def test_signs_are_pairwise_independent():
    tree, users = TreeHist(1.0, 40), 100_000
    coins = public_coins(users)
    for first, second in [(0, 1), (0, 2**39), (2**39 + 5, 5), (6, 12), (2**40 - 1, 2**38 - 1)]:
        signs = [1 - 2 * tree._buckets(np.full(users, item), coins) for item in (first, second)]
        # 5 standard errors over 15 averages: fails by chance once in 1e5
        for average in (signs[0].mean(), signs[1].mean(), (signs[0] * signs[1]).mean()):
            assert abs(average) < 5 / math.sqrt(users)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_variance_is_that_of_the_literature(epsilon):
    odds = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    assert TreeHist(epsilon, 20).variance == pytest.approx(20 * odds**2, rel=1e-9)
    assert TreeHist(epsilon, 20).bound == pytest.approx(20 * odds, rel=1e-9)


def test_all_frequent_items_are_found_and_no_other():
    # An item held by 30 % is over 9 noise levels above nothing at each of the 20
    # lengths and the cut-offs below 3.5: it is missed less than once in 1e6. A false item
    # comes at most once in 100, a count beyond 5 standard errors once in 1e6.
    users, tree = 20_000, TreeHist(4.0, 20)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        heavy = rng.choice(2**20, 3, replace=False)
        items = rng.integers(0, 2**20, users)
        items[:18_000] = np.repeat(heavy, 6000)
        coins = public_coins(users, salt=seed)
        reports = tree.randomize(items[:, None].astype(float), rng, coins)
        found, counts, errors, _ = tree.heavy_hitters(reports, coins, 16)
        assert set(found) == set(heavy)
        assert (np.abs(counts - 6000) < 5 * errors).all()
