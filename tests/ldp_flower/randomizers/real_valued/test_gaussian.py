import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_flower.randomizers.real_valued import gaussian
from ldp_flower.randomizers.real_valued.gaussian import (
    GaussianMechanism,
    gaussian_delta,
    gaussian_mu,
)


@given(st.floats(1e-3, 50), st.floats(-15, -0.5).map(lambda exponent: 10**exponent))
def test_mu_is_the_largest_one_that_is_private(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert delta * (1 - 1e-6) <= gaussian_delta(epsilon, mu) <= delta


@pytest.mark.parametrize(
    ("epsilon", "sigmas"),
    [
        (0.5, (3.147, 4.610, 7.032, 8.058)),
        (1, (1.878, 2.575, 3.731, 4.225)),
        (2, (1.116, 1.445, 1.994, 2.231)),
        (4, (0.669, 0.823, 1.081, 1.194)),
        (8, (0.408, 0.480, 0.600, 0.653)),
        (10, (0.350, 0.406, 0.500, 0.541)),
    ],
)
def test_sigma_over_sensitivity_is_that_of_the_published_table(epsilon, sigmas):
    for delta, sigma in zip((1e-2, 1e-3, 1e-5, 1e-6), sigmas, strict=True):
        assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(sigma, abs=6e-4)


@pytest.mark.parametrize(
    ("dim", "delta", "moments"),
    [
        (8, 1e-5, (1582, 445, 127, 37, 11.5)),
        (8, 1e-6, (2078, 571, 159, 46, 13.6)),
        (64, 1e-5, (12658, 3563, 1018, 299, 92)),
        (64, 1e-6, (16621, 4569, 1274, 365, 109)),
        (256, 1e-5, (50633, 14252, 4071, 1197, 369)),
        (1024, 1e-5, (202533, 57007, 16283, 4788, 1476)),
    ],
)
def test_noise_of_a_vector_is_that_of_the_published_table(dim, delta, moments):
    found = [GaussianMechanism(e, dim, delta=delta).variance * dim for e in (0.5, 1, 2, 4, 8)]
    assert found == pytest.approx(moments, rel=0.02)


def test_deltas_next_to_one_have_a_mu_like_any_other():
    """Rounding hides a change of mu there: by steps of 1e-9 the search took minutes."""
    delta = math.nextafter(1, 0)
    with mock.patch.object(gaussian, "surely_at_most", wraps=gaussian.surely_at_most) as checks:
        assert gaussian_delta(90.0, gaussian_mu(90.0, delta)) <= delta
    assert checks.call_count < 100


def test_the_classical_formula_violates_its_delta():
    sigma = math.sqrt(2 * math.log(1.25 / 1e-2)) / 10
    assert gaussian_delta(10, 1 / sigma) == pytest.approx(0.0406, rel=0.01)


def test_the_noise_is_calibrated_to_the_diameter():
    mechanism = GaussianMechanism(2.0, 3, radius=5.0, delta=1e-5)
    assert mechanism.sigma == pytest.approx(10 * 1.994, rel=1e-3)
    assert mechanism.delta == 1e-5
    users = 100_000
    far = np.tile([30.0, 0.0, 0.0], (users, 1))
    reports = mechanism.randomize(far, np.random.default_rng(0)).astype(float)
    errors = (reports.mean(axis=0) - [5.0, 0, 0]) / (mechanism.sigma / math.sqrt(users))
    assert np.abs(errors).max() < 5
    np.testing.assert_allclose(reports.std(axis=0), mechanism.sigma, rtol=0.02)


def test_any_row_is_shortened_before_noise_is_added():
    mechanism = GaussianMechanism(50.0, 2, radius=1.0, delta=0.1)
    rows = np.array([[1e308, 1e308], [-1e308, 0], [np.nan, 1e9], [np.inf, 0]])
    users = np.repeat(rows, 2000, axis=0)
    reports = mechanism.randomize(users, np.random.default_rng(0)).reshape(4, 2000, 2)
    expected = [[0.5**0.5, 0.5**0.5], [-1, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(reports.mean(axis=1), expected, atol=5 * mechanism.sigma / 2000**0.5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_delta_must_be_a_probability(delta):
    with pytest.raises(ValueError, match="Expected 0 < delta < 1"):
        GaussianMechanism(1.0, 2, delta=delta)


@pytest.mark.parametrize("radius", [5e-324, 9e-301])
def test_a_radius_that_is_too_small_for_a_grid_is_refused(radius):
    """With the smallest ones a report was no number, whatever was asked about."""
    with pytest.raises(ValueError, match="Expected radius >= 1e-300"):
        GaussianMechanism(1.0, 5, radius)
    report = GaussianMechanism(1.0, 5, 1e-300).randomize(np.ones((3, 5)), np.random.default_rng(0))
    assert np.isfinite(report).all()
