"""The non-private counterparts find what there is to find."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "simulations" / "baselines" / "selected_regression.py"
SPEC = importlib.util.spec_from_file_location("selected_regression", PATH)
baselines = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(baselines)


@pytest.mark.parametrize("fit", ["two_round_regression", "multi_round_regression"])
def test_error_without_privacy(fit):
    """Noise of 60 x 50 rows has standard deviation 0.02 per coefficient."""
    rng = np.random.default_rng(0)
    beta = np.zeros(20)
    beta[[3, 8, 11]] = 0.5, -0.5, 0.5
    x = rng.standard_normal((120, 50, 20))
    y = x @ beta + rng.standard_normal((120, 50))
    coef = getattr(baselines, fit)(x, y, 3)
    assert set(np.flatnonzero(coef)) == {3, 8, 11}
    assert np.linalg.norm(coef - beta) < 0.2
