"""The local-level model: what the level of a drifting quantity is and was, from noisy estimates.

An estimate is the level plus noise of known variance; the level moves by a random walk, and may
make one sudden step. How fast it drifts, and when it stepped, is not known: every hypothesis has
a Kalman filter of its own, all at once, and weighs by its likelihood (Bayesian model averaging).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Variance of a collection's drift over that of its estimate. Below the first a level's error with
# and without drift is alike for some 50 collections; above the last nothing is smoothed.
_DRIFTS = 10.0 ** np.arange(-2.0, 1.1, 0.5)
_STEPS = np.array([2.0, 4.0, 8.0])  # standard deviations of a step, in raw standard errors
_STEP_RATE = 0.02  # prior probability of a step before a collection: once in a year of weeks
_MAX_PLACES = 100  # places of a step that are tried; with more collections every second, third ...
_FLOOR = 1e-6  # least variance of an estimate, over the usual one: errors of 0 are of rounding


@dataclass(frozen=True)
class LocalLevel:
    """Levels, each array of shape (collections,).

    Attributes
    ----------
    filtered, filtered_std_error : ndarray of float64
        The level of each collection from the estimates up to it, as it was known then.
    level, std_error : ndarray of float64
        The level of each collection from all estimates.
    """

    filtered: Floats
    filtered_std_error: Floats
    level: Floats
    std_error: Floats


def local_level(estimates: Floats, std_errors: Floats) -> LocalLevel:
    """Return the levels behind estimates with known standard errors.

    Parameters
    ----------
    estimates, std_errors : ndarray, shape (collections,)
        In order. One that is not finite, or whose error is not, is missing. Levels before the
        first that is not missing are not finite.

    Notes
    -----
    Source: Durbin & Koopman (2012), sections 2.2 and 2.4. A level's variance is that of the
    mixture of all hypotheses: what each one leaves open, and how far they are apart.
    """
    known = np.isfinite(estimates) & np.isfinite(std_errors)
    variances = np.where(known, std_errors, 1.0) ** 2
    noisy = variances[known & (variances > 0)]
    usual = float(np.median(noisy)) if len(noisy) else 1.0
    variances = np.where(known, np.maximum(variances, _FLOOR * usual), np.inf)
    drift, prior = _hypotheses(len(estimates))
    return _averaged(np.where(known, estimates, 0.0), variances, usual * drift, prior)


def _hypotheses(collections: int) -> tuple[Floats, Floats]:
    """Return variances of the way into each collection, (collections, hypotheses), and log priors.

    Each is a rate of drift with no step, or with one of some size before some collection.
    """
    places = np.arange(1, collections, max(1, -(-collections // _MAX_PLACES)))
    steps = np.zeros((collections, 1 + len(places) * len(_STEPS)))
    columns = np.arange(1, steps.shape[1]).reshape(len(_STEPS), len(places))
    for size, each in zip(_STEPS, columns, strict=True):
        steps[places, each] = size**2
    log_rate = np.log(_STEP_RATE / len(_STEPS)) * steps.any(axis=0)
    drift = (steps[:, :, None] + _DRIFTS).reshape(collections, -1)
    return drift, np.repeat(log_rate, len(_DRIFTS))


def _averaged(estimates: Floats, variances: Floats, drift: Floats, prior: Floats) -> LocalLevel:
    """Return the average over all hypotheses of the filtered and the smoothed levels."""
    mean = np.zeros(drift.shape)
    spread, expected = np.full(drift.shape, np.inf), np.full(drift.shape, np.inf)
    weights = np.empty(drift.shape)
    at, variance, likelihood = np.zeros(len(prior)), np.full(len(prior), np.inf), prior
    for t, (estimate, noise) in enumerate(zip(estimates, variances, strict=True)):
        expected[t] = variance + drift[t]
        if np.isfinite(noise):
            total = expected[t] + noise
            gain = 1 - noise / total  # 1 at the first, before which nothing is known
            first = np.isinf(total)
            surprise = (estimate - at) ** 2 / total + np.log(np.where(first, 1.0, total))
            likelihood = likelihood - surprise / 2
            at, variance = at + gain * (estimate - at), gain * noise
        else:
            variance = expected[t]
        mean[t], spread[t], weights[t] = at, variance, likelihood
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    filtered = _mixture(mean, spread, weights)
    for t in range(len(mean) - 2, -1, -1):
        if np.isfinite(spread[t]).all():
            back = spread[t] / expected[t + 1]
            mean[t] += back * (mean[t + 1] - mean[t])
            spread[t] += back**2 * (spread[t + 1] - expected[t + 1])
    return LocalLevel(*filtered, *_mixture(mean, spread, np.broadcast_to(weights[-1], mean.shape)))


def _mixture(mean: Floats, variance: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations of mixtures, one a row; NaN where nothing is known."""
    centre = (weights * mean).sum(axis=1)
    with np.errstate(invalid="ignore"):
        total = (weights * (variance + (mean - centre[:, None]) ** 2)).sum(axis=1)
    known = np.isfinite(total)
    return np.where(known, centre, np.nan), np.where(known, np.sqrt(total), np.nan)
