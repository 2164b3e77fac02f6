"""Frequent items with noise at the node: found, counted with true errors, invented rarely."""

import numpy as np
import pytest

from ldp_flower import Users, plan, simulate
from ldp_flower.clients.statistics.sums import item_shares
from ldp_flower.questions import ItemShares
from ldp_flower.strategies import HeavyHitters
from ldp_flower.strategies.sums.budget import Budget
from ldp_flower.strategies.sums.items import chances_to_find

DOMAIN, USERS = 500, 4000


def baskets(seed, rows=3):
    """Return users of some rows each, with items of Zipf's law in the first fifth of the domain."""
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, DOMAIN // 5 + 1)
    items = rng.choice(len(law), USERS * rows, p=law / law.sum())
    return Users.from_items(items, np.repeat(np.arange(USERS), rows)), law / law.sum()


def found_in(users, seed, noise="node", **options):
    strategy = HeavyHitters(DOMAIN, epsilon=1.0, noise=noise, **options)
    return simulate(strategy, users, seed=seed, num_nodes=10)


def test_items_and_their_errors():
    """Twelve tables; an item of nobody is found in one of a hundred, errors are of noise alone."""
    invented, scores, of_population = 0, [], []
    for seed in range(12):
        users, law = baskets(seed)
        result = found_in(users, seed)
        invented += int((result.items >= DOMAIN // 5).sum())
        own = item_shares(users, ItemShares(DOMAIN)).mean(axis=0) * USERS
        scores.append((result.all_counts - own) / result.users_std_error[0])
        top = result.items < 8
        of_population += (
            (result.counts[top] - USERS * law[result.items[top]]) / result.std_error[top]
        ).tolist()
    assert invented == 0
    # 6,000 standard normal numbers: their variance is 1 with a standard error of .018.
    assert abs(np.var(np.concatenate(scores)) - 1) < 0.08
    # Three rows a user are a better sample than one: errors are stated too large.
    assert 0.5 < np.std(of_population) < 1.1


def test_many_more_items_are_found_than_with_noise_at_the_user():
    users, law = baskets(100)
    shares = np.append(law, np.zeros(DOMAIN - len(law)))
    chances = chances_to_find(Budget(1.0, 1e-6, USERS, 10), shares, 0.01)
    spread = np.sqrt((chances * (1 - chances)).sum())
    numbers = [len(found_in(users, 1, noise).items) for noise in ("user", "node")]
    # Three rows a user scatter less than the formula's one: three deviations are hardly left.
    assert abs(numbers[1] - chances.sum()) < 3 * spread
    assert numbers[0] < chances.sum() / 3
    more = found_in(users, 1, cutoff="fdr")
    assert len(more.items) > numbers[1]
    invented = (more.items >= DOMAIN // 5).mean()
    assert invented <= 0.15  # 5 % on average, of some twenty


def test_invalid_items_count_for_nothing():
    valid = np.array([[0.0], [1.0], [1.0], [2.0]])
    odd = np.array([[0.5], [-1.0], [3.0], [np.nan], [np.inf], [1e300]])
    users = Users.from_rows(
        np.concatenate([valid, odd, odd]), np.zeros(16), groups=[0, 0, 0, 1, *[0] * 6, *[2] * 6]
    )
    shares = item_shares(users, ItemShares(3))
    np.testing.assert_allclose(shares, [[1 / 3, 2 / 3, 0], [0, 0, 1], [0, 0, 0]])


def test_it_does_not_matter_who_is_on_which_node():
    rng = np.random.default_rng(0)
    items = rng.integers(0, 20, USERS)
    one, other = (
        found_in(Users.from_items(dealt, np.arange(USERS)), 3) for dealt in (items, np.sort(items))
    )
    assert one.all_counts.tobytes() == other.all_counts.tobytes()


def test_nothing_found_is_told_with_what_would_do():
    users = Users.from_items(np.arange(60) % 4, np.arange(60))
    result = found_in(users, 0)
    assert not len(result.items)
    assert "60 users on 10 nodes are too few" in " ".join(result.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set_size": 2}, "Expected no set_size with noise='node'"),
        ({"item": "most-frequent"}, "Expected no item with noise='node'"),
        ({"backend": "prefix"}, "Expected no backend with noise='node'"),
    ],
)
def test_arguments_without_effect_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        HeavyHitters(DOMAIN, epsilon=1.0, noise="node", **options)


def test_a_huge_domain_is_refused():
    with pytest.raises(ValueError, match=r"domain_size <= 65536.*got 1048576.*num_bits=16"):
        HeavyHitters(1 << 20, epsilon=1.0, noise="node")


def test_a_plan_says_how_many_are_missed():
    """The mean of twelve runs scatters by .03; the plan is of Zipf's law over the whole domain."""
    law = 1 / np.arange(1, DOMAIN + 1)
    strategy = HeavyHitters(DOMAIN, epsilon=1.0, noise="node")
    missed = []
    for seed in range(12):
        items = np.random.default_rng(seed).choice(DOMAIN, USERS, p=law / law.sum())
        found = simulate(
            strategy, Users.from_items(items, np.arange(USERS)), seed=seed, num_nodes=10
        )
        missed.append(1 - np.isin(np.arange(10), found.items).mean())
    planned = plan(strategy, num_users=USERS, num_nodes=10).expected
    assert abs(np.mean(missed) - planned.value) < 0.1
    more = plan(strategy, num_users=10 * USERS, num_nodes=10).expected
    assert more.value < 0.1 < planned.value
