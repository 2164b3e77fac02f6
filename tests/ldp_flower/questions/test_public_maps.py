"""Projections keep lengths, Fourier features the kernel, and rows do not mix."""

import numpy as np
import pytest

from ldp_flower.questions.public_maps import (
    fourier_features,
    frequencies,
    project,
    projection,
    reach,
    seed_of,
)


def test_seeds_are_exact_as_floats_and_differ():
    seeds = {seed_of(salt) for salt in [0, 1, 2**63 - 1]}
    assert len(seeds) == 3 and all(0 < int(float(seed)) == seed <= 2**53 for seed in seeds)


@pytest.mark.parametrize("size", [128, 512])
def test_projections_keep_lengths_and_hardly_exceed_their_reach(size):
    """With normal lengths 3 in 1,000 go beyond at 128; the spread of x itself adds as many."""
    x = np.random.default_rng(0).standard_normal((2000, 600))
    x /= np.linalg.norm(x, axis=1)[:, None]
    lengths = np.linalg.norm(project(x, projection(3, 600, size)), axis=1)
    assert np.mean(lengths**2) == pytest.approx(1.0, abs=0.02)
    assert (lengths > reach(size)).mean() < 0.02


def test_projecting_is_a_product_and_a_row_is_the_same_to_the_last_bit_in_any_company():
    rng = np.random.default_rng(0)
    x, matrix = rng.standard_normal((50, 700)), rng.standard_normal((700, 33))
    whole = project(x, matrix)
    np.testing.assert_allclose(whole, x @ matrix, atol=1e-10)
    for rows in (slice(7, 8), slice(3, 10), slice(0, 49)):
        np.testing.assert_array_equal(project(x[rows], matrix), whole[rows])


@pytest.mark.parametrize("dim", [1, 3])
def test_fourier_features_have_length_one_and_give_the_kernel_on_average(dim):
    """T14. Over 3,000 seeds a mean of 8 pairs is within 0.01 of the kernel, 4 standard errors."""
    x = np.random.default_rng(1).uniform(-1, 1, (6, dim))
    total = np.zeros((6, 6))
    for seed in range(3000):
        features = fourier_features(x, frequencies(seed, dim, 16), 0.8)
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-12)
        total += features @ features.T
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(total / 3000, np.exp(-squares / (2 * 0.8**2)), atol=0.012)


def test_strata_bring_the_kernel_closer_than_independent_frequencies():
    """In one dimension: the squared error over 200 seeds is at most a tenth (0.02 here)."""
    x = np.linspace(-1, 1, 21)[:, None]
    kernel = np.exp(-((x - x.T) ** 2) / 2)
    errors = np.zeros(2)
    for seed in range(200):
        independent = np.random.default_rng(seed).standard_normal((1, 8))
        for i, drawn in enumerate((frequencies(seed, 1, 16), independent)):
            features = fourier_features(x, drawn, 1.0)
            errors[i] += np.sum((features @ features.T - kernel) ** 2)
    assert errors[0] < errors[1] / 10
