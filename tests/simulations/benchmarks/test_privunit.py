"""The mechanisms that codebooks are compared with: their guarantee, law and variance."""

import importlib
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaincinv
from word_sources import Ends

from ldp_flower.randomizers import Codebook, HadamardCodebook
from ldp_flower.randomness import KeyedRandom, derive

DIMS = [1, 2, 3, 8, 256]
KINDS = ["PrivUnit", "LiftedPrivUnit", "DuchiBall"]
each_kind = pytest.mark.parametrize("kind", KINDS)
LAST = 2**64 - 1


@pytest.fixture
def privunit(repository_on_the_path):
    """The module, which is in the repository only."""
    return importlib.import_module("simulations.benchmarks.privunit")


@pytest.fixture
def cls(privunit, kind):
    return getattr(privunit, kind)


@pytest.fixture
def PrivUnit(privunit):
    return privunit.PrivUnit


@each_kind
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


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 4.0, 16.0])
@pytest.mark.parametrize("dim", [2, 3, 64, 5000, 100_000])
@each_kind
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
def test_mean_and_second_moment(PrivUnit, epsilon, dim, norm):
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
def test_the_cosine_has_its_two_piece_law(PrivUnit, dim):
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
def test_second_moments_are_those_of_the_published_table(privunit, dim, optimised, half_sphere):
    for cls, moments in ((privunit.PrivUnit, optimised), (privunit.DuchiBall, half_sphere)):
        found = [cls(epsilon, dim).variance * dim for epsilon in (0.5, 1, 2, 4, 8)]
        assert found == pytest.approx(moments, rel=0.02)


@pytest.mark.parametrize("kind", KINDS[1:])
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


def test_lifting_pays_inside_the_ball_at_large_epsilon(privunit):
    lifted, plain = privunit.LiftedPrivUnit(8.0, 8), privunit.PrivUnit(8.0, 8)
    values = np.zeros((50_000, 8))
    squares = (lifted.randomize(values, np.random.default_rng(0)).astype(float) ** 2).sum(axis=1)
    assert squares.mean() < 0.95 * plain.bound**2


def test_extreme_parameters_stay_finite(PrivUnit):
    for epsilon in (1e-3, 50.0):
        for dim in (1, 2, 65_536):
            mechanism = PrivUnit(epsilon, dim)
            report = mechanism.randomize(np.ones((1, dim)), np.random.default_rng(0))
            assert np.isfinite(report).all() and mechanism.bound >= 1.0


def test_inversion_keeps_the_tails():
    # Deep in the tail one minus the cosine is tiny; inverting from the nearer tail keeps it.
    tail = 1e-300
    assert 1 - betaincinv(3.5, 0.5, 2 * tail) > 0.9999999


def test_sums_of_rounded_reports_of_one_coordinate_are_accepted(PrivUnit):
    """All of them have the largest length, which rounding to four bytes can exceed."""
    coins = derive(np.arange(20))
    for epsilon in np.linspace(0.5, 4, 30):
        mechanism = PrivUnit(float(epsilon), 1)
        values, rng = np.ones((20, 1)), np.random.default_rng(0)
        summary = mechanism.summarize(mechanism.randomize(values, rng)[:1], coins[:1])
        assert mechanism.accepts(summary, coins)
        assert not mechanism.accepts(replace(summary, sum=1.001 * summary.sum), coins)


# ------------------------------------------------------------------- any input, and the ends


@each_kind
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, 5e-324])
def test_any_input_gives_a_report_and_what_is_not_finite_that_of_the_centre(cls, bad):
    mechanism = cls(1.0, 5, radius=2.0)
    values, keyed = np.ones((3, 5)), lambda: KeyedRandom(derive(0, np.arange(3)))
    values[1, 2] = bad
    reports = mechanism.randomize(values, keyed())
    assert mechanism.well_formed(reports, 3)
    assert np.isfinite(mechanism.debias(reports)).all()
    if not math.isfinite(bad):
        values[1] = 0.0
        np.testing.assert_array_equal(reports, mechanism.randomize(values, keyed()))


@each_kind
@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 7.0, 50.0])
@pytest.mark.parametrize("dim", [1, 2, 17, 1000, 65_536])
def test_no_parameter_overflows_or_loses_the_signal(cls, dim, epsilon):
    mechanism = cls(epsilon, dim)
    reports = mechanism.randomize(np.ones((2, dim)), KeyedRandom(derive(0, np.arange(2))))
    assert mechanism.well_formed(reports, 2)
    debiased = mechanism.debias(reports)
    assert np.isfinite(debiased).all() and np.abs(debiased).max() > 0
    assert 0 < mechanism.variance < cls(epsilon / 2, dim).variance


@each_kind
@pytest.mark.parametrize("dim", [*DIMS, 8193])
def test_nothing_beside_a_user_moves_a_bit_of_it(cls, dim):
    mechanism, row = cls(1.0, dim, 9.0), np.random.default_rng(dim).standard_normal(dim)
    alone = mechanism.randomize(row[None], KeyedRandom(derive(4)))
    for before, after, beside in [(1, 0, np.nan), (0, 2, 1.7e308), (3, 1, 5e-324), (0, 40, 0.3)]:
        rows = np.full((before + 1 + after, dim), beside)
        rows[before] = row
        states = derive(3, np.arange(len(rows)))
        states[before] = derive(4)[0]
        reports = mechanism.randomize(np.asfortranarray(rows), KeyedRandom(states))
        assert reports[before].tobytes() == alone[0].tobytes()


