"""Mechanisms for silos: sensitivity, calibration, composition, and what hostile queries can do."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm

from ldp_flower.accounting import zcdp_rho
from ldp_flower.randomizers import RecordGaussian, RecordPeeling
from ldp_flower.randomizers.real_valued.gaussian import gaussian_mu
from ldp_flower.randomizers.real_valued.record_places import noisy_top
from ldp_flower.randomness import KeyedRandom, NumpyRandom, derive

GAUSSIAN = RecordGaussian(1.0, 4, 2.0, 1e-3, 50)
PEELING = RecordPeeling(1.0, 4, 2.0, 1e-3, 3, sparsity=2)
each = pytest.mark.parametrize("mechanism", [GAUSSIAN, PEELING], ids=["gaussian", "peeling"])


def source(seed=0):
    return NumpyRandom(np.random.default_rng(seed))


@each
def test_replacing_a_record_moves_a_sum_by_no_more_than_the_sensitivity(mechanism):
    rng = np.random.default_rng(0)
    silo = rng.standard_normal((30, 4)) * 3
    extremes = [np.full(4, 1e9), np.full(4, -1e9), np.zeros(4), np.full(4, np.nan)]
    extremes += [np.array([np.inf, 0, 0, 0]), *(rng.standard_normal((200, 4)) * 10)]
    totals = []
    for record in extremes:
        silo[7] = record
        totals.append(mechanism.total(silo))
    differences = np.array([a - b for a in totals for b in totals])
    if mechanism is GAUSSIAN:
        sizes = np.linalg.norm(differences, axis=1)
    else:
        sizes = np.abs(differences).max(axis=1)
    # Never more than the diameter, and the antipodal pair reaches it.
    assert sizes.max() <= 2 * mechanism.radius * (1 + 1e-12)
    assert sizes.max() >= 0.99 * 2 * mechanism.radius


@pytest.mark.parametrize("steps", [1, 3, 50, 400])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (2.0, 1e-6), (8.0, 1e-2)])
def test_gaussian_steps_compose_to_the_promise_and_no_further(epsilon, delta, steps):
    mechanism = RecordGaussian(epsilon, 4, 3.0, delta, steps)
    square = steps * (2 * 3.0 / mechanism.sigma) ** 2
    promised = gaussian_mu(epsilon, delta) ** 2
    assert promised * (1 - 1e-9) <= square <= promised * (1 + 1e-9)


@pytest.mark.parametrize("steps", [1, 3, 50])
@pytest.mark.parametrize("sparsity", [1, 4])
def test_peeling_steps_compose_to_the_promise_and_no_further(steps, sparsity):
    mechanism = RecordPeeling(2.0, 9, 3.0, 1e-2, steps, sparsity=sparsity)
    moves = 2 * 3.0
    choice = sparsity * (2 * moves / mechanism.scale) ** 2 / 8
    values = sparsity * moves**2 / (2 * mechanism.sigma**2)
    assert choice == pytest.approx(values)
    rho = zcdp_rho(2.0, 1e-2)
    assert rho * (1 - 1e-9) <= steps * (choice + values) <= rho * (1 + 1e-9)


def test_gumbel_noise_makes_an_exponential_mechanism():
    """Probabilities of the first place against exp(score / scale); fails once in 10,000."""
    scores = np.array([0.0, 1.0, 2.0, 2.5])
    found = noisy_top(np.tile(scores, (40_000, 1)), 1, 1.5, source())[:, 0]
    expected = np.exp(scores / 1.5) / np.exp(scores / 1.5).sum() * len(found)
    assert chisquare(np.bincount(found, minlength=4), expected).pvalue > 1e-4


def test_the_noise_of_a_gaussian_report_is_what_it_says():
    totals = np.tile([5.0, -1, 0, 2], (5000, 1))
    reports = GAUSSIAN.report(totals, np.full(5000, 30.0), source()).astype(float)
    assert (reports[:, -1] == 30).all()
    scaled = (reports[:, :4] - totals) / GAUSSIAN.sigma
    assert kstest(scaled.ravel(), norm.cdf).pvalue > 1e-4


def test_peeled_values_are_those_at_their_places():
    totals = np.tile([5000.0, -1, 0, -20000], (3000, 1))
    reports = PEELING.report(totals, np.full(3000, 30.0), source())
    assert (reports[:, :2] == [0, 3]).all()
    scaled = (reports[:, 2:4].astype(float) - [5000, -20000]) / PEELING.sigma
    assert kstest(scaled.ravel(), norm.cdf).pvalue > 1e-4
    dense = PEELING.debias(reports)
    np.testing.assert_array_equal(dense[:, [0, 3, 4]], reports[:, 2:].astype(float))
    assert not dense[:, 1:3].any()


def test_an_estimate_weighs_silos_by_their_records():
    totals = np.array([[1.0, 0, 0, 0], [0, 3.0, 0, 0]])
    exact = np.concatenate([totals, [[100.0], [300.0]]], axis=1).astype(np.float32)
    estimate = GAUSSIAN.estimate(GAUSSIAN.summarize(exact))
    np.testing.assert_allclose(estimate.mean, [1 / 400, 3 / 400, 0, 0])
    np.testing.assert_allclose(estimate.std_error, math.sqrt(2) * GAUSSIAN.sigma / 400)


@each
def test_a_public_centre_moves_what_is_reported(mechanism):
    totals, counts = np.array([[3.0, -1, 0, 2]]), np.array([20.0])
    centre = np.array([0.5, -0.1, 0, 0.2])
    moved = mechanism.report(totals, counts, source(3), centre)
    same = mechanism.report(totals + 20 * centre, counts, source(3))
    np.testing.assert_allclose(moved, same, rtol=1e-5)


@each
@pytest.mark.parametrize("centre", [1e300, -1e30, 1e20])
def test_a_huge_centre_does_not_round_the_records_away(mechanism, centre):
    """Next to 1e20 a sum is rounded to thousands: a nudge would then move it by thousands."""
    rng = KeyedRandom(derive(0, np.arange(2, dtype=np.uint64) * 0))
    totals = np.array([[1.0, 1.0, 1.0, 1.0], [1.5, 1.5, 1.5, 1.5]])
    reports = mechanism.report(totals, np.array([50.0, 50.0]), rng, np.full(4, centre))
    assert np.isfinite(reports).all()
    difference = np.abs(np.diff(reports.astype(float), axis=0)).max()
    assert difference < 1  # both rows draw the same noise


@each
@pytest.mark.parametrize("radius", [1e300, 1.1e30, 9e-31, 1e-300, 5e-324])
def test_a_domain_whose_sums_or_noise_would_be_rounded_is_refused(mechanism, radius):
    """At 5e-324 the scale of Gumbel noise is 0, and reports are the places themselves."""
    with pytest.raises(ValueError, match=r"Expected 1e-30 <= radius <= 1e\+30, got"):
        type(mechanism)(1.0, 4, radius, 1e-3, 3)


@each
def test_noise_scales_with_the_domain_down_to_the_smallest(mechanism):
    totals, counts = np.array([[1.0, -1.0, 0.5, 0.0]]), np.array([50.0])
    small = 2.0**-99  # 1.6e-30, and exact
    found = []
    for scale in (1.0, small):
        rng = KeyedRandom(derive(0, np.arange(1, dtype=np.uint64)))
        scaled = replace(mechanism, radius=scale)
        reports = scaled.report(totals * scale, counts, rng)
        found.append(scaled._debias(reports, derive(0))[:, :-1] / scale)
    assert found[0].any()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r * np.nan,
        lambda r: np.where(np.arange(5) == 4, 0, r),
        lambda r: np.where(np.arange(5) == 4, 2.5, r),
        lambda r: np.where(np.arange(5) == 0, 9, r),
        lambda r: np.where(np.arange(5) == 0, -1, r),
        lambda r: np.where(np.arange(5) == 0, 0.5, r),
        lambda r: r[:, [1, 0, 2, 3, 4]],
    ],
)
def test_reports_that_no_silo_can_send_are_refused(change):
    good = PEELING.report(np.array([[900.0, 0, 0, 900.0]]), np.array([7.0]), source())
    assert PEELING.well_formed(good, 1)
    assert not PEELING.well_formed(change(good).astype(np.float32), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "Expected an integer steps >= 1, got 0"),
        ({"delta": 0.0}, "Expected 0 < delta < 1"),
        ({"sparsity": 5}, "Expected an integer 1 <= sparsity <= 4, got 5"),
        ({"dim": 1 << 25}, "Expected an integer 1 <= dim <= 16777216"),
    ],
)
def test_bad_parameters_are_refused(arguments, message):
    good = {"epsilon": 1.0, "dim": 4, "radius": 1.0, "delta": 1e-3, "steps": 1, "sparsity": 1}
    with pytest.raises(ValueError, match=message):
        RecordPeeling(**good | arguments)
