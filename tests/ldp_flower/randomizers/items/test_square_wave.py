"""The discrete square wave: its law, its window, and what is no cell."""

import math

import numpy as np
import pytest

from ldp_flower.randomizers import DiscreteSquareWave, NarrowSquareWave


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    ("cells", "window"), [(2, None), (2, 1), (2, 2), (9, None), (9, 1), (9, 2), (9, 9)]
)
def test_the_law_of_reports_is_the_one_that_the_audit_enumerates(epsilon, cells, window):
    if window is None:
        oracle = DiscreteSquareWave(epsilon, cells)
    else:
        oracle = NarrowSquareWave(epsilon, cells, window)
        assert (oracle.window, oracle.num_reports) == (window, cells + window - 1)
    told = oracle.law_of_reports()
    for cell in range(cells):
        law = oracle.law(np.array([float(cell)]), np.zeros(1, np.uint64))
        found = np.zeros(oracle.num_reports)
        for report, chance in law.items():
            found[np.frombuffer(report, oracle.report_dtype)[0]] += float(chance)
        np.testing.assert_allclose(found, told[:, cell], rtol=1e-12)
    assert (told.max(axis=1) / told.min(axis=1)).max() == pytest.approx(math.exp(epsilon))
    assert float(oracle.worst_ratio()) <= math.exp(epsilon)


def test_reports_follow_the_law():
    oracle = DiscreteSquareWave(1.0, 20)
    reports = oracle.randomize(np.full((40_000, 1), 7.0), np.random.default_rng(0))
    counts = np.bincount(reports, minlength=oracle.num_reports)
    law = oracle.law_of_reports()[:, 7]
    # Chi-squared with num_reports - 1 degrees of freedom: 5 standard deviations above its mean.
    freedom = oracle.num_reports - 1
    statistic = ((counts - 40_000 * law) ** 2 / (40_000 * law)).sum()
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)
    estimate = oracle.debias(reports).mean()
    assert abs(estimate - 7) < 5 * math.sqrt(oracle.variance / 40_000)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_window_is_the_square_waves_in_the_limit_of_many_cells(epsilon):
    e = math.exp(epsilon)
    width = (epsilon * e - e + 1) / (e * (e - 1 - epsilon))
    assert DiscreteSquareWave(epsilon, 4096).window / 4096 == pytest.approx(width, abs=2e-4)


def test_a_vanishing_and_a_huge_epsilon_have_windows():
    assert DiscreteSquareWave(1e-5, 50).window == 50
    assert DiscreteSquareWave(90.0, 50).window == 1


def test_what_is_no_cell_reports_as_a_random_one():
    oracle = DiscreteSquareWave(50.0, 8)
    values = np.array([[np.nan], [8.0], [-1.0], [2.5], [np.inf]] * 2000)
    reports = oracle.randomize(values, np.random.default_rng(0))
    counts = np.bincount(reports, minlength=8)
    assert abs(counts - 1250).max() < 5 * math.sqrt(1250)
    np.testing.assert_array_equal(
        oracle.randomize(np.arange(8.0)[:, None], np.random.default_rng(1)), np.arange(8)
    )


@pytest.mark.parametrize("cells", [1, 4097, 2.5])
def test_a_bad_number_of_cells_is_refused(cells):
    with pytest.raises(ValueError, match="domain_size"):
        DiscreteSquareWave(1.0, cells)


@pytest.mark.parametrize("window", [0, -1, 9, 2.5, True])
def test_a_bad_window_is_refused(window):
    with pytest.raises(ValueError, match="Expected an integer 1 <= window <= 8"):
        NarrowSquareWave(1.0, 8, window)


def test_a_narrow_window_shows_two_humps_that_the_square_waves_hides():
    """By the Fisher information about the height of a wave of two periods over the cells."""

    def information(oracle):
        law, cells = oracle.law_of_reports(), oracle.domain_size
        wave = np.cos(4 * np.pi * (np.arange(cells) + 0.5) / cells) / cells
        return ((law @ wave) ** 2 / law.mean(axis=1)).sum()

    widest = DiscreteSquareWave(1.0, 40)
    assert widest.window == 20
    ratio = information(NarrowSquareWave(1.0, 40, 10)) / information(widest)
    assert ratio == pytest.approx(4.94, abs=0.05)
    same = NarrowSquareWave(1.0, 40, widest.window)
    np.testing.assert_array_equal(same.law_of_reports(), widest.law_of_reports())
