import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaincinv

from ldp_flower.randomizers.real_valued.privunit import DuchiBall, LiftedPrivUnit, PrivUnit
from ldp_flower.randomness import derive

DIMS = [1, 2, 3, 8, 256]


@pytest.mark.parametrize("cls", [PrivUnit, LiftedPrivUnit, DuchiBall])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("dim", DIMS)
def test_the_two_densities_have_the_ratio_of_epsilon(cls, epsilon, dim):
    mechanism = cls(epsilon, dim)
    outside, c = mechanism.cap.outside_probability, mechanism.cap.mass
    ratio = math.log1p(-outside) - math.log(c) - math.log(outside) + math.log1p(-c)
    assert ratio == pytest.approx(epsilon, abs=1e-9)
    assert ratio <= epsilon


def exact_mass(height, dim):
    """Return the mass of a cap, from the precise height."""
    square = 1 - mpmath.mpf(height) ** 2
    half = mpmath.mpf(1) / 2
    return mpmath.betainc((dim - 1) * half, half, 0, square, regularized=True) / 2


@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 0.1, 0.5, 1.0, 4.0, 8.0, 16.0])
@pytest.mark.parametrize("dim", [2, 3, 4, 9, 64, 999, 5000, 20_000, 50_000, 100_000])
@pytest.mark.parametrize("cls", [PrivUnit, LiftedPrivUnit, DuchiBall])
def test_the_realised_epsilon_is_not_above_the_claimed_one(cls, epsilon, dim):
    """By 40 digits, for the cap that is meant and the one that directions are drawn from."""
    cap = cls(epsilon, dim).cap
    below, above = np.ones(1), np.zeros(1)
    edge = cap._law(np.zeros(1, bool), below, above)[0][0]
    with mpmath.workdps(40):
        outside = mpmath.mpf(cap.outside_probability)
        for height in (cap.height, edge):
            mass = exact_mass(height, cap.dim)
            realised = mpmath.log((1 - outside) / outside * (1 - mass) / mass)
            assert epsilon - 1e-9 <= realised <= epsilon


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("norm", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_mean_and_second_moment(epsilon, dim, norm):
    mechanism = PrivUnit(epsilon, dim, radius=2.0)
    rng = np.random.default_rng(100 * dim + int(10 * norm))
    direction = rng.standard_normal(dim)
    direction /= np.linalg.norm(direction)
    users = 200_000 if dim <= 8 else 20_000
    values = np.tile(2.0 * norm * direction, (users, 1))
    reports = mechanism.debias(mechanism.randomize(values, rng))
    # constant length, up to float32
    np.testing.assert_allclose(np.linalg.norm(reports, axis=1), mechanism.bound, rtol=1e-5)
    assert (reports**2).mean() == pytest.approx(mechanism.variance, rel=1e-5)
    # 5 standard errors in each of at most 256 coordinates, 30 cases: 2e-3 in all
    errors = reports.mean(axis=0) - 2.0 * norm * direction
    assert np.abs(errors / (reports.std(axis=0) / math.sqrt(users))).max() < 5
    along = reports @ direction
    assert abs(along.mean() - 2.0 * norm) < 5 * along.std() / math.sqrt(users)


@pytest.mark.parametrize("dim", [2, 3, 8, 256])
def test_the_cosine_has_its_two_piece_law(dim):
    mechanism = PrivUnit(2.0, dim)
    users = 50_000
    values = np.zeros((users, dim))
    values[:, 0] = 1.0
    cosine = mechanism.randomize(values, np.random.default_rng(dim))[:, 0] / mechanism.bound
    uniform = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    p, c = 1 - mechanism.cap.outside_probability, mechanism.cap.mass
    edge = uniform.isf(c)
    inside = cosine >= edge
    assert abs(inside.mean() - p) < 5 * math.sqrt(p * (1 - p) / users)
    # Within each piece the law is the uniform one, restricted: both p-values above 1e-6
    above = stats.kstest(uniform.sf(cosine[inside]) / c, "uniform").pvalue
    below = stats.kstest((uniform.sf(cosine[~inside]) - c) / (1 - c), "uniform").pvalue
    assert min(above, below) > 1e-6


@pytest.mark.parametrize(
    ("dim", "optimised", "half_sphere"),
    [
        (8, (189.8, 48.1, 12.7, 3.8, 1.6), (196.8, 55.3, 20.4, 12.7, 11.8)),
        (64, (1599, 402, 103, 28.1, 9.0), (1663, 467, 172, 107, 100)),
        (256, (6434, 1618, 414, 112, 34.5), (6691, 1879, 692, 432, 402)),
        (1024, (25772, 6479, 1655, 446, 137), (26802, 7528, 2772, 1730, 1610)),
    ],
)
def test_second_moments_are_those_of_the_published_table(dim, optimised, half_sphere):
    for cls, moments in ((PrivUnit, optimised), (DuchiBall, half_sphere)):
        found = [cls(epsilon, dim).variance * dim for epsilon in (0.5, 1, 2, 4, 8)]
        assert found == pytest.approx(moments, rel=0.02)


@pytest.mark.parametrize("cls", [LiftedPrivUnit, DuchiBall])
@pytest.mark.parametrize("norm", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("dim", [1, 2, 8])
def test_the_other_two_are_unbiased_with_at_most_the_stated_variance(cls, dim, norm):
    mechanism = cls(2.0, dim, radius=2.0)
    rng = np.random.default_rng(dim)
    direction = rng.standard_normal(dim)
    direction *= 2.0 * norm / np.linalg.norm(direction)
    reports = mechanism.randomize(np.tile(direction, (100_000, 1)), rng)
    estimate = mechanism.estimate(mechanism.summarize(reports))
    # 5 standard errors in 66 coordinates in all
    assert np.abs((estimate.mean - direction) / estimate.std_error).max() < 5
    assert mechanism.contains(reports)
    assert (reports.astype(float) ** 2).mean() <= mechanism.variance * (1 + 1e-5)


def test_lifting_pays_inside_the_ball_at_large_epsilon():
    lifted, plain = LiftedPrivUnit(8.0, 8), PrivUnit(8.0, 8)
    values = np.zeros((50_000, 8))
    squares = (lifted.randomize(values, np.random.default_rng(0)).astype(float) ** 2).sum(axis=1)
    assert squares.mean() < 0.95 * plain.bound**2


def test_extreme_parameters_stay_finite():
    for epsilon in (1e-3, 50.0):
        for dim in (1, 2, 65_536):
            mechanism = PrivUnit(epsilon, dim)
            report = mechanism.randomize(np.ones((1, dim)), np.random.default_rng(0))
            assert np.isfinite(report).all() and mechanism.bound >= 1.0


def test_inversion_keeps_the_tails():
    # Deep in the tail one minus the cosine is tiny; inverting from the nearer tail keeps it.
    tail = 1e-300
    assert 1 - betaincinv(3.5, 0.5, 2 * tail) > 0.9999999


def test_sums_of_rounded_reports_of_one_coordinate_are_accepted():
    """All of them have the largest length, which rounding to four bytes can exceed."""
    coins = derive(np.arange(20))
    for epsilon in np.linspace(0.5, 4, 30):
        mechanism = PrivUnit(float(epsilon), 1)
        values, rng = np.ones((20, 1)), np.random.default_rng(0)
        summary = mechanism.summarize(mechanism.randomize(values, rng)[:1], coins[:1])
        assert mechanism.accepts(summary, coins)
        assert not mechanism.accepts(replace(summary, sum=1.001 * summary.sum), coins)
