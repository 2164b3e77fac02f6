"""Where a noisy function crosses a level; the scale of values; round numbers."""

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr

from ldp_flower.strategies.numerics.quantile_posterior import crossing_posterior, pooled
from ldp_flower.strategies.numerics.value_scale import (
    ValueScale,
    coarsest_step,
    roundest,
    scales_within,
    steps_from,
)


@pytest.mark.parametrize("bounds", [(0.0, 1e9), (-3.0, 5.0), (100.0, 101.0), (-1e6, 0.0)])
def test_a_scale_goes_there_and_back(bounds):
    scale = ValueScale(*bounds)
    places = np.linspace(0, 1, 1000)
    values = scale.values(places)
    assert (np.diff(values) > 0).all() and values[0] == bounds[0] and values[-1] == bounds[1]
    np.testing.assert_allclose(scale.places(values), places, atol=1e-9)


def test_a_generous_scale_still_tells_small_values_apart():
    assert np.diff(ValueScale(0.0, 1e9).places([1e4, 1e5, 1e6])).min() > 0.01


@pytest.mark.parametrize(
    ("low", "high", "near", "expected"),
    [
        (38_000, 41_500, 39_000, 40_000),
        (0.63, 0.74, 0.65, 0.7),
        (-12.4, -11.7, -12.3, -12),
        (-0.3, 0.2, 0.1, 0),
        (54_321, 54_321, 54_321, 54_321),
        (53_000, 56_500, 54_000, 55_000),
    ],
)
def test_the_roundest_number(low, high, near, expected):
    assert roundest(low, high, near) == expected


def test_steps_are_multiples_of_each_other():
    assert coarsest_step(50_000) == 10_000
    np.testing.assert_allclose(steps_from(10_000, 5), [10_000, 5_000, 1_000, 500, 100])


def test_a_crossing_is_found_and_its_spread_is_right():
    rng = np.random.default_rng(0)
    level, noise, count, errors, covered = 0.3, 0.02, 600, [], 0
    for _ in range(60):
        places = np.concatenate([np.linspace(0.1, 0.9, 8), 0.3 + 0.1 * rng.standard_normal(12)])
        curve = expit((places - 0.3) / 0.2 + logit(level))
        values = rng.binomial(count, curve) / count
        values += np.sqrt(noise / count) * rng.standard_normal(20)
        belief = crossing_posterior(places, values, np.full(20, count), noise, level)
        low, high = belief.quantile([0.05, 0.95])
        covered += low <= 0.3 <= high
        errors.append(pooled(belief, places, values, np.ones(20)) - 0.3)
    assert 45 <= covered <= 60  # of 54 expected: below 45 with a probability of 1e-3
    # All 20 at the crossing, whose slope is 1.05, would do with 0.0043.
    assert np.sqrt(np.mean(np.square(errors))) < 0.0075


def test_a_step_is_between_the_measurements_around_it():
    places = np.array([0.1, 0.3, 0.4, 0.42, 0.45, 0.6])
    values = np.where(places < 0.41, 0.2, 0.7)
    belief = crossing_posterior(places, values, np.full(6, 1e5), 0.75, 0.5)
    assert 0.39 < belief.quantile(0.5) < 0.43


@pytest.mark.parametrize(("spread", "finest"), [(0.3, 1.0), (2e-3, 1e-2), (3e-5, 1e-4)])
def test_the_likeliest_scale_around_zero_is_as_fine_as_the_values(spread, finest):
    """The function of normal values, whose plateau on finer scales no logistic curve has."""
    values = spread * np.linspace(-3, 3, 30)
    scales = scales_within(-1.0, 1.0)
    evidence = [
        crossing_posterior(
            each.places(values), ndtr(values / spread), np.full(30, 1e4), 0.75, 0.5
        ).evidence
        for each in scales
    ]
    assert scales[int(np.argmax(evidence))].finest == finest
    assert len(scales_within(0.0, 1.0)) == 1
