"""Columns brought to one scale: what models of them are in units of the schema's features."""

import numpy as np

from ldp_flower.strategies.subprotocols.standardisation import Standardisation


def test_a_model_of_standardised_columns_predicts_the_same_of_the_features():
    rng = np.random.default_rng(0)
    means, scales = rng.standard_normal(5), np.exp(rng.standard_normal(5))
    means[0], scales[0] = 0.0, 1.0  # the constant
    columns = Standardisation(means, scales)
    coef, x = rng.standard_normal(4), np.c_[np.ones(9), rng.standard_normal((9, 3))]
    moved = (x - means[:-1]) / scales[:-1]
    expected = means[-1] + scales[-1] * (moved @ coef)
    np.testing.assert_allclose(x @ columns.restored(coef), expected)
    np.testing.assert_allclose(columns.moved(columns.restored(coef)), coef)
