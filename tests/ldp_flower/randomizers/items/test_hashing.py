import math

import numpy as np
import pytest

from ldp_flower.randomizers import OptimizedLocalHashing
from ldp_flower.randomness import KeyedRandom, derive


def public_coins(users):
    return derive(np.arange(users, dtype=np.uint64))


@pytest.mark.parametrize(
    ("epsilon", "buckets"), [(1e-3, 2), (1.0, 4), (2.0, 8), (4.0, 56), (12.0, 65_536), (50, 65_536)]
)
def test_number_of_buckets(epsilon, buckets):
    oracle = OptimizedLocalHashing(epsilon, 1000)
    assert oracle.num_buckets == buckets
    assert oracle.report_bytes == (1 if buckets <= 256 else 2)
    assert oracle.contains(np.array([buckets - 1], oracle.report_dtype))
    if buckets < 256:
        assert not oracle.contains(np.array([buckets], np.uint8))


@pytest.mark.parametrize("e", [2, 4, 8, 50])
def test_variance_is_that_of_the_literature(e):
    oracle = OptimizedLocalHashing(math.log(e), 1000)
    assert oracle.variance == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_support_is_equality_of_hashes(epsilon):
    oracle = OptimizedLocalHashing(epsilon, 50)
    g, coins = oracle.num_buckets, public_coins(40)
    words = KeyedRandom(coins).words((40, 2)).tolist()
    reports = (np.arange(40) % g).astype(oracle.report_dtype)
    supports = oracle._supports(reports, coins)
    for user, (a, b) in enumerate(words):
        hashes = [((a * item + b) % 2**64 >> 32) * g >> 32 for item in range(50)]
        assert [h == reports[user] for h in hashes] == supports[user].tolist()
        buckets = oracle._buckets(np.arange(50), np.full(50, coins[user]))
        assert buckets.tolist() == hashes


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 2.0, 50.0])
def test_buckets_are_intervals_of_hashes(epsilon):
    oracle = OptimizedLocalHashing(epsilon, 50)
    g = oracle.num_buckets
    edges = oracle._edge(np.arange(g + 1, dtype=np.uint64)).tolist()
    assert edges[0] == 0 and edges[-1] == 2**32
    for bucket, edge in enumerate(edges[1:-1], start=1):
        assert edge * g >> 32 == bucket and (edge - 1) * g >> 32 == bucket - 1


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (3, 5), (7, 1023), (1022, 1023), (256, 512)])
def test_two_items_share_a_bucket_as_often_as_random_ones(pair):
    oracle, users = OptimizedLocalHashing(2.0, 1024), 100_000
    coins = public_coins(users)
    first, second = (oracle._buckets(np.full(users, item), coins) for item in pair)
    joint = np.bincount(first * 8 + second, minlength=64) / users
    # 5 standard errors over 384 frequencies: fails by chance once in 4e3
    assert np.abs(joint - 1 / 64).max() < 5 * math.sqrt(1 / 64 / users)


def test_support_over_the_coin_has_the_stated_probabilities():
    oracle, users = OptimizedLocalHashing(2.0, 64), 100_000
    coins = public_coins(users)
    reports = oracle.randomize(np.full((users, 1), 9.0), np.random.default_rng(0), coins)
    support = oracle._support(reports, coins) / users
    expected = np.where(np.arange(64) == 9, float(oracle.own), float(oracle.other))
    assert (np.abs(support - expected) < 5 * np.sqrt(expected * (1 - expected) / users)).all()
    dense = oracle._supports(reports[:999], coins[:999]).sum(axis=0)
    np.testing.assert_array_equal(oracle._support(reports[:999], coins[:999]), dense)


def test_another_coin_is_another_hash():
    oracle = OptimizedLocalHashing(4.0, 1000)
    reports = np.zeros(2, oracle.report_dtype)
    supports = oracle._supports(reports, public_coins(2))
    assert (supports[0] != supports[1]).any()
