"""The rotation is orthogonal, and spreads what is concentrated."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from ldp_flower.questions.public_maps import rotate, rotate_back
from ldp_flower.randomizers.elementwise import padded_size


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 33])
def test_it_is_the_matrix_of_its_docstring_and_comes_back(dim):
    rng = np.random.default_rng(dim)
    values, signs = rng.standard_normal((5, dim)), rng.choice([-1.0, 1.0], dim)
    order = padded_size(dim)
    matrix = hadamard(order)[:, :dim] * signs / np.sqrt(order)
    rotated = rotate(values, signs)
    np.testing.assert_allclose(rotated, values @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(rotate_back(rotated, signs), values, atol=1e-12)


def test_one_large_coordinate_is_spread_evenly():
    rotated = rotate(np.eye(64)[:1] * 8, np.ones(64))
    np.testing.assert_allclose(np.abs(rotated), 1.0)
