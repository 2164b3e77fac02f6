"""Plain iterative hard thresholding, without privacy."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from ldp_flower.questions.links import LINKS
from ldp_flower.questions.sparse import iht, objective


def data(seed, rows=2000, dim=30, sparsity=4, link="identity"):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (rows, dim))
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.choice([-1.0, 1.0], sparsity)
    if link == "logistic":
        return x, (rng.random(rows) < expit(x @ theta)).astype(float), theta
    return x, LINKS[link].mean(x @ theta) + rng.uniform(-0.05, 0.05, rows), theta


def test_one_step_on_a_full_design_is_exact():
    """All sign vectors: the gradient at 0 is minus theta, so a wrong sign shows at once."""
    x = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T
    theta = np.array([0.5, 0, -1.5, 0, 0, 2.0])
    np.testing.assert_allclose(iht(x, x @ theta, 3, max_steps=1), theta, atol=1e-12)


@pytest.mark.parametrize(("link", "largest"), [("identity", 0.01), ("cosine", 0.01)])
def test_it_recovers_a_sparse_vector(link, largest):
    for seed in range(5):
        x, y, theta = data(seed, link=link)
        found = iht(x, y, 4, link=link)
        assert np.linalg.norm(found - theta) < largest * np.linalg.norm(theta)


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_it_finds_the_best_support_of_all(link):
    x, y, _ = data(0, rows=300, dim=7, sparsity=2, link=link)
    found = objective(iht(x, y, 2, link=link, ridge=0.1), x, y, link=link, ridge=0.1)

    def best_on(support):
        def value(coef):
            theta = np.zeros(7)
            theta[list(support)] = coef
            return objective(theta, x, y, link=link, ridge=0.1)

        return minimize(value, np.zeros(2)).fun

    best = min(best_on(support) for support in combinations(range(7), 2))
    assert found == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("link", LINKS)
def test_scores_are_derivatives_of_losses(link):
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((2, 50))
    slope = (LINKS[link].loss(u + 1e-6, y) - LINKS[link].loss(u - 1e-6, y)) / 2e-6
    np.testing.assert_allclose(LINKS[link].score(u, y), slope, atol=1e-7)


def test_the_logistic_score_is_bounded_by_its_largest():
    u = np.linspace(-50, 50, 101)
    for y in (0.0, 1.0):
        assert np.abs(LINKS["logistic"].score(u, y)).max() <= LINKS["logistic"].largest_score


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_more_steps_never_make_it_worse(link):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 200)) + rng.standard_normal((100, 1))  # correlated, wide
    y = (x[:, 0] > 0).astype(float)
    values = [objective(iht(x, y, 5, link=link, max_steps=t), x, y, link=link) for t in range(8)]
    assert (np.diff(values) <= 1e-12).all()


def test_the_radius_bounds_the_result():
    x, y, _ = data(0)
    assert np.linalg.norm(iht(x, y, 4, radius=0.5)) <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.full((5, 3), 1e-170), np.full(5, 1e175)),
        (np.array([[1.0, 0.0, 0.0], [0.0, 1e-160, 0.0]]), np.array([1.0, 1e300])),
        (np.full((5, 3), 1e200), np.full(5, 1e200)),
        (np.full((5, 3), 1e-320), np.ones(5)),
    ],
)
def test_it_ends_whatever_the_numbers(x, y):
    """Step sizes that overflow or vanish: a client must not work on a user for ever."""
    with np.errstate(all="ignore"):
        assert iht(x, y, 1).shape == (3,)


def test_targets_of_zero_give_zero():
    assert not iht(np.ones((5, 3)), np.zeros(5), 2).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity": 0}, "Expected an integer sparsity >= 1, got 0"),
        ({"sparsity": 1, "link": "probit"}, "Expected link in .*, got 'probit'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        iht(np.ones((5, 3)), np.zeros(5), **arguments)
