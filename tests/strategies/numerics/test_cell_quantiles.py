"""Quantiles from shares of cells: unbiased tests, intervals that hold, precise estimates."""

import numpy as np
import pytest

from ldp_flower.strategies.numerics.cell_quantiles import CellReports, estimated

OWN, OTHER = 0.8, 0.04  # of the six reports of five cells and none


def reports(edges, entries, rng, own=OWN, other=OTHER):
    """Return what users with these entries, some NaN, report of cells by k-ary response."""
    edges = np.asarray(edges, np.float64)
    number = len(edges) + 2
    told = np.isfinite(entries)
    cells = np.where(told, np.searchsorted(edges, np.where(told, entries, 0)), number - 1)
    keep = rng.random(len(cells)) < own - other
    sent = np.where(keep, cells, rng.integers(number, size=len(cells)))
    # A random one is one's own in one of ``number`` cases, too.
    base = (1 - (own - other)) / number
    shares = (np.bincount(sent, minlength=number) / len(cells) - base) / (own - other)
    return CellReports(edges, shares, len(cells), own - other + base, base)


def test_the_excess_is_unbiased_where_many_have_no_entry_and_its_variance_is_right():
    """400 draws: a mean is off by 4 of its errors in one of 10,000 cases, a variance by 25 %."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        entries = np.where(rng.random(500) < 0.6, np.nan, rng.random(500))
        found.append(reports([0.2, 0.4, 0.6, 0.8], entries, rng).excess(0.3))
    values, variances = (np.array(part) for part in zip(*found, strict=True))
    expected = 0.4 * (np.array([0.2, 0.4, 0.6, 0.8]) - 0.3)
    assert (np.abs(values.mean(axis=0) - expected) < 4 * values.std(axis=0) / 20).all()
    assert values.var(axis=0) / variances.mean(axis=0) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("gap", [False, True])
def test_intervals_miss_as_rarely_as_one_test_on_each_side(gap):
    """Four cohorts, edges around the quantile, a gap above it or none: 300 intervals.

    Of 300 that miss with probability .05, more than 28 do in one of 1,000 cases.
    """
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(300):
        cohorts = []
        for users in (200, 400, 800, 1600):
            entries = rng.random(users)
            entries[entries > 0.5] += 0.3 * gap
            edges = np.sort(0.5 + rng.uniform(-0.3, 0.3, 4))
            cohorts.append(reports(edges, entries, rng))
        _, (lower, upper) = estimated(cohorts, 0.5, 0.0, 1.3, 1.96)
        missed += not lower <= 0.5 + 0.3 * gap or not upper >= 0.5
    assert missed <= 28


def test_early_cohorts_count_in_full_beside_later_ones():
    """Of 2,000 users without noise, the first half at edges that are .05 in rank away.

    An estimate from the other half alone would be off by .5 / sqrt(2000) = .011 of these users'
    median; from all it is off by less than half of that, root mean square of 60 draws.
    """
    rng = np.random.default_rng(2)
    off = []
    for _ in range(60):
        entries = rng.random(2000)
        early = reports([0.35, 0.45, 0.55, 0.65], entries[:1000], rng, 1.0, 0.0)
        late = reports([0.47, 0.49, 0.51, 0.53], entries[1000:], rng, 1.0, 0.0)
        function, _ = estimated([early, late], 0.5, 0.0, 1.0, 1.96)
        off.append(np.mean(entries <= function.inverse(0.5)) - 0.5)
    assert np.sqrt(np.mean(np.square(off))) < 0.0056
