"""Sparse linear regression in two stages, of one silo whose curator is trusted.

Source: Kifer, Smith & Thakurta, "Private Convex Empirical Risk Minimization and
High-dimensional Regression" (COLT 2012), written down from memory of the paper: blocks of
records vote for features, and objective perturbation fits those that won. From here are: how
records are shortened, normal noise on the votes (less than pure noise adds), and both
calibrations, for a record that is replaced by another one.

Guarantee
---------
1. Protected: each single record against any other one, at (``epsilon``, ``delta``) in real
   arithmetic, each stage having half of both.
2. Votes: a record is in one block, which votes for at most ``sparsity`` features before and after:
   the counts move by at most ``sqrt(2 sparsity)``, for which the Gaussian mechanism is calibrated
   exactly. Features with the largest noisy counts are fitted.
3. Fit: ``sum (y - <x, theta>)^2 / 2 + ridge |theta|^2 / 2 + <b, theta>`` in the ball of ``radius``,
   rows and targets being shortened to their bounds. A record's gradient is no longer than
   ``slope = row_bound (row_bound radius + target_bound)`` and its curvature no larger than
   ``row_bound^2``, so that with ``ridge = 4 row_bound^2 / epsilon`` the determinants of two
   Hessians differ by a factor of at most ``exp(epsilon / 4)``. ``b`` is normal. The two records'
   gradients have fixed directions, along which ``b`` is within t standard deviations but with
   probability ``delta / 2``; then the logarithm of the densities' ratio is at most
   ``2 slope t / sigma + 2 (slope / sigma)^2``, which is ``epsilon / 4``.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from ldp_flower.accounting import gaussian_mu
from ldp_flower.questions.sparse import iht

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TwoStage:
    """The estimator.

    Parameters
    ----------
    sparsity : int
        Number of features that are fitted.
    epsilon, delta : float
        Privacy parameters.
    row_bound : float
        Length to which the chosen features of a record are shortened.
    target_bound : float
        Bound on targets.
    radius : float
        Bound on the length of the coefficients.
    """

    sparsity: int
    epsilon: float
    delta: float
    row_bound: float
    target_bound: float
    radius: float

    @property
    def vote_noise(self) -> float:
        """Standard deviation of the noise of a count."""
        return math.sqrt(2 * self.sparsity) / gaussian_mu(self.epsilon / 2, self.delta / 2)

    @property
    def slope(self) -> float:
        """Length of the longest gradient of a record."""
        return self.row_bound * (self.row_bound * self.radius + self.target_bound)

    @property
    def ridge(self) -> float:
        """Penalty of the fit."""
        return 4 * self.row_bound**2 / self.epsilon

    @property
    def sigma(self) -> float:
        """Standard deviation of each coordinate of the objective's linear term."""
        t = -float(ndtri(self.delta / 8))
        # The positive root of 2 z^2 + 2 t z = epsilon / 4, z being slope / sigma.
        return self.slope * 2 / (math.sqrt(t**2 + self.epsilon / 2) - t)

    def estimate(self, x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
        """Return the coefficients from records and their targets."""
        chosen = self.chosen(votes(x, y, self.sparsity), rng)
        coef = np.zeros(x.shape[1])
        noise = self.sigma * rng.standard_normal(self.sparsity)
        coef[chosen] = self.fitted(x[:, chosen], y, noise)
        return coef

    def chosen(self, counts: Integers, rng: np.random.Generator) -> Integers:
        """Return the features with most votes, as far as noise shows them."""
        noisy = counts + self.vote_noise * rng.standard_normal(len(counts))
        return np.sort(np.argsort(-noisy)[: self.sparsity])

    def fitted(self, x: Floats, y: Floats, noise: Floats) -> Floats:
        """Return the minimiser of the objective with this linear term."""
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x = x * np.minimum(1, self.row_bound / np.maximum(length, 1e-300))
        y = np.clip(y, -self.target_bound, self.target_bound)
        values, vectors = np.linalg.eigh(x.T @ x + self.ridge * np.eye(x.shape[1]))
        moment = vectors.T @ (x.T @ y - noise)

        def beyond(multiplier: float) -> float:
            return float(np.linalg.norm(moment / (values + multiplier))) - self.radius

        if beyond(0.0) <= 0:
            return np.asarray(vectors @ (moment / values))
        most = float(np.linalg.norm(moment)) / self.radius
        return np.asarray(vectors @ (moment / (values + brentq(beyond, 0.0, most))))


def votes(x: Floats, y: Floats, sparsity: int) -> Integers:
    """Return how many of about ``sqrt(rows)`` blocks find each feature, by hard thresholding."""
    counts = np.zeros(x.shape[1], np.int64)
    for block in np.array_split(np.arange(len(x)), round(math.sqrt(len(x)))):
        counts += iht(x[block], y[block], sparsity, max_steps=50) != 0
    return counts
