"""The non-interactive proxy estimator that Ma, Jia & Yang (2024) call LDPPROX.

Source: Zhu et al. (2023), written down from memory of the paper: half of the users
release their clipped second moments of the features, the other half the clipped products
of features and target; the server solves and soft-thresholds. The radius
``sqrt(d log n)``, the bounds ``sqrt(log n)``, ``delta = n ** -1.1`` and the order
``sqrt(d log(d) / (n epsilon ** 2))`` of the threshold are the paper's as remembered. From
here are: means over a user's records in the place of one record (a mean moves no further
than its worst record, so this protects the user), the exact calibration of the noise,
the threshold's factor, and how the second moment is made positive definite.

Guarantee
---------
1. Protected: a user's whole set of records, against any other set, at
   (``epsilon``, ``delta``) in real arithmetic.
2. A user answers once: its second moment, whose Frobenius norm moves by at most
   ``sqrt(2) radius ** 2``, or its cross moment, whose Euclidean norm moves by at most
   ``2 sqrt(d) bound ** 2``, plus Gaussian noise of the sensitivity over
   ``gaussian_mu(epsilon, delta)``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.accounting import gaussian_mu

Floats = NDArray[np.float64]

_THRESHOLD = 1.0  # factor of the printed order
_LEAST_EIGENVALUE = 0.1  # of the second moment


@dataclass(frozen=True)
class LdpProx:
    """The estimator, for features of unit scale.

    Parameters
    ----------
    dim : int
        Number of features.
    num_users : int
        Number of users; even numbers answer for features, odd ones for products.
    epsilon : float
        Privacy parameter.
    """

    dim: int
    num_users: int
    epsilon: float

    @property
    def delta(self) -> float:
        """The second privacy parameter."""
        return float(self.num_users**-1.1)

    @property
    def radius(self) -> float:
        """Largest norm of a record's features that are squared."""
        return math.sqrt(self.dim * math.log(self.num_users))

    @property
    def bound(self) -> float:
        """Largest absolute feature and target of a product."""
        return math.sqrt(math.log(self.num_users))

    @property
    def second_moment_sensitivity(self) -> float:
        """Largest Frobenius norm by which a user moves its second moment."""
        return math.sqrt(2) * self.radius**2

    @property
    def cross_moment_sensitivity(self) -> float:
        """Largest Euclidean norm by which a user moves its cross moment."""
        return 2 * math.sqrt(self.dim) * self.bound**2

    def second_moment(self, x: Floats) -> Floats:
        """Return a user's clipped second moment of the features, from its rows."""
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        x = x * np.minimum(1, self.radius / np.maximum(norm, 1e-300))
        return x.T @ x / len(x)

    def cross_moment(self, x: Floats, y: Floats) -> Floats:
        """Return a user's clipped mean product of features and target, from its rows."""
        x, y = np.clip(x, -self.bound, self.bound), np.clip(y, -self.bound, self.bound)
        return x.T @ y / len(x)

    def estimate(self, users: Iterable[tuple[Floats, Floats]], rng: np.random.Generator) -> Floats:
        """Return the coefficients.

        Parameters
        ----------
        users : iterable of (x, y)
            The rows of every user. A sum of the users' noises is drawn as one normal of
            the same law.
        rng : Generator
            Draws the noise.
        """
        counts = np.zeros(2, np.int64)
        second, cross = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
        for number, (x, y) in enumerate(users):
            counts[number % 2] += 1
            if number % 2:
                cross += self.cross_moment(x, y)
            else:
                second += self.second_moment(x)
        mu = gaussian_mu(self.epsilon, self.delta)
        deviation = self.second_moment_sensitivity / mu / math.sqrt(counts[0])
        # Entries above the diagonal count twice in the Frobenius norm: half the variance.
        noise = np.triu(rng.standard_normal(second.shape), 1) / math.sqrt(2)
        noise += noise.T + np.diag(rng.standard_normal(self.dim))
        second = second / counts[0] + deviation * noise
        noise = rng.standard_normal(self.dim)
        deviation_of_products = self.cross_moment_sensitivity / mu / math.sqrt(counts[1])
        cross = cross / counts[1] + deviation_of_products * noise
        values, vectors = np.linalg.eigh(second)
        # What lies within the noise's spectrum may as well be negative.
        values = np.maximum(values, max(_LEAST_EIGENVALUE, deviation * math.sqrt(2 * self.dim)))
        solved = vectors @ ((vectors.T @ cross) / values)
        order = math.sqrt(self.dim * math.log(self.dim) / (self.num_users * self.epsilon**2))
        return np.sign(solved) * np.maximum(np.abs(solved) - _THRESHOLD * order, 0)
