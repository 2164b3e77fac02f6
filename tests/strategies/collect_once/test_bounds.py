"""Bounds that are beyond: protocols of one message say it, and their errors contain it."""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.strategies import ConstrainedMean, ConstrainedRegression, SmoothGlm


def rows(law, rng, number):
    """Return rows of four features: about as long as 1, or as ``law`` says."""
    x = rng.standard_normal((number, 4)) / 2
    return x * {"as declared": 0.5, "too long": 3.0, "a tail": 1.0}[law]


def regressed(law, seed, method="auto", factor=1.0):
    rng = np.random.default_rng(seed)
    x = rows(law, rng, 40_000)
    y = factor * (x @ np.array([0.5, -0.3, 0.0, 0.0]) + rng.normal(0, 0.1, len(x)))
    strategy = ConstrainedRegression(4, epsilon=4.0, method=method, l1_bound=10.0)
    return simulate(strategy, Users.from_rows(x, y), seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_beyond_a_bound_is_said_and_widens_the_errors(seed):
    assert not regressed("as declared", seed).notes
    note, *_ = regressed("too long", seed).notes  # their targets are, too
    assert "clipping at feature_bound = 1 takes away" in note
    assert "root mean square is about" in note
    (note,) = regressed("as declared", seed, factor=20.0).notes
    assert "target_bound = 1" in note


@pytest.mark.slow
@pytest.mark.parametrize("law", ["as declared", "a tail", "too long"])
def test_errors_contain_what_is_clipped(law):
    """Root mean square over the stated error, of six runs; NaN states nothing, and is noted."""
    scores = []
    for seed in range(6):
        result = regressed(law, 100 + seed)
        off = (result.coef - [0.5, -0.3, 0.0, 0.0])[:2] / result.std_error[:2]
        assert np.isfinite(off).all() or result.notes
        scores += off[np.isfinite(off)].tolist()
    assert not scores or np.sqrt(np.mean(np.square(scores))) < 2.0


def test_a_mean_of_rows_that_are_too_long_says_so():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 10)) + np.eye(10)[0]
    result = simulate(ConstrainedMean(10, epsilon=2.0), Users.from_rows(x), seed=0)
    assert "clipping at feature_bound = 1" in result.notes[0]
    assert np.isnan(result.std_error).all()
    wide = simulate(ConstrainedMean(10, epsilon=2.0, feature_bound=6.0), Users.from_rows(x), seed=0)
    assert not wide.notes and abs(wide.coef[0] - 1) < 4 * wide.std_error[0]


def test_the_printed_form_asks_its_one_question():
    result = regressed("too long", 0, method="paper")
    assert len(result.steps) == 2 and not result.notes


def test_classes_have_no_bound_on_targets():
    rng = np.random.default_rng(0)
    x = rows("as declared", rng, 20_000)
    y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-4 * x[:, 0])), 1.0, -1.0)
    result = simulate(SmoothGlm(4, epsilon=4.0), Users.from_rows(x, y), seed=0)
    assert [step.statistic for step in result.steps[2:]] == ["distance_octave"]
    assert not result.notes
