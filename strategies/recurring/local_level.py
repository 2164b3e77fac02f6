"""The local-level model: what the level of a drifting quantity is and was, from noisy estimates.

An estimate is the level plus noise of known variance; the level moves by a random walk, and may
make one sudden step, or have a momentum that fades, and days may differ by themselves. How much of
which is not known: every hypothesis has a Kalman filter of its own, all at once, and weighs by its
likelihood (Bayesian model averaging).
"""

from dataclasses import dataclass, replace

import numpy as np

from ldp_flower.validation import Floats

# Variance of a collection's drift over that of its estimate. Below the first a level's error with
# and without drift is alike for some 50 collections; above the last nothing is smoothed.
_DRIFTS = 10.0 ** np.arange(-2.0, 1.1, 0.5)
_STEPS = np.array([2.0, 4.0, 8.0])  # standard deviations of a step, in raw standard errors
_STEP_RATE = 0.02  # prior probability of a step before a collection: once in a year of weeks
# Variances of the change of a level's momentum, over that of an estimate. Without it past levels of
# an epidemic's waves had errors 1.3 times as large.
_MOMENTA = 10.0 ** np.arange(-2.0, 0.6, 0.5)
# Variances of what a day differs by from the others, itself, over that of an estimate.
_DAYS = 10.0 ** np.arange(-1.0, 1.6, 0.5)
_LASTING = 0.8  # of a momentum, at the next collection: a rise lasts for some five
# Estimates by which a level's error is checked: the last ones, and so many to both sides. Tuned on
# 8 seeds (500 to 507) of the study's six populations: today's bands of an epidemic's share miss 5
# to 6 %, and 8 to 11 % without the check; past ones of days that differ as much as estimates 8.8 %
# without it.
_CHECKED = 4
_MAX_PLACES = 100  # places of a step that are tried; with more collections every second, third ...
_FLOOR = 1e-6  # least variance of an estimate, over the usual one: errors of 0 are of rounding


@dataclass(frozen=True)
class LocalLevel:
    """Levels, each array of shape (collections,).

    ``filtered`` are from the estimates up to each collection, as was known then, ``level`` from all
    estimates. ``innovation`` is how far each estimate was from what those before it had led to
    expect, in standard deviations of that; NaN for the first one and for those that are missing.
    """

    filtered: Floats
    filtered_std_error: Floats
    level: Floats
    std_error: Floats
    innovation: Floats


def local_level(estimates: Floats, std_errors: Floats) -> LocalLevel:
    """Return the levels behind estimates with known standard errors.

    Parameters
    ----------
    estimates, std_errors : ndarray, shape (collections,)
        In order. One that is not finite, or whose error is not, is missing. Levels before the
        first that is not missing are not finite.

    Notes
    -----
    Source: Durbin & Koopman (2012), sections 2.2, 2.4 and 4.4. A level's variance is that of the
    mixture of all hypotheses: what each one leaves open, and how far they are apart.

    Where no hypothesis is right, as when an epidemic's wave begins, the last estimates are further
    from what was expected than they should be, or all on one side of it. Today's standard error is
    then as many times larger; in hindsight, where estimates to both sides were further off.
    """
    known = np.isfinite(estimates) & np.isfinite(std_errors)
    variances = np.where(known, std_errors, 1.0) ** 2
    noisy = variances[known & (variances > 0)]
    usual = float(np.median(noisy)) if len(noisy) else 1.0
    variances = np.where(known, np.maximum(variances, _FLOOR * usual), np.inf)
    drift, change, day, prior = _hypotheses(len(estimates))
    values = np.where(known, estimates, 0.0)
    found = _averaged(values, variances, usual * drift, usual * change, usual * day, prior)
    return replace(
        found,
        filtered_std_error=found.filtered_std_error * _excess(found.innovation),
        std_error=found.std_error * _excess_around(found.innovation),
    )


def _excess(innovation: Floats) -> Floats:
    """Return how many times larger than expected the last innovations are, at least once.

    Their root mean square, or their mean in its own standard errors if they are on one side.
    """
    found = np.ones(len(innovation))
    for t in range(len(innovation)):
        seen = innovation[: t + 1]
        if len(last := seen[np.isfinite(seen)][-_CHECKED:]):
            aside = abs(float(last.sum())) / len(last) ** 0.5
            found[t] = max(1.0, float(np.sqrt(np.mean(last**2))), aside)
    return found


def _excess_around(innovation: Floats) -> Floats:
    """Return how many times larger than expected innovations near each collection are, likewise."""
    near = np.ones(2 * _CHECKED + 1)
    seen = np.isfinite(innovation)
    squares = np.convolve(np.where(seen, innovation, 0.0) ** 2, near)[_CHECKED:-_CHECKED]
    number = np.convolve(seen, near)[_CHECKED:-_CHECKED]
    return np.asarray(np.sqrt(np.maximum(squares / np.maximum(number, 1), 1.0)))


