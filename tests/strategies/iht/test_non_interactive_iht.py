"""Sparse regression in one round, pure and with the paper's Gaussian noise."""

import numpy as np
import pytest

from ldp_flower import PrivacyPolicy, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.randomizers.real_valued.gaussian import gaussian_mu
from ldp_flower.strategies import ContradictedValue, NonInteractiveIht


def signs(seed, rows=100_000, dim=32, sparsity=2, mixing=None):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (rows, dim))
    if mixing is not None:
        x = x @ mixing
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = 0.8, -0.6
    return x, x @ theta + rng.normal(0, 0.3, rows), theta


def error(strategy, x, y, theta, seed=0):
    return np.linalg.norm(simulate(strategy, Users.from_rows(x, y), seed=seed).coef - theta)


@pytest.mark.parametrize(("declared", "bound"), [({"target_scale": 1.0}, 0.2), ({}, 0.5)])
def test_one_round_finds_the_coefficients(declared, bound):
    found, scores = [], []
    for seed in range(5):
        x, y, theta = signs(seed)
        strategy = NonInteractiveIht(32, sparsity=2, epsilon=2.0, **declared)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        found.append(np.linalg.norm(result.coef - theta))
        asked = [step.statistic for step in result.steps[1:]]
        assert asked == ["residual_octave", "distance_octave", "squares", "gradient"]
        assert result.num_reports == 100_000 and not result.notes
        scores.append(((result.coef - theta) / result.std_error)[theta != 0])
        assert (result.std_error > 0).all()
        assert (result.privacy.epsilon, result.privacy.delta) == (2.0, 0.0)
    # Two-valued sums are not normal, which is taken for granted: .1 of bias, and .4 of their signs.
    assert np.median(found) < bound and max(found) < 1.5 * bound
    assert np.sqrt(np.mean(np.square(scores))) < 2.5


def test_the_papers_noise_is_an_order_larger():
    pure = NonInteractiveIht(32, sparsity=2, epsilon=1.0, target_scale=1.0)
    paper = NonInteractiveIht(32, sparsity=2, epsilon=1.0, method="paper", delta=1e-5)
    ratio = paper.randomizer().variance / pure.randomizer().variance
    assert 9 < ratio < 15
    sigma = 2 * 1.0 * np.sqrt(32) / gaussian_mu(1.0, 1e-5)
    assert paper.randomizer().variance == pytest.approx(sigma**2)


def test_a_known_covariance_is_solved_with():
    mixing = 0.5 ** np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
    mixing /= np.abs(mixing).sum(axis=0).max()  # rows stay in [-1, 1]
    x, y, theta = signs(3, rows=200_000, dim=16, mixing=mixing)
    scale = float(np.sqrt(np.mean(y**2)))
    options = {"sparsity": 2, "epsilon": 30.0, "target_scale": scale}
    known = error(NonInteractiveIht(16, covariance=mixing.T @ mixing, **options), x, y, theta)
    unknown = error(NonInteractiveIht(16, **options), x, y, theta)
    assert known < 0.2 and unknown > 0.4


def test_the_papers_mechanism_needs_the_operators_leave():
    x, y, _ = signs(0, rows=300)
    strategy = NonInteractiveIht(32, sparsity=2, epsilon=1.0, method="paper", delta=1e-5)
    with pytest.raises(RuntimeError, match="policy does not allow"):
        simulate(strategy, Users.from_rows(x, y), seed=0, policy=PrivacyPolicy(1.0, 1e-5))


@pytest.mark.slow
def test_standard_errors_are_the_noise():
    """Eighty draws of sixteen coefficients of targets that have none: noise is all there is."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4000, 16))
    users = Users.from_rows(x, rng.standard_normal(4000))
    strategy = NonInteractiveIht(16, sparsity=1, epsilon=2.0, target_scale=1.0)
    runs = [simulate(strategy, users, seed=seed) for seed in range(80)]
    kept = np.array([run.coef[run.support[0]] / run.std_error[run.support[0]] for run in runs])
    # The largest of sixteen normal numbers is 2 in size, give or take a half.
    assert 1.5 < np.sqrt(np.mean(kept**2)) < 2.3
    assert all(run.notes for run in runs if np.abs(run.coef / run.std_error).max() < 3)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda x, y: (x, y + 5), "Targets are not centred: 100% have the same sign"),
        (lambda x, y: (3 * x, y), "Features exceed"),
        (lambda x, y: (x, np.random.default_rng(9).permutation(y)), "The support is not certain"),
    ],
    ids=["off-centre", "beyond 1", "noise"],
)
def test_what_it_relies_on_is_checked(change, note):
    x, y, _ = signs(0, rows=40_000)
    result = simulate(
        NonInteractiveIht(32, sparsity=2, epsilon=4.0), Users.from_rows(*change(x, y)), seed=0
    )
    assert any(note in each for each in result.notes)


def test_nothing_about_targets_need_be_known():
    """Targets in any unit, features of any size within 1: three runs each within 35 %."""
    for seed, unit in enumerate((1e-3, 1.0, 1e5)):
        x, _, theta = signs(seed, rows=40_000)
        x *= np.random.default_rng(seed).uniform(0.2, 1, len(x))[:, None]
        noise = np.random.default_rng(seed + 9).laplace(0, 0.5, len(x))
        users = Users.from_rows(x, unit * (x @ theta + noise))
        result = simulate(NonInteractiveIht(32, sparsity=2, epsilon=4.0), users, seed=seed)
        assert set(result.support) == set(np.flatnonzero(theta))
        assert np.linalg.norm(result.coef / unit - theta) < 0.35
        assert np.abs((result.coef - unit * theta) / result.std_error)[theta != 0].max() < 3


def test_a_scale_that_is_not_the_targets_is_refused_before_the_others_are_asked():
    x, y, _ = signs(0, rows=40_000)
    strategy = NonInteractiveIht(32, sparsity=2, epsilon=4.0, target_scale=10.0)
    with pytest.raises(
        ContradictedValue, match=r"Expected a target_scale near .* got 10: reports show"
    ):
        simulate(strategy, Users.from_rows(x, y), seed=0)


@pytest.mark.long
def test_every_query_is_audited():
    runs = list(NonInteractiveIht.audit_runs(4, 2.0))
    queries = [query for run in runs for query in recorded_queries(*run)]
    assert len(queries) == 5
    for query in queries:
        assert audit_handler(query, extreme_users(4), num_reports=300, seed=0).passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"sparsity": 9}, "Expected an integer 1 <= sparsity <= 8, got 9"),
        ({"method": "gaussian"}, "Expected method in .*, got 'gaussian'"),
        ({"method": "paper"}, "Expected delta > 0 if method='paper' and delta = 0 otherwise"),
        ({"delta": 1e-3}, "Expected delta > 0 if method='paper' and delta = 0 otherwise"),
        ({"radius": 0.0}, "Expected radius > 0 and finite, got 0.0"),
        ({"target_scale": -1.0}, "Expected target_scale > 0 and finite, got -1.0"),
        ({"covariance": np.eye(7)}, r"Expected a finite covariance of shape \(8, 8\)"),
        ({"covariance": np.ones((8, 8))}, "Expected a covariance that can be inverted"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        NonInteractiveIht(**{"dim": 8, "sparsity": 2, "epsilon": 1.0} | arguments)
