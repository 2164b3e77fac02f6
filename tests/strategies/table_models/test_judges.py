"""What judges' moments come to: least squares on a line, a level and an R2."""

import numpy as np
import pytest

from ldp_flower.strategies.table_models.judges import Line, Number, score


def moments_of(r, q, scales, noise):
    """Return the exact moments of residuals and steps, said to have some noise."""
    r, q = r / scales[0], q / scales[1]
    means = np.mean([r, q, r * q, q * q, r * r], axis=1)
    return Line(np.array(scales), means, np.full(5, noise))


@pytest.fixture
def model():
    """Return targets, and predictions that are too short and too low."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(4000)
    return truth + 0.5 * rng.standard_normal(4000) + 0.3, 0.5 * truth


def test_certain_judges_find_least_squares_whatever_the_scales(model):
    target, predicted = model
    slope, intercept = np.polyfit(predicted, target, 1)
    for scales in ([0.6, 0.5], [0.3, 1.0]):
        line = moments_of(target - predicted, predicted, scales, 1e-9)
        move = line.best_move(0.0, 0.4)
        assert 1 + move == pytest.approx(slope, abs=1e-6)
        level = line.level_after(move)
        assert level.value == pytest.approx(intercept, abs=1e-6) and level.std_error < 1e-8


def test_judges_who_know_nothing_leave_what_is_usual(model):
    target, predicted = model
    line = moments_of(target - predicted, predicted, [0.6, 0.5], 100.0)
    assert line.best_move(0.1, 0.4) == pytest.approx(0.1, abs=1e-3)
    np.testing.assert_allclose(line.sizes, [0.6, 0.5], rtol=1e-3)


def test_sizes_are_those_of_the_tails_where_these_are_known(model):
    target, predicted = model
    line = moments_of(target - predicted, predicted, [0.4, 0.4], 1e-6)
    wanted = [np.sqrt(np.mean(x**2)) for x in (target - predicted, predicted)]
    np.testing.assert_allclose(line.sizes, wanted, rtol=1e-3)


def noisy(line, rng):
    return Line(line.scales, line.moments + 0.02 * rng.standard_normal(5), line.noise)


def test_the_score_is_r2_and_not_surer_than_its_noise(model):
    target, predicted = model
    exact = moments_of(target - predicted, predicted, [0.6, 0.5], 0.02)
    r2 = 1 - np.mean((target - predicted) ** 2) / np.var(target)
    found = score(exact)
    assert found.value == pytest.approx(r2, abs=1e-6)
    rng = np.random.default_rng(1)
    values = [score(noisy(exact, rng)).value for _ in range(500)]
    assert np.std(values) < 1.16 * found.std_error  # 5 standard errors


def test_of_a_useless_model_the_score_has_the_error_that_noise_makes(model):
    target, predicted = model
    # Predictions that have nothing to do with the targets, and are small.
    predicted = 0.1 * np.random.default_rng(2).permutation(predicted)
    exact = moments_of(target - predicted, predicted, [1.1, 0.05], 0.02)
    rng = np.random.default_rng(1)
    values = [score(noisy(exact, rng)).value for _ in range(500)]
    assert np.std(values) == pytest.approx(score(exact).std_error, rel=0.16)


def test_a_score_that_noise_drowns_is_not_known(model):
    target, predicted = model
    found = score(moments_of(target - predicted, predicted, [0.6, 0.5], 5.0))
    assert np.isnan(found.value) and np.isnan(found.std_error)


def line_from_the_mean(share, noise, rng):
    """Return what users report of a line whose steps explain this share of the variance."""
    steps = rng.standard_normal(4000)
    target = np.sqrt(share) * steps + np.sqrt(1 - share) * rng.standard_normal(4000)
    line = moments_of(target, steps, [1.0, 1.0], noise)
    return Line(line.scales, line.moments + noise * rng.standard_normal(5), line.noise), share


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_move_seldom_costs_more_than_is_tolerated(share, noise):
    """By 1.8 standard errors 14 of 400 are expected at R2 -.03, and more than 25 once in 300."""
    rng = np.random.default_rng(0)
    worth = []
    for _ in range(400):
        line, share = line_from_the_mean(share, noise, rng)
        move, _ = line.safe_move()
        worth.append(2 * move * np.sqrt(share) - move**2)
    assert np.mean(np.array(worth) < -0.05) <= 25 / 400
    assert np.median(worth) >= (0.0 if share else -0.01)


def test_a_move_that_is_surely_good_is_taken_whole():
    line, _ = line_from_the_mean(0.5, 0.02, np.random.default_rng(0))
    move, explained = line.safe_move()
    assert move == pytest.approx(np.sqrt(0.5), abs=0.1) and explained == pytest.approx(0.5, abs=0.1)


def test_numbers_are_pooled_by_precision():
    pooled = Number(1.0, 1.0).pooled(Number(4.0, 0.5))
    assert pooled.value == pytest.approx(3.4) and pooled.std_error == pytest.approx(0.2**0.5)
