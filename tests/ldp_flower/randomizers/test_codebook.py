import math
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest

from ldp_flower.randomizers import (
    Codebook,
    Summary,
    TwoLevel,
    randomizer_from_config,
)
from ldp_flower.randomizers.codewords import _kept, codewords, turned, turned_back
from ldp_flower.randomizers.order_statistics import of_directions
from ldp_flower.randomness import KeyedRandom, derive


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("num_codewords", [256, 1024])
def test_the_log_ratio_over_all_outputs_is_epsilon(epsilon, num_codewords):
    mechanism = Codebook(epsilon, 33, num_codewords=num_codewords)
    r = mechanism.num_likely
    choice = TwoLevel(epsilon, r, num_codewords - r)
    # Every index is likely for some values and unlikely for others.
    assert Decimal(epsilon) - Decimal("1e-9") <= choice.log_ratio <= Decimal(epsilon)


def test_reports_follow_that_law_for_a_fixed_codebook():
    mechanism = Codebook(2.0, 3, num_codewords=8)
    users = 60_000
    coins = np.zeros(users, np.uint64)  # everybody has the same codebook
    value = np.tile([0.5, -0.2, 0.1], (users, 1))
    reports = mechanism.randomize(value, np.random.default_rng(0), coins)
    frequencies = np.sort(np.bincount(reports, minlength=8))[::-1] / users
    r = mechanism.num_likely
    choice = TwoLevel(2.0, r, 8 - r)
    expected = np.repeat([choice.probability / r, (1 - choice.probability) / (8 - r)], [r, 8 - r])
    # 5 standard errors of 8 frequencies; sorting only widens a group's spread
    assert np.abs(frequencies - expected).max() < 5 * math.sqrt(expected.max() / users)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("norm", [0.0, 0.6, 1.0])
def test_mean_and_variance(dim, norm):
    mechanism = Codebook(1.5, dim, radius=3.0, num_codewords=64)
    rng = np.random.default_rng(dim)
    direction = rng.standard_normal(dim)
    direction /= np.linalg.norm(direction)
    users = 20_000
    values = np.tile(3.0 * norm * direction, (users, 1))
    reports = mechanism.debias(mechanism.randomize(values, rng))
    estimate = mechanism.estimate(mechanism.summarize(mechanism.randomize(values, rng)))
    # 5 standard errors in 162 coordinates in all: fails by chance once in 1e4
    assert np.abs((estimate.mean - 3.0 * norm * direction) / estimate.std_error).max() < 5
    square = ((reports - 3.0 * norm * direction) ** 2).mean(axis=1)
    slack = 5 * square.std() / math.sqrt(users)
    assert square.mean() <= mechanism.variance + slack
    if norm == 0.0:
        rest = 1 - mechanism._design[2]
        assert abs(square.mean() - mechanism.bound**2 * rest / dim) <= slack


@pytest.mark.parametrize("dim", [2, 3, 10, 300])
def test_order_statistics_agree_with_simulation(dim):
    rng = np.random.default_rng(dim)
    words = rng.standard_normal((4000, 32, dim))
    cosine = words[..., 0] / np.linalg.norm(words, axis=2)
    ordered = -np.sort(-cosine, axis=1)
    sums, squares = of_directions(dim, 32)
    for found, exact in ((ordered, sums), (ordered**2, squares)):
        partial = np.cumsum(found, axis=1)
        error = partial.std(axis=0) / math.sqrt(4000)
        assert (np.abs(partial.mean(axis=0) - exact) < 5 * error + 1e-9).all()
    assert sums[-1] == pytest.approx(0, abs=1e-9)
    assert squares[-1] == pytest.approx(32 / dim, rel=1e-9)


def test_report_size():
    assert Codebook(1.0, 5).report_bytes == 1
    assert Codebook(1.0, 5, num_codewords=257).report_bytes == 2
    assert not Codebook(1.0, 5, num_codewords=200).contains(np.array([200], np.uint8))


def hard_vectors(dim):
    """Return vectors that sharing a codebook may be unfair to."""
    axes = np.eye(dim)
    few = axes[: min(8, dim)].sum(axis=0)
    return np.array(
        [axes[0], axes[0] + axes[-1], few, np.ones(dim), (-1.0) ** np.arange(dim), 0 * few]
    )


