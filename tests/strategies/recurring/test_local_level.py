"""The local-level model: exact for one hypothesis, weighed by likelihood, and its bands hold."""

import numpy as np
import pytest

from ldp_flower.strategies.recurring import local_level as module
from ldp_flower.strategies.recurring.collected import _steadied
from ldp_flower.strategies.recurring.local_level import local_level

RNG = np.random.default_rng(3)
ESTIMATES = RNG.normal(0, 1, 7).cumsum()
ERRORS = np.array([1.0, 0.5, 2.0, 1.0, np.inf, 0.7, 1.0])


def dense(estimates, errors, drift):
    """Return the posterior of levels by linear algebra, and the density of the differences."""
    known = np.isfinite(errors)
    size = len(estimates)
    steps = np.diff(np.eye(size), axis=0)
    information = steps.T @ np.diag(1 / drift[1:]) @ steps
    information += np.diag(np.where(known, 1 / errors**2, 0.0))
    covariance = np.linalg.inv(information)
    mean = covariance @ np.where(known, estimates / errors**2, 0.0)
    path = np.tril(np.ones((size, size)))[:, 1:] @ np.diag(drift[1:])
    path = path @ np.tril(np.ones((size, size)))[:, 1:].T + np.diag(
        np.where(known, errors, 1.0) ** 2
    )
    contrasts = np.eye(size)[known][1:] - np.eye(size)[known][0]
    of_contrasts = contrasts @ path @ contrasts.T
    seen = contrasts @ np.where(known, estimates, 0.0)
    density = -0.5 * (
        seen @ np.linalg.solve(of_contrasts, seen) + np.linalg.slogdet(of_contrasts)[1]
    )
    return mean, np.sqrt(np.diag(covariance)), density


def test_one_hypothesis_is_the_posterior_of_a_random_walk(monkeypatch):
    monkeypatch.setattr(module, "_DRIFTS", np.array([0.3]))
    monkeypatch.setattr(module, "_STEPS", np.zeros(1))
    found = local_level(ESTIMATES, ERRORS)
    drift = np.full(len(ERRORS), 0.3 * np.median(ERRORS[np.isfinite(ERRORS)] ** 2))
    mean, error, _ = dense(ESTIMATES, ERRORS, drift)
    np.testing.assert_allclose(found.level, mean, rtol=1e-10)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-10)
    for now in range(1, len(ERRORS)):  # as it was known then
        mean, error, _ = dense(ESTIMATES[: now + 1], ERRORS[: now + 1], drift[: now + 1])
        assert found.filtered[now] == pytest.approx(mean[-1])
        assert found.filtered_std_error[now] == pytest.approx(error[-1])


def test_hypotheses_weigh_by_prior_and_likelihood():
    """Drifts at which there is a step, of every size before every collection, or none."""
    usual = np.median(ERRORS[np.isfinite(ERRORS)] ** 2)
    means, variances, weights = [], [], []
    for rate in module._DRIFTS:
        for place in range(len(ERRORS)):
            for size in module._STEPS if place else [0.0]:
                drift = np.full(len(ERRORS), rate)
                drift[place] += size**2
                mean, error, density = dense(ESTIMATES, ERRORS, usual * drift)
                prior = module._STEP_RATE / len(module._STEPS) if place else 1.0
                means.append(mean)
                variances.append(error**2)
                weights.append(prior * np.exp(density))
    weights = np.array(weights)[:, None] / np.sum(weights)
    mean = (weights * means).sum(axis=0)
    error = np.sqrt((weights * (variances + (means - mean) ** 2)).sum(axis=0))
    found = local_level(ESTIMATES, ERRORS)
    np.testing.assert_allclose(found.level, mean, rtol=1e-8)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-8)


@pytest.mark.parametrize("shape", ["constant", "walk", "step", "trend"])
def test_bands_hold_and_levels_are_nearer_than_estimates(shape):
    """50 series of 52 estimates each: bands that miss by .06 would miss by .08 once in 100 cases,
    levels of one series being alike for some 10 collections. Errors are as large as a fixed
    window's of ten collections, or nearly so: .32 of an estimate's; at the step others."""
    at = np.arange(52)
    filtered, smoothed, missed = [], [], []
    for seed in range(50):
        rng = np.random.default_rng([11, seed])
        truth = {
            "constant": np.zeros(52),
            "walk": rng.normal(0, 0.15, 52).cumsum(),
            "step": 3.0 * (at >= rng.integers(5, 47)),
            "trend": 0.06 * at,
        }[shape]
        found = local_level(truth + rng.standard_normal(52), np.ones(52))
        off = np.array([found.filtered, found.level]) - truth
        errors = np.array([found.filtered_std_error, found.std_error])
        missed.append((np.abs(off) > 1.96 * errors).mean(axis=1))
        filtered.append(off[0])
        smoothed.append(off[1])
    assert (np.mean(missed, axis=0) < 0.08).all()
    assert np.sqrt(np.mean(np.square(filtered))) < (0.65 if shape == "step" else 0.5)
    assert np.sqrt(np.mean(np.square(smoothed))) < 0.4


def test_a_step_is_in_the_band_of_its_own_collection():
    truth = 5.0 * (np.arange(40) >= 20)
    found = local_level(truth + np.random.default_rng(0).standard_normal(40), np.ones(40))
    assert abs(found.level[19]) < 1.0 and abs(found.level[20] - 5) < 1.0


def test_what_is_missing_or_has_no_error():
    found = local_level(np.array([np.nan, 1.0, np.nan, 2.0]), np.array([1.0, 1.0, 1.0, 0.0]))
    assert np.isnan(found.filtered[0]) and np.isnan(found.level[0])
    assert np.isfinite(found.level[1:]).all()
    assert found.level[3] == pytest.approx(2.0, abs=1e-4)
    assert found.std_error[2] > found.std_error[1]
    nothing = local_level(np.full(3, np.nan), np.full(3, np.inf))
    assert np.isnan(nothing.level).all() and np.isnan(nothing.std_error).all()
    exact = local_level(np.array([1.0, 5.0]), np.zeros(2))
    np.testing.assert_allclose(exact.level, [1, 5], atol=1e-4)


def test_many_collections_take_a_step_for_possible_at_some_places_only():
    drift, prior = module._hypotheses(500)
    assert drift.shape == (500, len(prior))
    assert len(prior) == len(module._DRIFTS) * (1 + len(module._STEPS) * len(range(1, 500, 5)))


def test_the_noise_of_some_collections_is_averaged_for_each_report():
    rng = np.random.default_rng(0)
    errors = rng.uniform(1, 2, (30, 2))
    reports = rng.integers(50, 60, (30, 1)).astype(float)
    errors[4, 0], reports[9], errors[9] = np.inf, 0, np.inf
    found = _steadied(errors, reports)
    for at, place in np.ndindex(errors.shape):
        those = slice(max(0, at - 7), at + 1)
        own, known = errors[those, place], np.isfinite(errors[those, place])
        of_one = np.mean(own[known] ** 2 * reports[those, 0][known])
        expected = np.sqrt(of_one / reports[at, 0]) if known[-1] else np.inf
        assert found[at, place] == pytest.approx(expected)
