"""What made-up users answer, whatever they are asked for."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import DistanceBin, TargetScaleBin
from ldp_flower.randomizers import Estimate, KRandomizedResponse, SubsetSelection
from ldp_flower.randomizers.domains import OfVector

from ..numerics.spike_and_slab import passing, passing_threshold
from ..runtime.exchange import Ask

Floats = NDArray[np.float64]

_QUANTILES = 64  # of lengths, whose mean is taken


def answered(ask: Ask, mean: Floats, spread: Floats | float, rng: np.random.Generator) -> Estimate:
    """Return an estimate with the noise of the mechanism and of the users.

    Parameters
    ----------
    ask : Ask
        Of whom, and through which mechanism.
    mean : ndarray of float64, shape (values,)
        Of the users' values, as they are after they were shortened.
    spread : ndarray of float64, shape (values,), or float
        Variance of users' values.
    rng : numpy.random.Generator
        Of the noise.
    """
    errors = np.sqrt((ask.randomizer.variance + spread) / ask.cohort.size) * np.ones(len(mean))
    return Estimate(mean + errors * rng.standard_normal(len(mean)), errors, ask.cohort.size)


def of_bins(
    ask: Ask, log_size: float, degrees: float, rng: np.random.Generator | None = None
) -> Estimate:
    """Return the shares of the bins of users' sizes.

    Parameters
    ----------
    ask : Ask
        For the bin of a size: a length, or the root mean square of targets.
    log_size : float
        Logarithm of the root mean square of users' sizes.
    degrees : float
        Degrees of freedom of the chi-square that squares of sizes are in proportion to.
    rng : numpy.random.Generator, optional
        Of users' noise and the mechanism's; by default shares are exact.
    """
    from scipy.special import gammainc

    question = ask.question
    assert isinstance(question, DistanceBin | TargetScaleBin)
    step = math.log(2) / question.per_octave
    inner = math.log(question.smallest) + step * np.arange(1, question.num_bins)
    below = gammainc(degrees / 2, degrees / 2 * np.exp(2 * (inner - log_size)))
    shares = np.diff(below, prepend=0.0, append=1.0)
    if rng is not None:
        oracle, count = ask.randomizer, ask.cohort.size
        assert isinstance(oracle, KRandomizedResponse | SubsetSelection)
        own, other = float(oracle.own), float(oracle.other)
        chances = other + (own - other) * shares
        if isinstance(oracle, SubsetSelection):
            named = rng.binomial(count, chances) / count
        else:
            named = rng.multinomial(count, chances / chances.sum()) / count
        shares = (named - other) / (own - other)
    return Estimate(shares, np.zeros_like(shares), ask.cohort.size)


def of_sets(ask: Ask, scores: Floats, rng: np.random.Generator, least: float = 0.0) -> Estimate:
    """Return how often sets of the features with the largest scores were named.

    Parameters
    ----------
    ask : Ask
        For the sets.
    scores : ndarray of float64, shape (num_features,)
        By how many standard deviations each feature stands out for one user.
    rng : numpy.random.Generator
        Of users' noise and the mechanism's.
    least : float (default: 0.0)
        The smallest score of a feature that is named; chance fills sets up.
    """
    oracle, count = ask.randomizer, ask.cohort.size
    assert isinstance(oracle, SubsetSelection)
    out = scores != 0
    threshold = passing_threshold(
        oracle.set_size, len(scores), float(np.mean(out)), float(np.mean(scores[out]))
    )
    held = passing(max(threshold, least), scores)
    held = held + max(oracle.set_size - float(held.sum()), 0.0) / len(scores)
    own, other = float(oracle.own), float(oracle.other)
    named = rng.binomial(count, np.clip(other + (own - other) * held, 0, 1)) / count
    return Estimate((named - other) / (own - other), np.zeros(len(scores)), count)


def radius_of(ask: Ask) -> float:
    """Return the length to which clients shorten vectors."""
    assert isinstance(ask.randomizer, OfVector)
    return ask.randomizer.radius


def shortening(square: float, varying: float, degrees: float, radius: float) -> float:
    """Return what is left of the mean of normal vectors that are shortened to a radius.

    Parameters
    ----------
    square : float
        Squared length of the mean.
    varying : float
        Mean squared length of the rest.
    degrees : float
        Degrees of freedom of the latter's square.
    radius : float
        The longest that is left as it is.

    Notes
    -----
    For v of mean m and coordinates of variance s, and c(v) = min(1, radius / |v|), the mean of
    c v is m E c + s E grad c (Stein's lemma), which is m E[c (1 - s / |v|^2 if c < 1)].
    """
    width = 2 / (9 * degrees)  # Wilson & Hilferty (1931)
    shares = np.maximum(1 - width + math.sqrt(width) * normal_quantiles(), 0.0) ** 3
    squares = square + varying * shares + 1e-300
    factors = np.minimum(1.0, radius / np.sqrt(squares))
    bent = np.where(factors < 1, varying / degrees / squares, 0.0)
    return float(np.mean(factors * (1 - bent)))


@lru_cache
def normal_quantiles() -> Floats:
    """Return 64 quantiles of the standard normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES))
