import math

import pytest

from ldp_flower.randomizers import (
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    SubsetSelection,
    best_frequency_oracle,
)

SINGLE = (
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    SubsetSelection,
)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 2.0, 4.0, 8.0, 50.0])
@pytest.mark.parametrize("domain_size", [2, 3, 10, 100, 5000])
@pytest.mark.parametrize("num_users", [1, 1000, 10**6])
def test_the_smallest_report_wins_among_standard_errors_within_one_user(
    epsilon, domain_size, num_users
):
    def error(oracle):
        return math.sqrt(num_users * oracle.variance_at(1 / domain_size))

    chosen = best_frequency_oracle(epsilon, domain_size, num_users)
    oracles = [kind(epsilon, domain_size) for kind in SINGLE]
    least = min(map(error, oracles))
    assert error(chosen) <= least + 1
    tied = [oracle.report_bytes for oracle in oracles if error(oracle) <= least + 1]
    assert chosen.report_bytes == min(tied)


def test_small_domains_take_the_item_itself():
    assert best_frequency_oracle(2.0, 4, 10_000) == KRandomizedResponse(2.0, 4)


def test_one_byte_beats_many_at_the_same_error():
    assert best_frequency_oracle(2.0, 1024, 10_000) == OptimizedLocalHashing(2.0, 1024)


def test_with_enough_users_the_least_variance_wins():
    assert best_frequency_oracle(2.0, 1024, 10**9) == SubsetSelection(2.0, 1024)


def test_sets_take_the_set_vote():
    chosen = best_frequency_oracle(4.0, 256, 1000, set_size=4)
    assert chosen == SubsetSelection(4.0, 256, 4)
    # Voting for one random item of the set instead: counts are those of it, times 4.
    assert chosen.variance < 16 * SubsetSelection(4.0, 256).variance


@pytest.mark.parametrize(
    ("num_users", "set_size", "message"),
    [
        (0, 1, "Expected an integer num_users >= 1, got 0"),
        (10, 0, "Expected an integer 1 <= set_size <= 7, got 0"),
        (10, 8, "Expected an integer 1 <= set_size <= 7, got 8"),
    ],
)
def test_bad_arguments_are_refused(num_users, set_size, message):
    with pytest.raises(ValueError, match=message):
        best_frequency_oracle(1.0, 8, num_users, set_size)
