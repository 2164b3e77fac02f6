"""The local-level model: the present and past levels of a drifting quantity, from noisy estimates.

An estimate is the level plus noise of known variance. The level follows a random walk. It may also
make one sudden step, or have a momentum that fades, and single days may deviate. The sizes of these
effects are not known. Each hypothesis about them has a Kalman filter, and all filters run at once.
The hypotheses are weighted by their likelihood (Bayesian model averaging).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp_flower.validation import Floats

# Candidate variances of the drift per collection, over that of an estimate. Below the smallest, the
# level's error is the same with and without drift for some 50 collections. Above the largest there
# is no smoothing.
_DRIFTS = 10.0 ** np.arange(-2.0, 1.1, 0.5)
_STEPS = np.array([2.0, 4.0, 8.0])  # standard deviations of a step, in raw standard errors
_STEP_RATE = 0.02  # prior probability of a step before a collection: once in a year of weeks
# Candidate variances of the change of a level's momentum, over that of an estimate. Without
# momentum, past levels of an epidemic's waves had errors 1.3 times as large.
_MOMENTA = 10.0 ** np.arange(-2.0, 0.6, 0.5)
# Candidate variances of the deviation of a single day, over that of an estimate.
_DAYS = 10.0 ** np.arange(-1.0, 1.6, 0.5)
_LASTING = 0.8  # factor on a momentum per collection: a rise lasts for some five collections
# Number of estimates that check a level's standard error: the last ones for today's level, and as
# many on each side for past levels. It was tuned on 8 seeds (500 to 507) of the study's six
# populations. Today's bands of an epidemic's share miss 5 to 6 %, and 8 to 11 % without the check.
# Bands of past levels miss 8.8 % without the check, if days deviate as much as estimates.
_CHECKED = 4
# Largest number of collections before which a step is tried. With more collections, steps are tried
# before every second, third, ... only.
_MAX_PLACES = 100
# Smallest variance of an estimate, over the median one: variances of 0 are due to rounding.
_FLOOR = 1e-6


@dataclass(frozen=True)
class LocalLevel:
    """Levels at each collection. All arrays have the shape (collections,).

    ``filtered`` uses the estimates up to each collection, and ``level`` uses all estimates.
    ``innovation`` is the difference between each estimate and its prediction from the earlier ones,
    in standard deviations of that prediction. It is NaN for the first estimate and for missing
    ones.
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
        Estimates and standard errors in order. An estimate is missing if it, or its standard error,
        is not finite. Levels before the first estimate are not finite.

    Notes
    -----
    Source: Durbin & Koopman (2012), sections 2.2, 2.4 and 4.4. A level's variance is that of the
    mixture of all hypotheses: it covers the variance within each and the differences between them.

    No hypothesis may be right, for example when an epidemic's wave begins. Then the last estimates
    are further from their predictions than expected, or all on one side of them. Filtered standard
    errors are multiplied by this excess. For standard errors of past levels, the excess is that of
    the estimates on both sides.
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
    """Return the factor by which the last innovations are larger than expected, at least 1.

    It is the larger one of their root mean square and of their mean in units of its standard error.
    """
    found = np.ones(len(innovation))
    for t in range(len(innovation)):
        seen = innovation[: t + 1]
        if len(last := seen[np.isfinite(seen)][-_CHECKED:]):
            aside = abs(float(last.sum())) / len(last) ** 0.5
            found[t] = max(1.0, float(np.sqrt(np.mean(last**2))), aside)
    return found


def _excess_around(innovation: Floats) -> Floats:
    """Return how much too large the innovations near each collection are: at least 1.

    It is their root mean square, in units of the expected one.
    """
    near = np.ones(2 * _CHECKED + 1)
    seen = np.isfinite(innovation)
    squares = np.convolve(np.where(seen, innovation, 0.0) ** 2, near)[_CHECKED:-_CHECKED]
    number = np.convolve(seen, near)[_CHECKED:-_CHECKED]
    return np.asarray(np.sqrt(np.maximum(squares / np.maximum(number, 1), 1.0)))


def _hypotheses(collections: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the hypotheses about the level's changes, and the logarithms of their priors.

    The four arrays are the variance of the level's drift, shape (collections, hypotheses); and the
    variance of the change of its momentum, the variance of a day's deviation and the log prior, of
    shape (hypotheses,). There are three kinds of hypotheses: a rate of drift, without a step or
    with a step of some size before some collection; momentum; and a rate of drift or momentum, with
    days that deviate.
    """
    usual = [(drift, 0.0) for drift in _DRIFTS]
    rising = [(_DRIFTS[0], change) for change in _MOMENTA]
    still, stepped = np.zeros(collections), math.log(_STEP_RATE / len(_STEPS))
    steps = [(still, 0.0)]
    for size in _STEPS:
        for place in range(1, collections, max(1, -(-collections // _MAX_PLACES))):
            steps.append((np.where(np.arange(collections) == place, size**2, 0.0), stepped))
    found: list[tuple[Any, ...]] = [
        *((step + drift, change, 0.0, prior) for step, prior in steps for drift, change in usual),
        *((still + drift, change, 0.0, 0.0) for drift, change in rising),
        *((still + drift, change, day, 0.0) for day in _DAYS for drift, change in usual + rising),
    ]
    drifts, *others = zip(*found, strict=True)
    change, day, prior = map(np.array, others)
    return np.stack(drifts, axis=1), change, day, prior


def _averaged(
    estimates: Floats, noise: Floats, drift: Floats, change: Floats, day: Floats, prior: Floats
) -> LocalLevel:
    """Return the filtered and the smoothed levels, averaged over all hypotheses.

    The state is a level and its momentum. ``a`` and ``c`` are their variances, and ``b`` is their
    covariance. The initial level is unknown, and the initial momentum has its stationary variance.
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
        precision = 1 / (a + apart)  # 0 for the first estimate and for missing ones
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
    """Return means and variances of each day's value, from the mean and variance of the level.

    A part of the difference between a day's estimate and the level is the day's deviation.
    """
    noise, known = noise[:, None], np.isfinite(noise)[:, None]
    own = day / (noise + day)  # 0 for a missing estimate
    left = np.where(known, own * np.where(known, noise, 0.0), day)
    return mean + own * (estimates[:, None] - mean), (1 - own) ** 2 * variance + left


def _smoothed(level: Floats, kept: Floats) -> tuple[Floats, Floats]:
    """Return means and variances of levels given all estimates, by de Jong's recursions.

    ``x`` and ``y`` are the information of later estimates about the predicted level and its
    momentum. ``p``, ``q`` and ``r`` are the entries of the matrix that describes by how much this
    information reduces their variances.
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
    """Return the means and standard deviations of mixtures along the last axis; NaN if unknown."""
    centre = (weights * mean).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        total = (weights * (variance + (mean - centre[..., None]) ** 2)).sum(axis=-1)
    known = np.isfinite(total)
    return np.where(known, centre, np.nan), np.where(known, np.sqrt(total), np.nan)
