"""Budget of noisy sums: what a plan is charged covers the exact loss of discrete noise."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from ldp_flower.accounting import gaussian_delta, zcdp_rho
from ldp_flower.randomizers import BallSum
from ldp_flower.randomizers.discrete_gaussian import SIGMA
from ldp_flower.randomizers.sum_budget import MOST_DRAWS, plan_epsilon, plan_rho
from ldp_flower.randomizers.sums import PARTS


def law(sigma):
    """Return the discrete Gaussian's probabilities, and those of a rounded Gaussian."""
    places = np.arange(-40 * sigma, 40 * sigma + 1)
    discrete = np.exp(-(places**2) / (2 * sigma**2))
    rounded = ndtr((places + 0.5) / sigma) - ndtr((places - 0.5) / sigma)
    return discrete / discrete.sum(), rounded


@pytest.mark.parametrize("sigma", [2, 4, 16, 64])
def test_discrete_noise_is_near_a_rounded_gaussian(sigma):
    """The bound of docs/accounting.md; the second summand is nothing at 2**26."""
    discrete, rounded = law(sigma)
    distance = np.abs(discrete - rounded).sum() / 2
    assert 0.019 / sigma**2 < distance < 0.0202 / sigma**2 + 0.05 / sigma**3


@pytest.mark.parametrize(("sigma", "moves"), [(4, (1, 2)), (16, (3, 2, 5)), (16, (0, 6))])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_delta_of_several_discrete_sums_is_what_the_proof_allows(sigma, moves, epsilon):
    """The loss of reports that move by so much, composed by enumeration."""
    discrete, _ = law(sigma)
    here, there = np.ones(1), np.ones(1)
    for move in moves:
        moved = np.roll(discrete, move)  # 40 sigma away there is nothing to be carried over
        here = np.outer(here, discrete).ravel()
        there = np.outer(there, moved).ravel()
        likely = here + there > 1e-13
        here, there = here[likely], there[likely]
    delta = np.maximum(here - np.exp(epsilon) * there, 0).sum()
    mu = math.sqrt(sum(move**2 for move in moves)) / sigma
    paid = (1 + math.exp(epsilon)) * len(moves) * (0.0202 / sigma**2 + 0.05 / sigma**3)
    assert delta <= gaussian_delta(epsilon, mu) + paid + 1e-8


@pytest.mark.parametrize("delta", [1e-4, 1e-5, 1e-6, 1e-7, 1e-9, 1e-30])
def test_a_plan_costs_what_it_is_charged(delta):
    """By the exact profile with its distance, or by zCDP; more epsilon never has more noise."""
    budgets = []
    for epsilon in np.geomspace(0.01, 60, 60):
        rho = plan_rho(epsilon, delta)
        distance = MOST_DRAWS * 0.0202 / SIGMA**2
        allowed = [
            limit
            for limit in np.append(np.geomspace(0.01, epsilon, 200), epsilon)
            if gaussian_delta(limit, math.sqrt(2 * rho)) + (1 + np.exp(limit)) * distance <= delta
        ]
        assert allowed or rho <= zcdp_rho(epsilon, delta)
        budgets.append(rho)
    assert (np.diff(budgets) >= 0).all()
    assert budgets[0] > 0


def test_noise_is_smaller_than_by_zcdp_at_the_usual_delta():
    for epsilon, gain in ((0.25, 1.07), (1.0, 1.066), (4.0, 1.057)):
        assert math.sqrt(plan_rho(epsilon, 1e-6) / zcdp_rho(epsilon, 1e-6)) > gain
    assert plan_rho(1.0, 1e-9) == zcdp_rho(1.0, 1e-9)  # the distance alone would cost more


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_epsilon_of_a_budget_is_rounded_up(delta):
    for epsilon in (0.01, 0.3, 1.0, 3.0, 4.0, 9.0):
        rho = plan_rho(epsilon, delta)
        found = plan_epsilon(rho, delta)
        assert found <= epsilon * (1 + 1e-8)
        assert plan_rho(found * (1 + 1e-11), delta) >= rho * (1 - 1e-11)


def test_a_report_has_its_part_of_the_draws():
    width = MOST_DRAWS // PARTS
    assert BallSum(1.0, dim=width, parts=1).dim == width
    with pytest.raises(ValueError, match="Expected dim <= 26,843 with 1 of 10,000 parts"):
        BallSum(1.0, dim=width + 1, parts=1)


def test_integers_stay_within_64_bits():
    mechanism = BallSum(100.0, dim=3, honest=256)
    assert mechanism.one == 1 << 31
    assert mechanism.integers(np.eye(3) * 1e300).max() == 1 << 31