@pytest.mark.parametrize(
    ("dim", "epsilon"), [pytest.param(2, 4.0, marks=pytest.mark.slow), (4, 8.0), (64, 8.0)]
)
def test_users_who_share_a_codebook_report_as_good_as_independently(dim, epsilon):
    # With 512 users a codebook 4 coordinates have 3.4 here, and 1.6 times that without shifts.
    mechanism, users, runs = Codebook(epsilon, dim), 1024, 240 // dim + 4
    for vector in np.unique(hard_vectors(dim), axis=0):
        value = vector / max(1.0, np.linalg.norm(vector))
        square = own = 0.0
        for run in range(runs):
            coins = derive(1, run, np.arange(users))
            cohort = mechanism.for_cohort(users, run)
            reports = cohort.randomize(
                np.tile(value, (users, 1)), KeyedRandom(derive(2, coins)), coins
            )
            summary = cohort.summarize(reports, coins)
            square += ((summary.sum / users - value) ** 2).sum() * users / runs
            own += (summary.sum_of_squares.sum() / users - value @ value) / runs
        error = math.sqrt(2 / dim / runs)  # of the ratio, if reports are independent
        assert abs(square / own - 1) < 0.1 + 4.5 * error


def test_a_turn_is_undone_and_moves_between_word_and_vector():
    rng, coins = np.random.default_rng(0), derive(np.arange(50))
    for dim in (1, 2, 7, 64, 65, 200):
        rows, words = rng.standard_normal((2, 50, dim))
        np.testing.assert_array_equal(turned_back(turned(rows, coins), coins), rows)
        products = (turned(rows, coins) * words).sum(axis=1)
        np.testing.assert_allclose(
            products, (rows * turned_back(words, coins)).sum(axis=1), rtol=0, atol=1e-12
        )
        if dim > 2:
            assert len(np.unique(turned(np.tile(rows[:1], (50, 1)), coins), axis=0)) > 5


@pytest.mark.parametrize("dim", [1, 2, 5, 64, 65])
def test_words_are_uniform_directions(dim):
    words = np.concatenate(codewords(3, np.arange(40, dtype=np.uint64), 256, dim))
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), 1, rtol=1e-12)
    # W**2 of a coordinate is Beta(1/2, (d - 1)/2): 5 standard errors of 10,240 words.
    second, fourth = 1 / dim, 3 / (dim * (dim + 2))
    slack = 5 / math.sqrt(len(words))
    assert np.abs(words.mean(axis=0)).max() < slack * math.sqrt(second)
    moments = words.T @ words / len(words)
    off = moments - np.diag(np.diag(moments))
    assert np.abs(off).max() < slack * second
    assert np.abs(np.diag(moments) - second).max() <= slack * math.sqrt(fourth - second**2) + 1e-12
    assert np.abs((words**4).mean(axis=0) - fourth).max() < 5 * slack * fourth + 1e-12


def test_a_report_does_not_depend_on_who_else_is_asked_nor_the_sum_on_the_order():
    mechanism = Codebook(2.0, 5, num_codewords=40).for_cohort(700, 9)
    values, coins = np.random.default_rng(0).standard_normal((700, 5)), derive(7, np.arange(700))

    def reports(users):
        return mechanism.randomize(
            values[users], KeyedRandom(derive(1, coins[users])), coins[users]
        )

    whole = reports(np.arange(700))
    mixed = np.random.default_rng(1).permutation(700)
    for users in (mixed, mixed[:300], mixed[:1]):
        np.testing.assert_array_equal(reports(users), whole[users])
    parts = [mechanism.summarize(whole[users], coins[users]) for users in np.split(mixed, [1, 300])]
    together = mechanism.summarize(whole, coins)
    np.testing.assert_array_equal(sum(parts, Summary.empty(5)).sum, together.sum)
    debiased = mechanism.debias(whole, coins)
    rounding = 700 * 2.0**-31 * mechanism.bound
    np.testing.assert_allclose(debiased.sum(axis=0), together.sum, rtol=0, atol=rounding)
    ordered = mechanism._groups(coins)[mechanism.public_order(coins)]
    assert len(np.unique(ordered)) == 15 == np.count_nonzero(np.diff(ordered)) + 1


