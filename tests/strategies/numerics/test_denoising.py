"""Thresholds by what they promise, projections against generic solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from ldp_flower.strategies.numerics.denoising import (
    keep_above,
    project_on_l1_ball,
    raise_eigenvalues,
    shrink,
)

vectors = arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6))


def test_keep_above():
    assert keep_above(np.array([-3.0, 1.0, 2.0]), 1.0).tolist() == [-3.0, 0.0, 2.0]


@given(vectors, st.floats(1e-3, 1e3))
def test_taking_noise_off_never_turns_or_lengthens(vector, variance):
    shorter = shrink(vector, variance)
    assert (shorter * vector >= 0).all()
    assert (np.abs(shorter) <= np.abs(vector) * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_l1_projection_is_the_closest_point_of_the_ball(seed):
    """Twice the variables: positive and negative parts, for a solver of smooth problems."""
    vector = np.random.default_rng(seed).standard_normal(6)
    closest = minimize(
        lambda parts: np.sum((parts[:6] - parts[6:] - vector) ** 2),
        np.zeros(12),
        bounds=[(0, None)] * 12,
        constraints={"type": "ineq", "fun": lambda parts: 1.3 - parts.sum()},
        tol=1e-12,
    ).x
    found = project_on_l1_ball(vector, 1.3)
    assert np.abs(found).sum() == pytest.approx(1.3)
    np.testing.assert_allclose(found, closest[:6] - closest[6:], atol=1e-5)


def test_what_is_in_the_ball_stays_and_ties_are_shared():
    np.testing.assert_array_equal(project_on_l1_ball(np.array([0.3, -0.4]), 0.7), [0.3, -0.4])
    np.testing.assert_allclose(project_on_l1_ball(np.array([2.0, -2.0]), 1.0), [0.5, -0.5])
    np.testing.assert_array_equal(project_on_l1_ball(np.zeros(3), 1.0), np.zeros(3))


def test_eigenvalues_are_raised_and_nothing_else():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((7, 7))
    matrix += matrix.T
    for least in (0.0, 0.4):
        found = raise_eigenvalues(matrix, least)
        values = np.linalg.eigvalsh(found)
        np.testing.assert_allclose(
            values, np.maximum(np.linalg.eigvalsh(matrix), least), atol=1e-12
        )
        np.testing.assert_allclose(found @ matrix, matrix @ found, atol=1e-12)  # same vectors
    once = raise_eigenvalues(matrix)
    np.testing.assert_allclose(raise_eigenvalues(once), once, atol=1e-12)
