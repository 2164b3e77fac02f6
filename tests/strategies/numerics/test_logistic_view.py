"""Linear and logistic coefficients of the same classes, against numerical integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ldp_flower.strategies.numerics.logistic_view import (
    as_logistic,
    logistic_std_error,
    logistic_unexplained,
)


def expected(function):
    return quad(lambda z: function(z) * norm.pdf(z), -12, 12, epsabs=1e-12)[0]


@pytest.mark.parametrize("length", [0.0, 0.01, 0.5, 1.0, 3.0, 7.5])
def test_the_length_is_that_of_normal_features(length):
    direction = np.array([0.6, 0.0, -0.8])
    linear = expected(lambda z: z * np.tanh(length * z / 2)) * direction
    np.testing.assert_allclose(as_logistic(linear), length * direction, rtol=2e-3)
    left = expected(lambda z: 1 - np.tanh(length * z / 2) ** 2)
    assert logistic_unexplained(linear) == pytest.approx(left, rel=2e-3)


def test_longer_ones_than_any_logistic_model_has_are_shortened():
    assert np.linalg.norm(as_logistic(np.array([0.9, 0.4]))) == pytest.approx(10.0)


@pytest.mark.parametrize("linear", [np.zeros(3), np.array([0.3, -0.2, 0.0])])
def test_standard_errors_follow_from_the_derivative(linear):
    variance = np.array([1e-4, 4e-4, 9e-4])
    step = 0.02
    columns = [
        (as_logistic(linear + step * unit) - as_logistic(linear - step * unit)) / (2 * step)
        for unit in np.eye(3)
    ]
    found = logistic_std_error(linear, variance)
    np.testing.assert_allclose(found, np.sqrt(np.square(columns).T @ variance), rtol=0.01)
