import math
from decimal import Decimal

import numpy as np
import pytest

from ldp_flower.randomizers import Codebook, PrivUnit, TwoLevel
from ldp_flower.randomizers.codebooks.order_statistics import of_directions
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


@pytest.mark.parametrize("dim", [9, 33, 65])
@pytest.mark.parametrize(
    ("epsilon", "num_codewords"), [(0.5, 256), (1.0, 256), (2.0, 256), (4.0, 256), (8.0, 1024)]
)
def test_variance_is_within_three_per_cent_of_privunit(dim, epsilon, num_codewords):
    # On the sphere of the lifted space, dim + 1 coordinates, both are known exactly.
    ours = Codebook(epsilon, dim - 1, num_codewords=num_codewords).bound ** 2
    assert ours <= 1.03 * PrivUnit(epsilon, dim).bound ** 2


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


def test_how_many_codewords_are_in_memory_does_not_matter(monkeypatch):
    mechanism, rng = Codebook(2.0, 5, num_codewords=40), np.random.default_rng(0)
    values = rng.standard_normal((30, 5))
    coins = derive(np.arange(30, dtype=np.uint64))

    def reports():
        return mechanism.randomize(values, KeyedRandom(derive(1, coins)), coins)

    whole = reports()
    monkeypatch.setattr("ldp_flower.randomizers.codebook._CHUNK_ENTRIES", 50)
    np.testing.assert_array_equal(reports(), whole)


@pytest.mark.parametrize(
    ("dim", "num_codewords", "message"),
    [
        (1 << 18, 257, "Expected an integer 2 <= num_codewords <= 256, got 257"),
        (4, 4097, "Expected an integer 2 <= num_codewords <= 4096, got 4097"),
        (1 << 40, 2, "Expected an integer 1 <= dim <= 33554432"),
    ],
)
def test_more_work_than_a_client_can_do_is_refused(dim, num_codewords, message):
    with pytest.raises(ValueError, match=message):
        Codebook(1.0, dim, num_codewords=num_codewords)
