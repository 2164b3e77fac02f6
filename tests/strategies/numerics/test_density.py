"""Distributions over cells: unbiased averages, and bands that hold whatever the shape."""

import numpy as np
import pytest

from ldp_flower.randomizers import DiscreteSquareWave
from ldp_flower.strategies.numerics.density import Counted, linear_estimates

CELLS = 24
NORMALS = np.random.default_rng(0).normal(size=(CELLS + 1, 1000))
SHAPES = {
    "even": np.full(CELLS, 1 / CELLS),
    "one cell": np.eye(CELLS)[7],
    "two": 0.3 * np.eye(CELLS)[2] + 0.7 * np.eye(CELLS)[20],
    "comb": np.tile([0.0, 0.0, 0.0, 4 / CELLS], CELLS // 4),
    "falling": 0.5 ** np.arange(1, CELLS + 1) / (1 - 0.5**CELLS),
}


def counted(shares, missing, users, epsilon, rng):
    law = DiscreteSquareWave(epsilon, CELLS + 1).law_of_reports()
    everybody = np.append((1 - missing) * shares, missing)
    return Counted(law, rng.multinomial(users, law @ everybody).astype(np.float64))


@pytest.mark.parametrize("missing", [0.0, 0.6])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_band_holds_the_whole_function_whatever_its_shape(shape, epsilon, missing):
    """Of 60 bands of 95 % at least 51 hold, with probability .998; of 20 settings all in .96.

    That others' reports told of an even density makes them wider, and not wrong.
    """
    rng = np.random.default_rng([1, int(10 * missing), int(epsilon), sorted(SHAPES).index(shape)])
    true = np.concatenate([[0.0], np.cumsum(SHAPES[shape])])
    held = 0
    for _ in range(60):
        reports = counted(SHAPES[shape], missing, 1500, epsilon, rng)
        found = linear_estimates(reports, np.full(CELLS + 1, 1 / (CELLS + 1)), NORMALS)
        lower, upper = found.band(0.95, CELLS + 1)
        held += ((lower <= true + 1e-9) & (true - 1e-9 <= upper)).all()
    assert held >= 51


def test_averages_are_unbiased_and_of_the_stated_variance():
    """Over 400 runs, means of 5 standard errors and variances of 25 % are beyond in 1e-4."""
    rng, shares = np.random.default_rng(2), SHAPES["two"]
    runs = []
    for _ in range(400):
        reports = counted(shares, 0.3, 2000, 1.0, rng)
        runs.append(linear_estimates(reports, np.full(CELLS + 1, 1 / (CELLS + 1)), NORMALS[:, :9]))
    values = np.array([run.values[:, 0] for run in runs])
    stated = np.array([run.values[:, 1] for run in runs]).mean(axis=0)
    first, last = runs[0].first, runs[0].last
    places = np.arange(CELLS) + 0.5
    ramps = np.clip((last[:, None] - places) / np.maximum(last - first, 1e-9)[:, None], 0, 1)
    off = values.mean(axis=0) - 0.7 * ramps @ shares
    assert (np.abs(off) < 5 * np.sqrt(stated / 400)).all()
    np.testing.assert_allclose(values.var(axis=0), stated, rtol=0.3)


def test_nothing_is_claimed_of_a_column_without_entries():
    reports = counted(SHAPES["even"], 1.0, 1500, 1.0, np.random.default_rng(3))
    found = linear_estimates(reports, np.full(CELLS + 1, 1 / (CELLS + 1)), NORMALS)
    lower, upper = found.band(0.95, CELLS + 1)
    assert not lower[:-1].any() and (upper[1:] == 1).all()
