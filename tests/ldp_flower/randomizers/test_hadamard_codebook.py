"""The codebook of turned axes: its law, its bias for vectors that are hard, its sizes."""

import math

import numpy as np
import pytest

from ldp_flower.audit import exact_epsilon, extreme_inputs
from ldp_flower.randomizers import (
    Codebook,
    HadamardCodebook,
    ball_codebook,
    randomizer_from_config,
)
from ldp_flower.randomizers.order_statistics import of_axes
from ldp_flower.randomness import KeyedRandom, derive


@pytest.mark.parametrize("dim", [32, 300])
def test_order_statistics_agree_with_simulation(dim):
    rng = np.random.default_rng(dim)
    directions = rng.standard_normal((4000, dim))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    ordered = -np.sort(-directions[:, :32], axis=1)
    sums, squares = of_axes(dim, 32)
    for found, exact in ((ordered, sums), (ordered**2, squares)):
        partial = np.cumsum(found, axis=1)
        error = partial.std(axis=0) / math.sqrt(4000)
        assert (np.abs(partial.mean(axis=0) - exact) < 5 * error + 1e-9).all()
    assert sums[-1] == pytest.approx(0, abs=1e-9)
    assert squares[-1] == pytest.approx(32 / dim, rel=1e-9)


def test_the_loss_over_all_outputs_is_epsilon():
    mechanism = HadamardCodebook(2.0, 255, num_codewords=16)
    found = exact_epsilon(mechanism, extreme_inputs(mechanism)[:6])
    assert 2.0 - 1e-6 < found <= 2.0


@pytest.mark.parametrize(("epsilon", "num_codewords"), [(1.0, 256), (4.0, 256), (8.0, 1024)])
@pytest.mark.parametrize("dim", [1023])
def test_variance_is_not_above_that_of_a_codebook(dim, epsilon, num_codewords):
    ours = HadamardCodebook(epsilon, dim, num_codewords=num_codewords)
    assert ours.variance <= Codebook(epsilon, dim, num_codewords=num_codewords).variance


def hard_vectors(dim):
    axes = np.eye(dim)
    return {
        "one": axes[0],
        "two": axes[0] + axes[1],
        "two far apart": axes[0] + axes[128],
        "eight": axes[:8].sum(axis=0),
        "all equal": np.ones(dim),
        "a row of Hadamard's": (-1.0) ** np.arange(dim),
        "dense": np.random.default_rng(0).standard_normal(dim),
        "inside": 0.5 * np.ones(dim) / math.sqrt(dim),
        "centre": np.zeros(dim),
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("two far apart", "eight", "inside")
        else name
        for name in hard_vectors(255)
    ],
)
def test_the_mean_of_equal_vectors_has_the_error_of_independent_reports(name):
    mechanism, users = HadamardCodebook(4.0, 255), 5_000
    vector = hard_vectors(255)[name]
    value = vector / max(1.0, np.linalg.norm(vector))
    coins = derive(5, np.arange(users))
    reports = mechanism.randomize(
        np.broadcast_to(value, (users, 255)), KeyedRandom(derive(6, coins)), coins
    )
    summary = mechanism.summarize(reports, coins)
    own = (summary.sum_of_squares.sum() / users - value @ value) / 255
    assert own <= 1.01 * mechanism.variance
    error = summary.sum / users - value
    # 4.5 standard errors of 255 squares (.089 each), and of what is along the vector
    assert abs((error @ error) * users / 255 / own - 1) < 4.5 * 0.089
    along = error @ value / max(np.linalg.norm(value), 1e-9)
    assert abs(along) < 4.5 * math.sqrt(mechanism.variance / users)


def test_one_codebook_is_chosen_by_the_number_of_coordinates():
    assert isinstance(ball_codebook(1.0, 4095, 2.0), Codebook)
    many = ball_codebook(1.0, 4096, 2.0, 512)
    assert many == HadamardCodebook(1.0, 4096, 2.0, 512)
    assert randomizer_from_config(many.to_config()) == many
    assert many.for_cohort(1000, 3) == many


@pytest.mark.parametrize(
    ("dim", "num_codewords", "message"),
    [
        (254, 16, "Expected an integer 255 <= dim <= 16777215, got 254"),
        (1 << 24, 16, "Expected an integer 1 <= dim <= 16777215, got 16777216"),
        (255, 257, "Expected an integer 2 <= num_codewords <= 256, got 257"),
    ],
)
def test_sizes_that_cannot_be_are_refused(dim, num_codewords, message):
    with pytest.raises(ValueError, match=message):
        HadamardCodebook(1.0, dim, num_codewords=num_codewords)