def test_equal_products_have_exactly_as_many_likely_words():
    mechanism = Codebook(1.0, 3, num_codewords=9)
    rng = np.random.default_rng(0)
    products = rng.integers(0, 3, (200, 9)).astype(float)
    close = mechanism._close(products)
    assert (close.sum(axis=1) == mechanism.num_likely).all()
    largest = np.where(close, products, 9).min(axis=1)
    assert (largest >= np.where(close, -9, products).max(axis=1)).all()


def test_no_coin_makes_a_word_without_a_direction():
    """Word 92 of this one is made of a uniform that four bytes round to 1."""
    mechanism = Codebook(2.0, 1, num_codebooks=1, coin=146_334)
    (words,) = codewords(146_334, np.zeros(1, np.uint64), 256, 2)
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), 1)
    # Of 20,000 reports of a value each, no index stays away: each has 34 or more on average.
    coins = np.zeros(20_000, np.uint64)
    for value in (-1.0, 1.0):
        values = np.full((20_000, 1), value)
        reports = mechanism.randomize(values, KeyedRandom(derive(np.arange(20_000))), coins)
        assert np.bincount(reports, minlength=256).min() > 0


def test_products_that_are_no_numbers_leave_every_row_its_likely_words():
    """One row has a word too few then and another one too many: together they are right."""
    mechanism = Codebook(1.0, 3, num_codewords=9)
    products = np.tile(np.arange(9.0), (3, 1))
    products[0, 5], products[2] = np.nan, 1.0
    close = mechanism._close(products)
    assert (close.sum(axis=1) == mechanism.num_likely).all()
    assert (close[1] == (products[1] >= 9 - mechanism.num_likely)).all()


def test_the_words_that_are_kept_are_few(monkeypatch):
    monkeypatch.setattr("ldp_flower.randomizers.codewords._KEPT_BYTES", 10_000)
    mechanism = Codebook(1.0, 9, num_codewords=10, num_codebooks=1 << 40)
    coins = derive(np.arange(60))
    first = mechanism.debias(np.zeros(60, np.uint8), coins)
    assert 0 < _kept.nbytes <= 10_000
    np.testing.assert_array_equal(mechanism.debias(np.zeros(60, np.uint8), coins), first)


def test_codebooks_of_users_own_are_not_all_in_memory_at_a_time(monkeypatch):
    """Those of 32 users have 1 MiB each, which a server can ask for as it can for 512."""
    mechanism = Codebook(1.0, 1023, num_codewords=128, num_codebooks=1 << 40)
    values, coins = np.zeros((32, 1023)), derive(np.arange(32))
    monkeypatch.setattr("ldp_flower.randomizers.codewords._KEPT_BYTES", 0)
    tracemalloc.start()
    mechanism.randomize(values, KeyedRandom(coins), coins)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 << 20


def test_codebooks_by_default_and_for_a_cohort():
    assert Codebook(1.0, 4).num_codebooks == 1310 and Codebook(1.0, 1000).num_codebooks == 8
    assert Codebook(1.0, 64).for_cohort(40_000, 5).num_codebooks == 79
    cohort = Codebook(1.0, 4).for_cohort(40_000, 5)
    assert (cohort.num_codebooks, cohort.coin) == (1000, 5)
    assert Codebook(1.0, 4).for_cohort(1, 5).num_codebooks == 1
    assert randomizer_from_config(cohort.to_config()) == cohort


@pytest.mark.parametrize(
    ("dim", "num_codewords", "message"),
    [
        (1 << 18, 65, "Expected an integer 2 <= num_codewords <= 64, got 65"),
        (4, 4097, "Expected an integer 2 <= num_codewords <= 4096, got 4097"),
        (1 << 40, 2, "Expected an integer 1 <= dim <= 8388608"),
    ],
)
def test_more_work_than_a_client_can_do_is_refused(dim, num_codewords, message):
    with pytest.raises(ValueError, match=message):
        Codebook(1.0, dim, num_codewords=num_codewords)


def test_codebooks_and_coins_out_of_range_are_refused():
    with pytest.raises(ValueError, match="1 <= num_codebooks <= 1099511627776, got -1"):
        Codebook(1.0, 4, num_codebooks=-1)
    with pytest.raises(ValueError, match="0 <= coin <= 9223372036854775807, got -3"):
        Codebook(1.0, 4, coin=-3)
