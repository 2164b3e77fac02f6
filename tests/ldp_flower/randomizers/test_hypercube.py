"""Every output of the mechanism is enumerated: nothing here is statistical but the last tests."""

import itertools
import math

import numpy as np
import pytest

from ldp_flower.randomizers import SubsetHypercube
from ldp_flower.randomizers.hypercube import _cap, best_subset
from ldp_flower.randomness import KeyedRandom, derive


def output_law(epsilon, subset, agreements, closed=False):
    """Return P(output = z | signs v) as a function of the number of agreements.

    ``closed`` is the textbook sampler with closed half-spaces: both include the
    patterns with exactly half of the signs in agreement.
    """
    sizes = [math.comb(subset, k) for k in range(subset + 1)]
    if closed:
        likely = [k for k in range(subset + 1) if 2 * k >= subset]
        unlikely = [k for k in range(subset + 1) if 2 * k <= subset]
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        law = np.zeros(subset + 1)
        law[likely] += p / sum(sizes[k] for k in likely)
        law[unlikely] += (1 - p) / sum(sizes[k] for k in unlikely)
        return law
    choice, _ = _cap(epsilon, subset, agreements)
    inside = choice.probability / choice.num_likely
    outside = (1 - choice.probability) / choice.num_unlikely
    return np.where(np.arange(subset + 1) >= agreements, inside, outside)


def table(law, subset):
    """Return the probabilities of all outputs (columns) for all sign vectors (rows)."""
    vertices = np.array(list(itertools.product([-1, 1], repeat=subset)))
    agreements = (vertices[:, None, :] == vertices[None, :, :]).sum(axis=2)
    return vertices, law[agreements]


def largest_log_ratio(probabilities):
    logs = np.log(probabilities)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


CASES = [
    (epsilon, subset, agreements)
    for epsilon in (0.1, 1.0, 4.0)
    for subset in range(1, 9)
    for agreements in range(subset // 2 + 1, subset + 1)
]


@pytest.mark.parametrize(("epsilon", "subset", "agreements"), CASES)
def test_the_largest_log_ratio_over_all_outputs_is_epsilon(epsilon, subset, agreements):
    vertices, probabilities = table(output_law(epsilon, subset, agreements), subset)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert largest_log_ratio(probabilities) == pytest.approx(epsilon, abs=1e-9)
    _, scale = _cap(epsilon, subset, agreements)
    np.testing.assert_allclose(probabilities @ vertices / scale, vertices, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("subset", [2, 4, 8])
def test_closed_half_spaces_fail_the_same_test(epsilon, subset):
    _, probabilities = table(output_law(epsilon, subset, 0, closed=True), subset)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    found = largest_log_ratio(probabilities)
    assert found == pytest.approx(math.log(1 + math.exp(epsilon)), abs=1e-9)
    assert found > epsilon + 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("dim", range(1, 9))
def test_the_sampler_has_the_enumerated_law(epsilon, dim):
    mechanism = SubsetHypercube(epsilon, dim)
    k = mechanism.subset
    law = output_law(epsilon, k, best_subset(epsilon, min(16, dim))[1])
    value = np.where(np.arange(dim) % 2, 1.0, -1.0)
    users = 40_000
    reports = mechanism.randomize(np.tile(value, (users, 1)), np.random.default_rng(dim))
    assigned = mechanism.assigned(np.asarray(_default_coins(users)))
    signs = np.where(reports[:, None] >> np.arange(k) & 1, 1, -1)
    agree = (signs == value[assigned]).sum(axis=1)
    expected = law * [math.comb(k, j) for j in range(k + 1)]
    observed = np.bincount(agree, minlength=k + 1) / users
    # 6 standard errors over some 60 frequencies: fails by chance once in 1e7
    assert (np.abs(observed - expected) <= 6 * np.sqrt(expected / users) + 1e-12).all()


def _default_coins(users):
    return derive(np.arange(users, dtype=np.uint64))


@pytest.mark.parametrize(
    ("epsilon", "subset", "variance"),
    [
        (0.25, 1, 64.7),
        (0.5, 1, 16.7),
        (1, 1, 4.68),
        (1.25, 1, 3.25),
        (1.5, 2, 2.31),
        (2, 2, 1.32),
        (2.5, 2, 0.922),
        (3, 3, 0.671),
        (4, 4, 0.422),
        (5, 11, 0.294),
        (6, 15, 0.217),
        (8, 15, 0.140),
    ],
)
def test_subset_size_and_variance_are_those_of_the_published_table(epsilon, subset, variance):
    mechanism = SubsetHypercube(epsilon, 256)
    assert mechanism.subset == subset
    assert mechanism.variance / 256 == pytest.approx(variance, rel=0.005)


@pytest.mark.parametrize(
    ("dim", "variances"),
    [
        (8, {0.5: 133, 1: 37, 2: 11, 4: 3.4}),
        (64, {0.5: 1067, 1: 300, 2: 85, 4: 27, 8: 9}),
        # Published at epsilon 8: 34 and 138, of larger subsets than fit into two bytes
        (256, {0.5: 4268, 1: 1199, 2: 338, 4: 108}),
        (1024, {0.5: 17071, 1: 4795, 2: 1354, 4: 432}),
    ],
)
def test_variance_grows_with_the_dimension_as_published(dim, variances):
    for epsilon, variance in variances.items():
        found = SubsetHypercube(epsilon, dim).variance
        # 2 %, or half a unit of a number printed without decimals
        assert found == pytest.approx(variance, rel=0.02, abs=0.5 if variance > 4 else 0.05)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_means_are_unbiased_and_spread_as_stated(epsilon):
    mechanism = SubsetHypercube(epsilon, 12, radius=2.0)
    value = np.linspace(-2, 2, 12)
    users = 120_000
    reports = mechanism.randomize(np.tile(value, (users, 1)), np.random.default_rng(3))
    estimate = mechanism.estimate(mechanism.summarize(reports))
    assert np.abs((estimate.mean - value) / estimate.std_error).max() < 5
    known = math.sqrt(mechanism.variance / users)
    assert (estimate.std_error <= known * 1.02).all()  # assignment is random, hence 2 %
    assert estimate.std_error[5] == pytest.approx(known, rel=0.02)
    dense = mechanism.debias(reports).mean(axis=0)
    np.testing.assert_allclose(dense, value, atol=6 * known)


def test_every_coordinate_is_assigned_equally_often():
    mechanism = SubsetHypercube(4.0, 10)
    counts = np.bincount(mechanism.assigned(_default_coins(100_000)).ravel(), minlength=10)
    expected = 100_000 * mechanism.subset / 10
    assert np.abs(counts - expected).max() < 5 * math.sqrt(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_only_the_assigned_coordinates_are_read(bad):
    mechanism, users = SubsetHypercube(4.0, 10), 400
    values = np.tile(np.linspace(-1, 1, 10), (users, 1))
    odd, states = values.copy(), _default_coins(users)
    odd[:, 3] = bad
    reads = (mechanism.assigned(states) == 3).any(axis=1)
    values[reads] = 0.0
    reports = [mechanism.randomize(rows, KeyedRandom(states)) for rows in (odd, values)]
    assert 0 < reads.sum() < users
    np.testing.assert_array_equal(*reports)


def test_report_size_is_one_or_two_bytes():
    assert SubsetHypercube(1.0, 64).report_bytes == 1
    assert SubsetHypercube(4.0, 64).report_bytes == 1
    assert SubsetHypercube(8.0, 64).report_bytes == 2
    assert not SubsetHypercube(2.0, 64).contains(np.array([4], np.uint8))
