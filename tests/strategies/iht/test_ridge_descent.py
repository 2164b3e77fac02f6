"""The zero of a line fitted to mean directions, where it is known."""

import numpy as np

from ldp_flower.strategies.iht.ridge_descent import _zero_of

STEPS, DIM, SLOPE = 30, 40, 0.4


def lines(seed):
    """Return positions around a zero, the zero, and the directions that point to it."""
    rng = np.random.default_rng(seed)
    zero = rng.standard_normal(DIM)
    positions = zero + rng.standard_normal((STEPS, DIM)) + 0.2
    return positions, zero, SLOPE * (zero - positions)


def test_the_zero_of_an_exact_line_is_found_wherever_it_was_asked_from():
    positions, zero, directions = lines(0)
    for offset in (0.0, 5.0):  # all positions on one side of the zero
        moved, pointing = positions + offset, directions - SLOPE * offset
        found = _zero_of(moved, pointing, np.arange(STEPS) + 1, 100.0)
        np.testing.assert_allclose(found, zero, atol=1e-12)


def test_noise_moves_the_zero_as_least_squares_with_these_weights_say():
    """Later steps and more users count more. A mean square over 8,000 numbers is off by .016."""
    counts = np.where(np.arange(STEPS) % 2, 200, 50)
    weights = counts * np.arange(1, STEPS + 1)
    expected = 0.1**2 * np.sum(weights**2 / counts) / weights.sum() ** 2 / SLOPE**2
    squares = []
    for seed in range(200):
        positions, zero, directions = lines(seed)
        noise = np.random.default_rng([1, seed]).standard_normal((STEPS, DIM))
        directions = directions + 0.1 * noise / np.sqrt(counts)[:, None]
        squares.append(np.mean((_zero_of(positions, directions, counts, 100.0) - zero) ** 2))
    assert abs(np.mean(squares) / expected - 1) < 0.08


def test_directions_that_tell_no_slope_are_followed_as_far_as_the_steps_went():
    positions, _, _ = lines(2)
    weights = np.arange(1, STEPS + 1) / np.arange(1, STEPS + 1).sum()
    same = np.tile(np.eye(1, DIM), (STEPS, 1))
    found = _zero_of(positions, same, np.ones(STEPS, np.int64), 3.0)
    np.testing.assert_allclose(found, weights @ positions + 3 * same[0])
