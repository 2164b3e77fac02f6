"""Kifer, Smith & Thakurta's two stages against what a hand computes."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from ldp_flower.accounting import gaussian_epsilon

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def estimator(**changes):
    from simulations.baselines.two_stage import TwoStage

    options = {"sparsity": 2, "epsilon": 2.0, "delta": 0.01, "radius": 3.0}
    return TwoStage(**options | {"row_bound": 2.0, "target_bound": 4.0} | changes)


def test_the_numbers_of_the_second_stage():
    """Bounds 2 and 4, radius 3: a gradient of 2 (6 + 4); t is 3.023 for an eighth of .01."""
    method = estimator()
    assert method.slope == 20 and method.ridge == 8
    share = method.slope / method.sigma
    assert 2 * 3.02334 * share + 2 * share**2 == pytest.approx(0.5, rel=1e-5)
    assert 8 * ndtr(-3.02334) == pytest.approx(0.01, rel=1e-4)


def test_the_fit_is_least_squares_by_hand():
    """X'X is diag(5, 8), X'y is (7, 4): with a ridge of 8 and noise of 1 it is 6/13 and 3/16."""
    method = estimator(row_bound=2.0)
    x = np.array([[1.0, 0], [2, 0], [0, 2], [0, -2]])
    y = np.array([1.0, 3, 1, -1])
    np.testing.assert_allclose(method.fitted(x, y, np.ones(2)), [6 / 13, 3 / 16])
    # Twice as long a row, and a target beyond its bound, count as these.
    far, beyond = np.concatenate([x, [[4.0, 0]]]), np.append(y, 9.0)
    near, within = np.concatenate([x, [[2.0, 0]]]), np.append(y, 4.0)
    np.testing.assert_allclose(
        method.fitted(far, beyond, np.zeros(2)), method.fitted(near, within, np.zeros(2))
    )


def test_a_fit_beyond_the_ball_is_the_best_point_of_its_surface():
    method = estimator(radius=0.3)
    x = np.array([[1.0, 0], [2, 0], [0, 2], [0, -2]])
    y = np.array([1.0, 3, 1, -1])
    found = method.fitted(x, y, np.ones(2))
    angles = np.linspace(0, 2 * np.pi, 100_001)
    surface = 0.3 * np.stack([np.cos(angles), np.sin(angles)])
    objective = np.array([13.0, 16.0]) @ surface**2 / 2 - np.array([6.0, 3.0]) @ surface
    np.testing.assert_allclose(found, surface[:, np.argmin(objective)], atol=1e-4)


def test_no_gradient_is_longer_than_stated():
    """The longest is of a row along the coefficients, with the opposite target."""
    method = estimator()
    row, theta, target = np.array([2.0, 0]), np.array([3.0, 0]), -4.0
    assert np.linalg.norm(row * (row @ theta - target)) == method.slope


def test_the_noise_of_votes_is_for_a_block_that_votes_for_others():
    """Two votes less and two more are 2 apart, at epsilon 1 and delta .005."""
    noise = estimator().vote_noise
    assert gaussian_epsilon(2 / noise, 0.005) == pytest.approx(1.0, abs=1e-4)
    # Six votes more win as often as a normal is below 6 / (noise sqrt(2)); within 4 errors.
    one, rng = estimator(sparsity=1), np.random.default_rng(0)
    chance = ndtr(6 / (one.vote_noise * math.sqrt(2)))
    wins = [one.chosen(np.array([9, 3]), rng).tolist() == [0] for _ in range(20_000)]
    assert np.mean(wins) == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 20_000))


def test_votes_are_counted_block_by_block():
    """Nine records in three blocks, whose targets are one feature each; replacing one moves 1."""
    from simulations.baselines.two_stage import votes

    x = np.tile(np.eye(3), (3, 1))
    y = np.array([5.0, 0, 0, 5, 0, 0, 0, 5, 0])
    assert votes(x, y, 1).tolist() == [2, 1, 0]
    y[7], y[8] = 0, 5
    assert votes(x, y, 1).tolist() == [2, 0, 1]


def test_two_stages_find_coefficients_where_noise_is_small():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40_000, 20))
    y = 1.5 * x[:, 3] - x[:, 8]
    coef = estimator(epsilon=20.0).estimate(x, y, rng)
    assert np.flatnonzero(coef).tolist() == [3, 8]
    np.testing.assert_allclose(coef[[3, 8]], [1.5, -1], atol=0.05)
