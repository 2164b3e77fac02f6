"""Chebyshev expansions and fitted polynomials."""

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Polynomial

from ldp_flower.strategies.collect_once.moment_losses import (
    fitted,
    interpolated,
    is_odd,
    largest_slope,
    truncated,
    value,
)


def logistic(t):
    return 0.5 * np.tanh(t / 2)


@pytest.mark.parametrize(
    ("reach", "degree", "error"), [(1, 1, 0.0047), (2, 3, 0.0024), (4, 3, 0.027), (8, 9, 0.012)]
)
def test_errors_of_the_expansion_are_those_of_the_table(reach, degree, error):
    polynomial = truncated(interpolated(logistic, reach), reach, degree)
    t = np.linspace(-reach, reach, 4001)
    found = np.abs(Polynomial(polynomial)(t) - logistic(t)).max()
    assert found == pytest.approx(error, rel=0.06)


def test_it_is_what_numpy_says():
    link = interpolated(np.exp, 2.0)
    assert not is_odd(link) and is_odd(interpolated(logistic, 3.0))
    expected = Chebyshev.interpolate(np.exp, 40, domain=[-2, 2])
    np.testing.assert_allclose(link[:41], expected.coef, atol=1e-12)
    cut = expected.truncate(5).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])
    np.testing.assert_allclose(truncated(link, 2.0, 4), cut.coef, atol=1e-10)
    np.testing.assert_allclose(value(link, 2.0, np.array([-1.5, 0.3, 9.0])), np.exp([-1.5, 0.3, 2]))


def test_a_fitted_line_has_the_mean_slope():
    """Stein's lemma: the best line's slope on a normal is the mean of the derivative."""
    draws = np.random.default_rng(0).standard_normal(400_000) * 1.3
    line = fitted(interpolated(logistic, 12.0), 12.0, 1, 5.0, 1.3)  # odd: the mean is ignored
    assert line[0] == 0
    assert line[1] == pytest.approx(np.mean(1 / (4 * np.cosh(draws / 2) ** 2)), abs=5e-4)


@pytest.mark.parametrize("degree", [2, 3])
def test_polynomials_are_fitted_to_themselves(degree):
    wanted = np.array([0.3, -0.4, 0.2, 0.1])[: degree + 1]
    link = interpolated(Polynomial(wanted), 3.0)
    np.testing.assert_allclose(fitted(link, 3.0, degree, 0.5, 0.4), wanted, atol=1e-6)
    t = np.linspace(-3, 3, 1001)
    assert np.abs(Polynomial(wanted).deriv()(t)).max() <= largest_slope(wanted, 3.0)
