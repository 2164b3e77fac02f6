"""Intervals by inversion hold whatever the distribution is like."""

import numpy as np
import pytest

from ldp_flower.strategies.numerics.quantile_posterior import enclosing_thresholds

AT = np.linspace(0.02, 0.98, 49)
#: Distribution functions less the level, and the smallest value where it is reached.
SHAPES = {
    "even": (lambda t: t - 0.5, 0.5),
    "gap from the quantile on": (lambda t: np.minimum(t, 0.5) - 0.5, 0.5),
    "gap below it": (lambda t: np.where(t < 0.5, -1e-9, t - 0.5), 0.5),
    "tie": (lambda t: np.where(t < 0.5, -0.2, 0.3), 0.5),
    "few entries": (lambda t: 0.02 * (t - 0.5), 0.5),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("guess", [0.5, 0.3])
def test_each_end_is_wrong_in_one_case_of_forty(shape, guess):
    """Of 2,000 intervals 50 miss at most on a side; more than 76 with a probability of 10^-4."""
    rng, (function, true) = np.random.default_rng(0), SHAPES[shape]
    curve, variance = AT - guess, np.full(49, 0.02)
    low = high = 0
    for _ in range(2000):
        excess = function(AT) + np.sqrt(variance) * rng.standard_normal(49)
        lower, upper = enclosing_thresholds(excess, variance, np.zeros(49), curve, 1.96)
        ends = np.concatenate([[0.0], AT, [1.0]])
        low, high = low + (ends[lower + 1] >= true), high + (ends[upper + 1] < true)
    assert low <= 76 and high <= 76


def test_what_is_clear_is_between_the_thresholds_around_it():
    lower, upper = enclosing_thresholds(AT - 0.51, np.full(49, 1e-8), np.zeros(49), AT - 0.51, 1.96)
    assert AT[lower] < 0.51 < AT[upper] and upper == lower + 1


def test_an_error_that_all_reports_share_is_in_the_interval():
    variance, nothing = np.full(49, 1e-3), np.zeros(49)
    alone = enclosing_thresholds(AT - 0.5, variance, nothing, AT - 0.5, 1.96)
    shared = enclosing_thresholds(AT - 0.5, variance, np.full(49, 0.1), AT - 0.5, 1.96)
    assert shared[0] < alone[0] and shared[1] > alone[1]
