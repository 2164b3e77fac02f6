"""Shares of cells in a sample of users."""

import numpy as np

from ldp_flower.validation import Floats


def sampling(shares: Floats, users: int) -> Floats:
    """Return the sampling covariance of the shares in a sample of ``users`` users.

    ``shares`` are the shares in the population.
    """
    return np.asarray((np.diag(shares) - np.outer(shares, shares)) / users)


def clipped(shares: Floats) -> Floats:
    """Return the shares, clipped at 0 and scaled to a sum of at most 1."""
    positive = np.maximum(shares, 0.0)
    return np.asarray(positive / max(1.0, positive.sum()))