def _hypotheses(collections: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the hypotheses about the way into each collection, and the logarithms of their priors.

    Variances of a level's drift, (collections, hypotheses), of its momentum's change, and of what a
    day differs by: a rate of drift with no step, or with one of some size before some collection,
    or momentum; a rate of drift, or momentum, with days that differ.
    """
    places = np.arange(1, collections, max(1, -(-collections // _MAX_PLACES)))
    steps = np.zeros((collections, 1 + len(places) * len(_STEPS)))
    columns = np.arange(1, steps.shape[1]).reshape(len(_STEPS), len(places))
    for size, each in zip(_STEPS, columns, strict=True):
        steps[places, each] = size**2
    log_rate = np.log(_STEP_RATE / len(_STEPS)) * steps.any(axis=0)
    drift = (steps[:, :, None] + _DRIFTS).reshape(collections, -1)
    with_momentum = np.full((collections, len(_MOMENTA)), _DRIFTS[0])
    usual = np.hstack([np.tile(_DRIFTS, (collections, 1)), with_momentum])  # without a step
    moments = np.concatenate([np.zeros(len(_DRIFTS)), _MOMENTA])
    others = len(_MOMENTA) + len(_DAYS) * len(moments)
    days = np.repeat(_DAYS, len(moments))
    return (
        np.hstack([drift, with_momentum, np.tile(usual, len(_DAYS))]),
        np.concatenate([np.zeros(drift.shape[1]), _MOMENTA, np.tile(moments, len(_DAYS))]),
        np.concatenate([np.zeros(drift.shape[1] + len(_MOMENTA)), days]),
        np.concatenate([np.repeat(log_rate, len(_DRIFTS)), np.zeros(others)]),
    )


def _averaged(
    estimates: Floats, noise: Floats, drift: Floats, change: Floats, day: Floats, prior: Floats
) -> LocalLevel:
    """Return the average over all hypotheses of the filtered and the smoothed levels.

    The state is a level and its momentum: ``a`` and ``c`` are their variances, ``b`` is their
    covariance. At first nothing is known of the level; the momentum is stationary.
    """
    level, likelihood = np.empty(drift.shape), np.empty(drift.shape)
    kept = np.empty((len(estimates), 6, drift.shape[1]))
    innovation = np.full(len(estimates), np.nan)
    at, pace, log_weight = np.zeros(len(prior)), np.zeros(len(prior)), prior
    a, b, c = np.full(len(prior), np.inf), np.zeros(len(prior)), change / (1 - _LASTING**2)
    for t, estimate in enumerate(estimates):
        pace = _LASTING * pace
        at = at + pace
        c = _LASTING**2 * c + change
        a, b = a + 2 * _LASTING * b + c + drift[t], _LASTING * b + c
        apart = noise[t] + day  # variance of an estimate about the level
        precision = 1 / (a + apart)  # 0 at the first estimate, and of one that is missing
        off = estimate - at
        if known := bool(np.isfinite(noise[t])):
            if np.isfinite(a).all():
                weight = np.exp(log_weight - log_weight.max())
                expected, error = _mixture(at, a + apart, weight / weight.sum())
                innovation[t] = (estimate - expected) / error
            log_weight = log_weight - off**2 * precision / 2
            log_weight = log_weight + np.log(np.where(precision > 0, precision, 1.0)) / 2
        gain = 1 - apart * precision if known else np.zeros(len(prior))
        other = b * precision
        at, pace = at + gain * off, pace + other * off
        if known:
            a, b, c = gain * apart, b * apart * precision, c - other * b
        level[t], likelihood[t] = at, log_weight
        kept[t] = a, b, gain, other, off * precision, precision
    weights = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    filtered = _mixture(*_of_days(level, kept[:, 0], estimates, noise, day), weights)
    smoothed = _of_days(*_smoothed(level, kept), estimates, noise, day)
    past = _mixture(*smoothed, np.broadcast_to(weights[-1], level.shape))
    return LocalLevel(*filtered, *past, innovation)


def _of_days(
    mean: Floats, variance: Floats, estimates: Floats, noise: Floats, day: Floats
) -> tuple[Floats, Floats]:
    """Return what each day was, given the level: part of what its estimate is off by is its own."""
    noise, known = noise[:, None], np.isfinite(noise)[:, None]
    own = day / (noise + day)  # 0 of a missing estimate
    left = np.where(known, own * np.where(known, noise, 0.0), day)
    return mean + own * (estimates[:, None] - mean), (1 - own) ** 2 * variance + left


def _smoothed(level: Floats, kept: Floats) -> tuple[Floats, Floats]:
    """Return means and variances of levels given all estimates, by de Jong's recursions.

    ``x`` and ``y`` are what later estimates say of a level and its momentum as they are foreseen,
    ``p``, ``q`` and ``r`` how much of their variances they take away.
    """
    mean, variance = level.copy(), kept[:, 0].copy()
    x, y, p, q, r = np.zeros((5, level.shape[1]))
    for t in range(len(level) - 1, -1, -1):
        a, b, gain, other, surprise, precision = kept[t]
        y, q, r = _LASTING * (x + y), _LASTING * (p + q), _LASTING**2 * (p + 2 * q + r)
        if np.isfinite(a).all():
            mean[t] += a * x + b * y
            variance[t] -= a**2 * p + 2 * a * b * q + b**2 * r
        rest = 1 - gain
        p = precision + rest**2 * p - 2 * rest * other * q + other**2 * r
        q = rest * q - other * r
        x = surprise + rest * x - other * y
    return mean, variance


def _mixture(mean: Floats, variance: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations of mixtures, along the last axis; NaN if not known."""
    centre = (weights * mean).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        total = (weights * (variance + (mean - centre[..., None]) ** 2)).sum(axis=-1)
    known = np.isfinite(total)
    return np.where(known, centre, np.nan), np.where(known, np.sqrt(total), np.nan)
