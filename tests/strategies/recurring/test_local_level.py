"""The local-level model: exact for one hypothesis, weighed by likelihood, and its bands hold."""

import numpy as np
import pytest

from ldp_flower.strategies.recurring import local_level as module
from ldp_flower.strategies.recurring.local_level import local_level
from ldp_flower.strategies.recurring.season import season_of, seasonal_level
from ldp_flower.strategies.recurring.series_result import _averaged_errors

RNG = np.random.default_rng(3)
ESTIMATES = RNG.normal(0, 1, 7).cumsum()
ERRORS = np.array([1.0, 0.5, 2.0, 1.0, np.inf, 0.7, 1.0])


def dense(estimates, errors, moved, day=0.0):
    """Return levels given all estimates, by linear algebra, and the density of their differences.

    ``moved`` is the covariance of the ways into all collections but the first, ``day`` the variance
    of what each differs by itself.
    """
    known = np.isfinite(errors)
    path = np.tril(np.ones((len(errors), len(errors))))[:, 1:]
    path = path @ moved @ path.T + day * np.eye(len(errors))
    inverse = np.linalg.inv(path[np.ix_(known, known)] + np.diag(errors[known] ** 2))
    flat = 1 / inverse.sum()  # variance of the first level, of which nothing is known before
    first = flat * (inverse @ estimates[known]).sum()
    mean = first + path[:, known] @ inverse @ (estimates[known] - first)
    rest = 1 - path[:, known] @ inverse.sum(axis=0)
    variance = np.diag(path - path[:, known] @ inverse @ path[known]) + rest**2 * flat
    contrasts = np.eye(known.sum())[1:] - np.eye(known.sum())[0]
    seen, spread = contrasts @ estimates[known], contrasts @ np.linalg.inv(inverse) @ contrasts.T
    density = seen @ np.linalg.solve(spread, seen) + np.linalg.slogdet(spread)[1]
    return mean, np.sqrt(variance), -density / 2


def moving(drift, change=0.0):
    """Return the covariance of the ways into collections of drifts, and a momentum that changes."""
    apart = np.abs(np.subtract.outer(np.arange(len(drift)), np.arange(len(drift))))
    lasting = module._LASTING
    return np.diag(drift) + change / (1 - lasting**2) * lasting**apart


USUAL = np.median(ERRORS[np.isfinite(ERRORS)] ** 2)


@pytest.mark.parametrize("day", [0.0, 0.7])
@pytest.mark.parametrize("change", [0.0, 0.2, 3.0])
def test_one_hypothesis_is_the_posterior_of_its_walk(change, day):
    drift = np.array([0.5, 0.3, 0.3, 0.3, 2.0, 0.3, 0.3])
    given = np.isfinite(ERRORS)
    found = module._averaged(
        np.where(given, ESTIMATES, 0),
        ERRORS**2,
        drift[:, None],
        np.array([change]),
        np.array([day]),
        np.zeros(1),
    )
    mean, error, _ = dense(ESTIMATES, ERRORS, moving(drift[1:], change), day)
    np.testing.assert_allclose(found.level, mean, rtol=1e-10)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-10)
    for now in range(1, len(ERRORS)):  # as it was known then
        so_far = slice(now + 1)
        mean, error, _ = dense(
            ESTIMATES[so_far], ERRORS[so_far], moving(drift[1 : now + 1], change), day
        )
        assert found.filtered[now] == pytest.approx(mean[-1])
        assert found.filtered_std_error[now] == pytest.approx(error[-1])


def test_hypotheses_weigh_by_prior_and_likelihood():
    """Drifts with no step, or with one of every size before every collection; momenta; days."""
    ways = [
        (np.full(6, rate) + size**2 * (np.arange(6) == place), 0.0, 0.0, size)
        for rate in module._DRIFTS
        for place in range(-1, 6)
        for size in (module._STEPS if place >= 0 else [0.0])
    ]
    for day in (0.0, *module._DAYS):
        ways += [(np.full(6, rate), 0.0, day, 0.0) for rate in module._DRIFTS if day]
        ways += [(np.full(6, module._DRIFTS[0]), each, day, 0.0) for each in module._MOMENTA]
    found = [
        dense(ESTIMATES, ERRORS, USUAL * moving(drift, change), USUAL * day)
        for drift, change, day, _ in ways
    ]
    means, errors, densities = map(np.array, zip(*found, strict=True))
    rate = module._STEP_RATE / len(module._STEPS)
    priors = [rate if size else 1.0 for *_, size in ways]
    weights = (priors * np.exp(densities))[:, None]
    weights /= weights.sum()
    mean = (weights * means).sum(axis=0)
    error = np.sqrt((weights * (errors**2 + (means - mean) ** 2)).sum(axis=0))
    levels = local_level(ESTIMATES, ERRORS)
    np.testing.assert_allclose(levels.level, mean, rtol=1e-8)
    wider = module._excess_around(levels.innovation)
    np.testing.assert_allclose(levels.std_error, error * wider, rtol=1e-8)


SHAPES = ["constant", "walk", "step", "trend", "days", "days that differ much", "weekdays"]


