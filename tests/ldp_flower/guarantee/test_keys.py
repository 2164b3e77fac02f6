from itertools import pairwise

import numpy as np

from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Purpose


def test_a_users_hash_and_coin_do_not_depend_on_its_node():
    whole = NodeKeys(0, 0, 100)
    part = NodeKeys(0, 60, 40)
    np.testing.assert_array_equal(whole.hashes(5)[60:], part.hashes(5))
    slots = np.array([3, 7])
    np.testing.assert_array_equal(whole.coins(5, 2, slots + 60), part.coins(5, 2, slots))


def test_cuts_address_every_user_exactly_once():
    keys = NodeKeys(0, 0, 1000)
    cuts = np.sort(np.random.default_rng(0).integers(0, HASH_END, 9, dtype=np.uint64))
    edges = [0, *map(int, cuts), HASH_END]
    pieces = [keys.addressed(1, a, b) for a, b in pairwise(edges)]
    assert sorted(np.concatenate(pieces)) == list(range(1000))


def test_salt_step_group_and_purpose_separate_the_randomness():
    keys, slots = NodeKeys(0, 0, 50), np.arange(50)
    draws = [
        keys.coins(1, 1, slots),
        keys.coins(2, 1, slots),
        keys.coins(1, 2, slots),
        NodeKeys(1, 0, 50).coins(1, 1, slots),
        keys.states(Purpose.NOISE, 1, 1, slots),
        keys.hashes(1),
    ]
    assert len(np.unique(np.concatenate(draws))) == 300


def test_hashes_spread_users_evenly():
    hashes = NodeKeys(0, 0, 100_000).hashes(3) / float(HASH_END)
    counts = np.histogram(hashes, bins=100, range=(0, 1))[0]
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)  # by chance once in 20,000 salts
