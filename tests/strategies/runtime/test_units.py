"""Coefficients as tables show them."""

import numpy as np

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.strategies.runtime.units import contrasts

SCHEMA = Schema(
    {"age": Numeric(0, 9), "sector": Categories(["a", "b", "c"]), "up": Categories([0, 1])},
    target="wage",
    bounds=Numeric(0, 1),
)


def test_slopes_of_categories_are_differences_from_an_average_one():
    coef = np.random.default_rng(0).normal(size=(2, 7))
    found = contrasts(SCHEMA, coef)
    assert np.allclose(found[:, 2:5].sum(axis=1), 0) and np.allclose(found[:, 5:].sum(axis=1), 0)
    assert np.array_equal(found[:, :2], coef[:, :2])
    table = {"age": [1, 5, 7], "sector": ["a", "c", "unknown"], "up": [1, 0, 1]}
    features = SCHEMA.features(table)
    assert np.allclose(features @ found.T, features @ coef.T)
