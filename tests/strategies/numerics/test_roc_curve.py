"""The area under a ROC curve of which some points are known, and its error."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from ldp_flower.strategies.numerics.roc_curve import area

LEVELS = np.linspace(0, 1, 4001)


def straight(share, apart):
    """Return the gaps of a curve of two straight lines, and its area."""
    return np.interp(LEVELS, [0, 1 - share, 1], [0, apart, 0]), 0.5 + apart / 2


def normal(share, auc):
    scores, distance = np.linspace(-9, 9, 4001), np.sqrt(2) * ndtri(auc)
    own, other = ndtr(scores - distance), ndtr(scores)
    return np.interp(LEVELS, share * own + (1 - share) * other, other - own), auc


def skewed(share, power):
    """Return the curve of false positive rates that are powers of the true ones."""
    true = np.linspace(0, 1, 4001)
    false = true**power
    below = 1 - share * true - (1 - share) * false
    return np.interp(LEVELS, below[::-1], (true - false)[::-1]), power / (power + 1)


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize(("curve", "size"), [(straight, 0.5), (normal, 0.75), (skewed, 3.0)])
@pytest.mark.parametrize("number", [1, 3, 7])
def test_an_interval_of_exact_points_holds_the_area(curve, size, share, number):
    gaps, true = curve(share, size)
    u = np.arange(1, number + 1) / (number + 1)
    found, error = area(u, 1e-4, np.interp(u, LEVELS, gaps), 1e-4, share)
    assert abs(found - true) < 1.96 * error + 1e-3
    assert error < 0.3 / (number + 1)


def test_points_where_there_are_no_rows_tell_nothing():
    """All rows lie below a threshold, at which both rates are 0 whatever the scores are."""
    found, error = area(np.array([0.999]), 0.05, np.array([0.0]), 0.02, 0.5)
    assert found - 1.96 * error < 0.3
    assert found + 1.96 * error > 0.7


def test_a_class_that_scores_lower_has_an_area_below_a_half():
    u, (gaps, _) = np.array([0.25, 0.5, 0.75]), normal(0.3, 0.8)
    above = area(u, 0.01, np.interp(u, LEVELS, gaps), 0.01, 0.3)
    below = area(u, 0.01, -np.interp(u, LEVELS, gaps), 0.01, 0.3)
    assert above[0] > 0.77
    assert below[0] < 0.23


@pytest.mark.parametrize(("number", "error"), [(1, 0.06), (3, 0.04), (7, 0.03)])
def test_intervals_hold_under_noise(number, error, runs=100):
    """Of 100 intervals of .95, 13 or more miss once in 700 tests."""
    rng = np.random.default_rng(number)
    gaps, true = normal(0.4, 0.75)
    u, missed = np.arange(1, number + 1) / (number + 1), 0
    for _ in range(runs):
        moved = u + error * rng.normal(size=number)
        noisy = np.interp(u, LEVELS, gaps) + error * rng.normal(size=number)
        found, own = area(moved, error, noisy, error, 0.4)
        missed += abs(found - true) > 1.96 * own
    assert missed < 13
