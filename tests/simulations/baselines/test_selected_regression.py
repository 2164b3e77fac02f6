"""The non-private counterparts find what there is to find."""

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.parametrize("fit", ["two_round_regression", "multi_round_regression"])
def test_error_without_privacy(fit):
    """Noise of 60 x 50 rows has standard deviation 0.02 per coefficient."""
    from simulations.baselines import selected_regression

    rng = np.random.default_rng(0)
    beta = np.zeros(20)
    beta[[3, 8, 11]] = 0.5, -0.5, 0.5
    x = rng.standard_normal((120, 50, 20))
    y = x @ beta + rng.standard_normal((120, 50))
    coef = getattr(selected_regression, fit)(x, y, 3)
    assert set(np.flatnonzero(coef)) == {3, 8, 11}
    assert np.linalg.norm(coef - beta) < 0.2
