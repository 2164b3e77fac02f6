"""The server's arithmetic of SparseRegression against naive versions of it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from ldp_flower.randomizers import SubsetSelection
from ldp_flower.strategies.numerics.denoising import ridge_moments
from ldp_flower.strategies.numerics.spike_and_slab import Evidence, Vote, posterior
from ldp_flower.strategies.sparse.base import water_fill
from ldp_flower.strategies.subprotocols.scales import TargetScale
from ldp_flower.strategies.subprotocols.vote import best_vote, information


def naive_posterior(estimates, variances):
    """Sum over shares, sizes, spreads and every coefficient's own grid, one after the other."""
    dim = len(estimates)
    step = min(max(min(np.sqrt(variances)) / 4, 0.00025), 0.005)
    steps = math.ceil(1 / step)
    values = np.linspace(-1, 1, 2 * steps + 1)
    sizes = np.geomspace(0.02, 0.6, 32)
    shares = sorted({min(2.0**i / dim, 0.5) for i in range(8)})
    points = [(p, b, w) for p in shares for b in sizes for w in (0.1, 0.4, 1.0)]
    points = [(p, b, w) for p, b, w in points if dim * p * b * b <= 1]
    likelihoods = [
        np.exp(-((e - values) ** 2) / (2 * v) + e * e / (2 * v))
        for e, v in zip(estimates, variances, strict=True)
    ]
    total, found = 0.5, np.zeros((dim, 3))
    for share, size, spread in points:
        slab = np.exp(-(((values / size - 1) / spread) ** 2) / 2)
        slab += np.exp(-(((values / size + 1) / spread) ** 2) / 2)
        slab = 0.99 * slab / slab.sum() + 0.01 / len(values)
        moments = [[(like * slab * values**k).sum() for k in range(3)] for like in likelihoods]
        each = [(1 - share) + share * moment[0] for moment in moments]
        weight = 0.5 / len(points) * math.prod(each)
        total += weight
        for j in range(dim):
            found[j] += weight * share * np.array(moments[j]) / each[j]
    found /= total
    squares = [
        (like * (values - mean) ** 2).sum() / like.sum()
        for like, mean in zip(likelihoods, found[:, 1], strict=True)
    ]
    return found[:, 0], found[:, 1], found[:, 2] - found[:, 1] ** 2, np.sqrt(squares)


def test_the_posterior_is_the_sum_over_everything():
    estimates, variances = np.array([0.3, -0.02, 0.08, 0.0]), np.array([0.004, 0.003, 0.003, 0.01])
    evidence = Evidence(4, 100)
    evidence.add(np.arange(4), estimates, variances)
    belief = posterior(evidence)
    inclusion, mean, variance, deviation = naive_posterior(estimates, variances)
    np.testing.assert_allclose(belief.inclusion, inclusion, rtol=1e-6)
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(belief.variance, variance, rtol=1e-5)
    np.testing.assert_allclose(belief.deviation, deviation, rtol=1e-6)


def test_without_evidence_little_is_believed():
    belief = posterior(Evidence(1000, 100))
    assert belief.inclusion.max() < 0.05 and np.abs(belief.mean).max() < 1e-12


def test_together_coefficients_explain_no_more_than_everything():
    """Twenty estimates of .5 explain five times the variance, and are not believed."""
    evidence = Evidence(400, 100)
    evidence.add(np.arange(20), np.full(20, 0.5), np.full(20, 0.02))
    assert (posterior(evidence).mean ** 2).sum() < 2.5


def test_one_large_coefficient_among_many_small_ones_is_kept():
    evidence = Evidence(150, 100)
    estimates = np.r_[0.84, np.tile([0.05, -0.05], 20)]
    evidence.add(np.arange(41), estimates, np.full(41, 1e-4))
    belief = posterior(evidence)
    assert belief.inclusion[:41].min() > 0.9
    np.testing.assert_allclose(belief.mean[0], 0.84, atol=0.01)


def test_a_vote_has_the_law_that_it_is_read_by():
    """Simulated sets and reports; 40,000 users, so a frequency's standard error is below .0025."""
    rng = np.random.default_rng(0)
    dim, rows, users, size = 40, 100, 40_000, 0.2
    oracle = SubsetSelection(3.0, dim, 4)
    scores = rng.standard_normal((users, dim))
    scores[:, :4] += math.sqrt(rows) * size
    sets = np.argpartition(-np.abs(scores), 4, axis=1)[:, :4]
    shares = oracle.mean(oracle.randomize(sets.astype(float), rng))
    own, other = float(oracle.own), float(oracle.other)
    counts = np.rint(users * (shares * (own - other) + other))
    vote = Vote(counts, users, own, other, 4, rows)
    values = np.linspace(-0.4, 0.4, 801)
    found = values[vote.log_likelihood(counts, values, 4 / dim, size).argmax(axis=1)]
    assert np.abs(np.abs(found[:4]) - size).max() < 0.5 * size  # sizes are told roughly
    assert np.abs(found[4:]).max() < 0.3 * size


def test_the_best_vote_is_the_most_informative():
    for epsilon in (1.0, 4.0, 8.0):
        best = best_vote(epsilon, 256, 1.75)
        others = [SubsetSelection(epsilon, 256, k) for k in (1, 2, 4, 8)]
        assert information(best, 1.75) >= max(information(oracle, 1.75) for oracle in others)
    assert information(best_vote(4.0, 256, 1.75), 3.0) > information(best_vote(4.0, 256, 1.75), 1.0)


def test_water_filling_is_the_minimum():
    variances = np.array([1.0, 0.5, 0.1, 1e-4, 2.0])
    shares = water_fill(variances, 7.0)
    assert shares.sum() == pytest.approx(1) and (shares >= 0).all() and shares[3] == 0

    def total(logits):
        weights = np.exp(logits) / np.exp(logits).sum()
        return (1 / (1 / variances + 7.0 * weights)).sum()

    best = minimize(total, np.zeros(5), method="Nelder-Mead", options={"maxiter": 20_000})
    assert (1 / (1 / variances + 7.0 * shares)).sum() <= best.fun + 1e-9


@pytest.mark.parametrize(("columns", "rows"), [(60, 120), (90, 30), (3, 600)])
def test_ridge_moments_are_those_of_random_features(columns, rows):
    """Eigenvalues of 400 draws: their averages have standard errors below half a percent."""
    rng = np.random.default_rng(1)
    factors, noises = [], []
    for _ in range(400):
        x = rng.standard_normal((rows, columns))
        values = np.linalg.eigvalsh(x.T @ x / rows)
        factors.append(np.mean(values / (values + 0.7)))
        noises.append(np.mean(values / (values + 0.7) ** 2))
    factor, noise = ridge_moments(columns / rows, 0.7)
    assert factor == pytest.approx(np.mean(factors), rel=0.02)
    assert noise == pytest.approx(np.mean(noises), rel=0.02)


def test_a_scale_is_updated_as_a_normal_belief():
    before = TargetScale(2.0, 0.04)
    after = before.updated(math.log(1.5), 0.01)
    assert after.value == pytest.approx(2 * 1.5**0.8)
    assert after.variance == pytest.approx(1 / (1 / 0.04 + 1 / 0.01))
