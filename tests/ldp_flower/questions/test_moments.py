"""Packed powers keep lengths and inner products, and come back."""

import numpy as np
import pytest

from ldp_flower.questions.moments import (
    contracted,
    monomials,
    num_moments,
    packed_power,
    tensor_powers,
    unpacked_square,
)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6])
def test_inner_products_of_packed_powers_are_powers_of_inner_products(degree):
    rows = np.random.default_rng(degree).standard_normal((6, 5))
    packed = packed_power(rows, degree)
    expected = (rows @ rows.T) ** degree
    np.testing.assert_allclose(packed @ packed.T, expected, atol=1e-14 * expected.max())


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_squares_come_back(dim):
    row = np.random.default_rng(dim).standard_normal(dim)
    found = unpacked_square(packed_power(row[None], 2)[0])
    np.testing.assert_allclose(found, np.outer(row, row), atol=1e-15)


def test_squares_are_in_the_order_of_the_upper_triangle():
    np.testing.assert_array_equal(monomials(4, 2)[0].T, np.triu_indices(4))


@pytest.mark.parametrize(
    ("dim", "degree", "size"), [(16, 1, 152), (64, 1, 2144), (5, 3, 90), (5, 5, 300), (16, 3, 4028)]
)
def test_sizes(dim, degree, size):
    assert num_moments(dim, tensor_powers(degree, 2)) == size


def test_powers_of_odd_and_of_other_polynomials():
    assert list(tensor_powers(3, 2)) == [2, 4]
    assert list(tensor_powers(2, 1)) == [1, 2, 3]


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6])
def test_contraction_is_the_mean_of_its_docstring(degree):
    rng = np.random.default_rng(degree)
    rows, vector = rng.standard_normal((20, 5)), rng.standard_normal(5)
    expected = ((rows @ vector) ** (degree - 1) @ rows) / 20
    found = contracted(packed_power(rows, degree).mean(axis=0), vector, degree)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
