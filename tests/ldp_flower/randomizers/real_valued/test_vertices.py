"""The largest coordinate of a sum, with its sign."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from ldp_flower.accounting import zcdp_rho
from ldp_flower.guarantee.budget import Cost
from ldp_flower.randomizers import RecordGaussian, RecordPeeling, RecordVertices
from ldp_flower.randomness import NumpyRandom

VERTICES = RecordVertices(1.0, 4, 2.0, 1e-3, 3)


def source(seed=0):
    return NumpyRandom(np.random.default_rng(seed))


@pytest.mark.parametrize("steps", [1, 3, 50])
def test_every_report_costs_its_share_and_no_more(steps):
    """By the bounded range of an exponential mechanism."""
    rho = zcdp_rho(2.0, 1e-2)
    moves = 2 * 3.0
    vertices = RecordVertices(2.0, 9, 3.0, 1e-2, steps)
    choice = (2 * moves / vertices.scale) ** 2 / 8
    assert choice == pytest.approx(rho / steps, rel=1e-9)


def test_a_plan_is_one_mechanisms_with_its_budget_and_steps():
    plan = Cost.of(VERTICES, salt=5).plan
    assert (
        Cost.of(RecordVertices(1.0, 7, 0.1, 1e-3, 3), salt=5).plan == plan
    )  # the domain may change
    for other in (
        RecordVertices(1.0, 4, 2.0, 1e-3, 4),
        RecordVertices(1.1, 4, 2.0, 1e-3, 3),
        RecordPeeling(1.0, 4, 2.0, 1e-3, 3),
        RecordGaussian(1.0, 4, 2.0, 1e-3, 3),
    ):
        assert Cost.of(other, salt=5).plan != plan


def test_replacing_a_record_moves_every_score_by_no_more_than_the_sensitivity():
    rng = np.random.default_rng(0)
    silo = rng.standard_normal((30, 4)) * 3
    totals = []
    for record in (np.full(4, 1e9), np.full(4, -1e9), np.full(4, np.nan), np.ones(4)):
        silo[7] = record
        totals.append(VERTICES.total(silo))
    largest = max(np.abs(a - b).max() for a in totals for b in totals)
    assert largest == pytest.approx(2 * VERTICES.radius)


def test_vertices_are_drawn_by_the_exponential_mechanism():
    """Probabilities of all eight vertices; fails once in 10,000."""
    mechanism = RecordVertices(1.0, 4, 0.05, 1e-3, 1)
    total = mechanism.scale * np.array([0.0, 1.0, -2.0, 0.5])
    reports = mechanism.report(np.tile(total, (40_000, 1)), np.ones(40_000), source())
    expected = np.exp(np.concatenate([total, -total]) / mechanism.scale)
    expected *= len(reports) / expected.sum()
    counts = np.bincount(reports[:, 0].astype(int), minlength=8)
    assert chisquare(counts, expected).pvalue > 1e-4


def test_vertices_are_signed_and_weighed_by_records():
    totals = np.array([[9000.0, 0, 0, 0], [0, 0, -9000, 0]])
    reports = VERTICES.report(totals, np.array([10.0, 30.0]), source())
    np.testing.assert_array_equal(reports, [[0, 10], [6, 30]])
    estimate = VERTICES.estimate(VERTICES.summarize(reports))
    np.testing.assert_allclose(estimate.mean, [0.25, 0, -0.75, 0])


def test_both_signs_of_one_coordinate_cancel():
    reports = np.array([[1, 10], [5, 10]], np.float32)
    np.testing.assert_array_equal(VERTICES.debias(reports).sum(axis=0), [0, 0, 0, 0, 20])


@pytest.mark.parametrize(
    "report",
    [[8, 7], [-1, 7], [0.5, 7], [math.nan, 7], [0, 0], [0, 0.5], [0, math.nan]],
)
def test_reports_that_no_silo_can_send_are_refused(report):
    assert VERTICES.well_formed(np.array([[7, 7]], np.float32), 1)
    assert not VERTICES.well_formed(np.array([report], np.float32), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 1 << 24}, "Expected an integer 1 <= dim <= 8388608"),
        ({"steps": 0}, "Expected an integer steps >= 1, got 0"),
    ],
)
def test_bad_parameters_are_refused(arguments, message):
    good = {"epsilon": 1.0, "dim": 4, "radius": 1.0, "delta": 1e-3, "steps": 1}
    with pytest.raises(ValueError, match=message):
        RecordVertices(**good | arguments)