@pytest.mark.parametrize("shape", SHAPES)
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
            "days": rng.normal(0, 0.15, 52).cumsum() + rng.standard_normal(52),
            "days that differ much": rng.normal(0, 4, 52),
            "weekdays": 1.5 * np.array([0, 0.3, 0.4, 0.1, 0.5, -1, -1])[at % 7],
        }[shape]
        estimates, ones = truth + rng.standard_normal(52), np.ones(52)
        season = shape == "weekdays"
        found = seasonal_level(estimates, ones, 7) if season else local_level(estimates, ones)
        off = np.array([found.filtered, found.level]) - truth
        errors = np.array([found.filtered_std_error, found.std_error])
        missed.append((np.abs(off) > 1.96 * errors).mean(axis=1))
        filtered.append(off[0])
        smoothed.append(off[1])
    assert (np.mean(missed, axis=0) < 0.08).all()
    own = {"step": (0.65, 0.4), "days": (0.9, 0.85), "days that differ much": (1.05, 1.05)}
    own["weekdays"] = 0.8, 0.5  # nothing is known of them in the first three weeks
    own["trend"] = 0.55, 0.4  # .48 today if days could not differ by themselves
    today, past = own.get(shape, (0.5, 0.4))
    assert np.sqrt(np.mean(np.square(filtered))) < today
    assert np.sqrt(np.mean(np.square(smoothed))) < past


def test_a_season_is_what_it_is_and_noise_is_none():
    rng, at = np.random.default_rng(4), np.arange(70)
    season = np.array([3.0, 1, 0, 0, -1, -1, -2])
    for missing in ([], [5, 6, 30]):
        estimates = season[at % 7] + 0.05 * at + 0.3 * rng.standard_normal(70)
        estimates[missing] = np.nan
        effects, errors = season_of(estimates, 7)
        assert np.sqrt(np.mean(((effects - season) / errors) ** 2)) < 2
    nothing = [np.abs(season_of(rng.standard_normal(70), 7)[0]).max() for _ in range(20)]
    assert (
        np.mean(nothing) < 0.3
    )  # means of ten numbers, which would be .6 at most without shrinking
    assert not season_of(estimates[:20], 7)[0].any()
    assert not season_of(np.full(70, 0.3), 7)[0].any()
    assert np.abs(season_of(np.tile([1.0, -1, 2, -2], 20), 4)[0] - [1, -1, 2, -2]).max() < 1e-6


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
    drift, change, days, prior = module._hypotheses(500)
    assert drift.shape == (500, len(prior)) and len(change) == len(days) == len(prior)
    steps = len(module._STEPS) * len(range(1, 500, 5))
    usual = len(module._DRIFTS) + len(module._MOMENTA)
    assert len(prior) == usual * (1 + len(module._DAYS)) + len(module._DRIFTS) * steps


def test_the_noise_of_some_collections_is_averaged_for_each_report():
    rng = np.random.default_rng(0)
    errors = rng.uniform(1, 2, (30, 2))
    reports = rng.integers(50, 60, (30, 1)).astype(float)
    errors[4, 0], reports[9], errors[9] = np.inf, 0, np.inf
    found = _averaged_errors(errors, reports)
    for at, place in np.ndindex(errors.shape):
        those = slice(max(0, at - 7), at + 1)
        own, known = errors[those, place], np.isfinite(errors[those, place])
        of_one = np.mean(own[known] ** 2 * reports[those, 0][known])
        expected = np.sqrt(of_one / reports[at, 0]) if known[-1] else np.inf
        assert found[at, place] == pytest.approx(expected)


def test_todays_error_is_wider_where_the_last_estimates_are_off_or_on_one_side():
    assert module._excess(np.array([np.nan, 0.5, -0.5])).tolist() == [1.0, 1.0, 1.0]
    found = module._excess(np.array([np.nan, 3.0, np.nan, -1.0, 1.0, 1.0, 1.0, 1.0]))
    expected = [1, 3, 3, 5**0.5, (11 / 3) ** 0.5, 2, 1, 2]
    assert found == pytest.approx(expected)


def test_an_innovation_is_in_units_of_what_was_expected():
    """Of a level that never moves the estimates are foreseen by the mean of those before them."""
    estimates = RNG.standard_normal(9)
    found = module._averaged(estimates, np.ones(9), np.zeros((9, 1)), *np.zeros((3, 1)))
    before = np.cumsum(estimates)[:-1] / np.arange(1, 9)
    assert np.isnan(found.innovation[0])
    expected = (estimates[1:] - before) / np.sqrt(1 + 1 / np.arange(1, 9))
    np.testing.assert_allclose(found.innovation[1:], expected, rtol=1e-10)
    whole = local_level(estimates, np.ones(9))
    assert np.isfinite(whole.innovation[1:]).all()


def test_the_band_of_today_holds_when_a_wave_begins():
    """100 waves after a quiet time: without the check the bands of the first rise miss by .2."""
    at = np.arange(14)
    wave = 8.0 * np.exp(-0.5 * ((at - 13) / 3) ** 2)
    missed = []
    for seed in range(100):
        rng = np.random.default_rng([12, seed])
        found = local_level(wave + rng.standard_normal(14), np.ones(14))
        plain = found.filtered_std_error / module._excess(found.innovation)
        off = np.abs(found.filtered - wave)
        missed.append([(off > 1.96 * e)[8:].mean() for e in (found.filtered_std_error, plain)])
    now, before = np.mean(missed, axis=0)
    assert now < 0.6 * before and now < 0.1 < before