@each_kind
@pytest.mark.parametrize("epsilon", [1.0, 16.0, 30.0])
def test_directions_reach_the_poles(cls, epsilon):
    """Between a pole and what is drawn next to it other values have reports."""
    cap = cls(epsilon, 3).cap
    unit = np.zeros((1, cap.dim))
    unit[0, 0] = 1.0
    for words, pole in (([LAST, 0, 7 << 60], 1), ([0, LAST, 7 << 60], -1)):
        # The mass within a distance of a pole is about this power of it.
        drawn = cap.draw(unit, Ends(words))[0]
        assert drawn[0] == pole and math.hypot(*drawn[1:]) ** (cap.dim - 1) < 1e-290
        drawn = cap.draw(unit, Ends(words, further=1))[0]
        assert drawn[0] == pole and 0 < math.hypot(*drawn[1:]) ** (cap.dim - 1) < 1e-30


def test_directions_next_to_the_equator_are_drawn_one_by_one(privunit):
    """In three dimensions the cosine is uniform: 1 less twice the mass above it."""
    cap = privunit.DuchiBall(1.0, 3).cap
    cosines = np.array([1e-9, 1.3e-9, 1e-10])
    inside, outside = np.zeros(3, bool), np.ones(3, bool)
    found, _ = cap._law(inside, 1 - cosines, cosines)
    np.testing.assert_allclose(found, cosines, rtol=1e-5)
    found, _ = cap._law(outside, cosines, 1 - cosines)
    np.testing.assert_allclose(found, -cosines, rtol=1e-5)


@each_kind
@pytest.mark.parametrize("size", [0.0, 0.3, 1e9])
def test_no_digit_below_the_noise_is_told(cls, size):
    """What noise was added to shows in the finest digits of floats: reports have none."""
    mechanism = cls(2.0, 3, 0.7)
    draws = KeyedRandom(derive(0, np.arange(4000, dtype=np.uint64)))
    reports = mechanism.randomize(np.full((4000, 3), size), draws)
    steps = reports.astype(np.float64) / 2.0 ** (math.floor(math.log2(mechanism.bound)) + 1 - 26)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert len(np.unique(steps)) > 1


@pytest.mark.parametrize(
    ("epsilon", "dim"),
    [(0.5, 2), (1.0, 8), *(pytest.param(4.0, dim, marks=pytest.mark.long) for dim in (32, 64))],
)
@each_kind
def test_200000_reports_confirm_the_stated_mean_and_variance(cls, kind, epsilon, dim):
    """By 5 standard errors of the mean and 4 of the variance, as in test_variance.py."""
    mechanism, users = cls(epsilon, dim), 200_000
    axes = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    for length in (0.0, 0.8, 1.0):
        value = length * axes[:, 0]  # the other axes are across it
        reports = mechanism.randomize(np.tile(value, (users, 1)), np.random.default_rng(1))
        errors = mechanism.debias(reports) - value
        along = errors @ axes
        assert np.abs(along.mean(axis=0) / along.std(axis=0)).max() * users**0.5 < 5
        squares = (errors**2).mean(axis=1)
        error = squares.std() / users**0.5 + 1e-6 * mechanism.variance
        # Reports have one length: the variance is the largest at the centre.
        found = (squares.mean() - mechanism.variance + length**2 / dim) / error
        # The lifted form leaves out what the added coordinate takes.
        assert abs(found) < 4 or (kind == "LiftedPrivUnit" and (found < 0 or length > 0))


# ------------------------------------------------------------- the library's own, beside them


@pytest.mark.parametrize("dim", [9, 33, 65])
@pytest.mark.parametrize(
    ("epsilon", "num_codewords"), [(0.5, 256), (1.0, 256), (2.0, 256), (4.0, 256), (8.0, 1024)]
)
def test_a_codebooks_variance_is_within_three_per_cent(PrivUnit, dim, epsilon, num_codewords):
    # On the sphere of the lifted space, dim + 1 coordinates, both are known exactly.
    ours = Codebook(epsilon, dim - 1, num_codewords=num_codewords).bound ** 2
    assert ours <= 1.03 * PrivUnit(epsilon, dim).bound ** 2


@pytest.mark.parametrize(("epsilon", "num_codewords"), [(1.0, 256), (4.0, 256), (8.0, 1024)])
@pytest.mark.parametrize("dim", [1023, 1024, 5000])
def test_a_hadamard_codebooks_variance_is_within_four_per_cent(
    PrivUnit, dim, epsilon, num_codewords
):
    ours = HadamardCodebook(epsilon, dim, num_codewords=num_codewords)
    assert ours.variance <= 1.04 * PrivUnit(epsilon, dim).variance


@pytest.mark.parametrize(
    ("epsilon", "variance"),
    [
        *((0.25, 100), (0.5, 25.1), (1, 6.32), (1.25, 4.06), (1.5, 2.84), (2, 1.62)),
        *((2.5, 1.05), (3, 0.743), (4, 0.436), (5, 0.293), (6, 0.215), (8, 0.135)),
    ],
)
def test_the_ball_around_a_box_costs_what_is_published(PrivUnit, epsilon, variance):
    assert PrivUnit(epsilon, 256, radius=16.0).variance / 256 == pytest.approx(variance, rel=0.02)
