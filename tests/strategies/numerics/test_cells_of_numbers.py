"""Columns of numbers that are cut: their quantile functions, and positions within their cells."""

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from ldp_flower.strategies.numerics.denoising import project_on_simplex
from ldp_flower.strategies.numerics.normal_scale import knots, quantiles
from ldp_flower.strategies.numerics.within_cells import positions

EDGES = np.linspace(-8, 8, 65)
NORMAL = np.diff(norm.cdf(EDGES))


def test_quantiles_of_an_exact_histogram_are_those_of_the_column():
    found = knots(EDGES, NORMAL, np.full(64, 1e-12))
    levels = np.array([0.001, 0.1, 0.5, 0.8, 0.999])
    np.testing.assert_allclose(quantiles(found, levels), norm.ppf(levels), atol=1e-6)


def test_noise_in_empty_cells_moves_little_mass_there():
    """Quantiles at .05 and .95 are 1.64 from the middle; of the nearest distribution 2.6."""
    levels, tails, naive = np.array([0.05, 0.95]), [], []
    for seed in range(60):
        shares = NORMAL + 0.01 * np.random.default_rng(seed).standard_normal(64)
        found = knots(EDGES, shares, np.full(64, 0.01))
        assert (np.diff(found, axis=1) >= 0).all()
        tails.append(np.abs(quantiles(found, levels)))
        below = np.cumsum(project_on_simplex(shares))
        naive.append(np.abs(np.interp(levels, np.append(0.0, below), EDGES)))
    assert np.mean(tails, axis=0).max() < 2.05 < 2.3 < np.mean(naive, axis=0).min()


@pytest.mark.parametrize("shares", [np.zeros(64), np.eye(64)[63], np.eye(64)[0], -NORMAL])
def test_any_histogram_has_quantiles_within_the_bounds(shares):
    found = knots(EDGES, shares, np.full(64, 0.01))
    values = quantiles(found, np.linspace(0, 1, 11))
    assert (np.diff(values) >= 0).all() and values[0] >= -8 and values[-1] <= 8


def test_many_zeros_stay_at_zero():
    shares = np.zeros(64)
    shares[0], shares[1:11] = 0.6, 0.04
    found = knots(np.linspace(0, 64, 65), shares, np.full(64, 1e-6))
    values = quantiles(found, np.linspace(0, 0.59, 20))
    assert values.max() <= 1.0


def test_numbers_go_together_within_cells_as_between_them():
    scores = multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]]).rvs(20_000, random_state=0)
    cuts = norm.ppf([0.25, 0.5, 0.75])
    codes = np.searchsorted(cuts, scores)
    inside = positions(codes, np.random.default_rng(0))
    assert inside.min() >= 0 and inside.max() <= 1
    again = norm.ppf((codes + inside) / 4)
    even = norm.ppf((codes + np.random.default_rng(1).random(codes.shape)) / 4)
    assert np.corrcoef(again.T)[0, 1] == pytest.approx(0.9, abs=0.02)
    assert np.corrcoef(even.T)[0, 1] < 0.85  # positions that are independent lose it


def test_positions_of_columns_that_do_not_go_together_are_even():
    codes = np.random.default_rng(0).integers(0, 4, (5000, 2))
    inside = positions(codes, np.random.default_rng(1))
    assert all(kstest(each, "uniform").pvalue > 1e-4 for each in inside.T)
