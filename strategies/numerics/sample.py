"""Shares of cells in a sample of users, and quantiles of weighted values."""

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.validation import Floats


def sampling(shares: Floats, users: int) -> Floats:
    """Return the covariance of shares that is due to the choice of ``users`` users, without noise.

    ``shares`` are the shares in the population of which the users are a sample.
    """
    return np.asarray((np.diag(shares) - np.outer(shares, shares)) / users)


def clipped(shares: Floats) -> Floats:
    """Return noisy estimates of shares, clipped at 0 and scaled to a sum of at most 1."""
    positive = np.maximum(shares, 0.0)
    return np.asarray(positive / max(1.0, positive.sum()))


def weighted_quantiles(values: Floats, weights: Floats, levels: ArrayLike) -> Floats:
    """Return the quantiles of ``values`` at ``levels``, if ``weights`` are their probabilities."""
    order, wanted = np.argsort(values), np.asarray(levels, np.float64)
    return np.asarray(np.interp(wanted, np.cumsum(weights[order]), values[order]))
