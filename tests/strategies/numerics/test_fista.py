"""FISTA against scikit-learn's Lasso and against its own guarantee."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from ldp_flower.questions.sparse import project_on_ball
from ldp_flower.strategies.numerics.denoising import soften
from ldp_flower.strategies.numerics.first_order import fista


def problem(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((50, 12)) * np.arange(1, 13)
    return x.T @ x / 50, x.T @ (x[:, 1] - x[:, 4] + rng.standard_normal(50)) / 50, x


def test_it_solves_the_lasso():
    squares, products, x = problem()
    target = np.linalg.lstsq(x.T / 50, products)[0]
    expected = Lasso(alpha=0.7, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, target)
    found = fista(
        lambda w: squares @ w - products,
        lambda w, step: soften(w, 0.7 * step),
        np.linalg.eigvalsh(squares)[-1],
        np.zeros(12),
        20_000,
    )
    np.testing.assert_allclose(found, expected.coef_, atol=1e-6)
    assert 0 < (found == 0).sum() < 12


@pytest.mark.parametrize("steps", [1, 10, 100])
def test_its_excess_is_within_the_bound(steps):
    squares, products, _ = problem(1)
    smoothness = np.linalg.eigvalsh(squares)[-1]

    def loss(w):
        return w @ squares @ w / 2 - products @ w

    def solved(num_steps):
        return fista(
            lambda w: squares @ w - products,
            lambda w, _: project_on_ball(w, 0.5),
            smoothness,
            np.zeros(12),
            num_steps,
        )

    best = solved(100_000)
    assert np.linalg.norm(best) <= 0.5 + 1e-12
    assert loss(solved(steps)) - loss(best) <= 2 * smoothness * 0.25 / (steps + 1) ** 2 + 1e-12
