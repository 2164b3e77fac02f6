import math

import numpy as np
import pytest

from ldp_flower.randomizers import (
    HybridMechanism,
    PiecewiseMechanism,
    RandomizedResponse,
)

EPSILONS = [0.3, 0.61, 1.0, 2.0, 4.0]
each = pytest.mark.parametrize("cls", [HybridMechanism, PiecewiseMechanism])


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 4.0, 30.0])
def test_the_piecewise_densities_have_the_ratio_of_epsilon(epsilon):
    h = math.exp(epsilon / 2)
    c = PiecewiseMechanism(epsilon).bound
    near, far = h / (h + 1) / (c - 1), 1 / (h + 1) / (c + 1)
    assert math.log(near / far) == pytest.approx(epsilon, rel=1e-9)
    assert near * (c - 1) + far * (c + 1) == pytest.approx(1, rel=1e-12)


def test_the_piecewise_sampler_has_that_density():
    mechanism = PiecewiseMechanism(1.0)
    users, c = 400_000, mechanism.bound
    for t in (-1.0, 0.3, 1.0):
        reports = mechanism.randomize(np.full((users, 1), t), np.random.default_rng(1))
        left = (c + 1) / 2 * t - (c - 1) / 2
        edges = np.unique(np.clip([-c, left, left + (c - 1) / 2, left + c - 1, c], -c, c))
        found = np.histogram(reports, edges)[0] / users
        h = math.exp(0.5)
        inside = (edges[:-1] >= left - 1e-9) & (edges[1:] <= left + c - 1 + 1e-9)
        density = np.where(inside, h / (h + 1) / (c - 1), 1 / (h + 1) / (c + 1))
        expected = density * np.diff(edges)
        # 5 standard errors of at most 4 frequencies each
        assert (np.abs(found - expected) < 5 * np.sqrt(expected / users) + 1e-6).all()


@each
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_and_variance(cls, epsilon):
    mechanism = cls(epsilon, radius=2.0)
    users = 200_000
    for t in (-1.0, -0.5, 0.0, 1.0, 7.0):
        values = np.full((users, 1), 2.0 * t)
        found = mechanism.debias(mechanism.randomize(values, np.random.default_rng(2)))[:, 0]
        inside = min(t, 1.0)
        # 5 standard errors; 75 cases
        assert abs(found.mean() - 2.0 * inside) < 5 * found.std() / math.sqrt(users)
        assert found.var() == pytest.approx(4 * mechanism.variance_at(inside), rel=0.02)
        assert np.abs(found).max() <= mechanism.bound * (1 + 1e-6)
        assert found.var() <= mechanism.variance * 1.03


@pytest.mark.parametrize(
    ("epsilon", "hybrid", "noise", "response"),
    [
        (0.5, 16.7, None, 16.7),
        (1, 5.29, 4.29, 4.68),
        (2, 2.04, 1.04, 1.72),
        (4, 1.22, 0.22, None),
    ],
)
def test_largest_second_moments_are_those_of_the_published_table(epsilon, hybrid, noise, response):
    mechanism = HybridMechanism(epsilon)
    moments = [mechanism.variance_at(t) + t * t for t in np.linspace(0, 1, 101)]
    assert max(moments) == pytest.approx(hybrid, rel=0.005)
    if noise:
        assert mechanism.variance == pytest.approx(noise, rel=0.02)
    if response:
        assert RandomizedResponse(epsilon).variance == pytest.approx(response, rel=0.005)


def test_hybrid_is_constant_above_its_threshold_and_response_below():
    above, below = HybridMechanism(2.0), HybridMechanism(0.6)
    assert above.variance_at(0.0) == pytest.approx(above.variance_at(1.0), rel=1e-9)
    assert below._share == 0.0


@each
def test_an_epsilon_whose_rarer_answers_no_uniform_would_draw_is_refused(cls):
    with pytest.raises(ValueError, match=r"Expected epsilon <= 30, got 31\.0"):
        cls(31.0)


def test_at_the_largest_epsilon_the_unlikely_answer_has_its_chance():
    chance = 0.5 - 0.5 / HybridMechanism(30.0)._response
    assert chance == pytest.approx(math.exp(-30), rel=1e-2)


@each
def test_extreme_epsilons_stay_finite(cls):
    for epsilon in (1e-3, 30.0):
        reports = cls(epsilon).randomize(np.full((100, 1), 0.5), np.random.default_rng(0))
        assert np.isfinite(reports).all() and cls(epsilon).contains(reports)
