"""Mean directions of users' own ridge steps, in made-up tables of which second moments are known.

A user of k rows of features z, whose second moment is M, and residuals r reports the direction of
``b = (Z'Z / k + ridge I)^-1 Z'r / k``. Where ``E[z r] = M pull``, b is about (as for many features
and rows; Dobriban & Wager, 2018, The Annals of Statistics 46(1); Thrampoulidis et al., 2018, IEEE
Transactions on Information Theory 64(8))::

    (M + kappa I)^-1 (M pull + tau / sqrt(k) M^(1/2) g),    g normal,
    kappa = ridge + kappa / k tr[(M + kappa I)^-1 M],
    tau^2 = E[r^2] - pull' M pull + |M^(1/2) (pull - E b)|^2 + tau^2 / k tr[((M + kappa I)^-1 M)^2].

Rows of one user are alike, and count for fewer.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]

_ROUNDS = 12  # of the equation of kappa
_MOST_FITTED = 0.95  # of a user's residuals, by its own regression


def rows_worth(rows: float, alike: Floats) -> Floats:
    """Return how many independent rows a user's are worth.

    ``alike``, of each table, is the product of the shares of a user's own in what features and
    residuals vary by: so far two of its rows agree.
    """
    return 1 / (1 / rows + (1 - 1 / rows) * alike)


@dataclass(frozen=True)
class Moments:
    """Second moments of features in several tables: ``diag(spectrum) + mean mean'``.

    Attributes
    ----------
    spectrum, mean : ndarray, shape (tables, features)
        Variances along the principal axes, and the mean row in these; the first feature is the
        intercept, of variance 0 and mean 1.
    """

    spectrum: Floats
    mean: Floats

    def square(self, vector: Floats) -> Floats:
        """Return the mean square of the features' product with each table's vector."""
        along = np.einsum("ij,ij->i", self.mean, vector)
        return np.asarray(np.einsum("ij,ij,ij->i", self.spectrum, vector, vector) + along**2)


@dataclass(frozen=True)
class Directions:
    """What users report.

    Attributes
    ----------
    moments : Moments
        Of the features.
    kappa : ndarray, shape (tables, 1)
        The penalty that a user's ridge and its few rows amount to.
    rows : ndarray, shape (tables, 1)
        How many independent rows a user has.
    """

    moments: Moments
    kappa: Floats
    rows: Floats

    @classmethod
    def of(cls, moments: Moments, ridge: float, rows: Floats) -> Self:
        """Return those of users with a ridge penalty, in units of a feature's mean square."""
        size = moments.spectrum.shape[1]
        square = moments.spectrum.sum(axis=1) + (moments.mean**2).sum(axis=1)
        kappa = ridge + square[:, None] / rows
        for _ in range(_ROUNDS):
            own = cls(moments, kappa, rows)
            kappa = ridge + kappa / rows * (size - kappa * own._traces[0])
        return cls(moments, kappa, rows)

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats, Floats]:
        """Of ``M + kappa I``: of its diagonal part, that times the mean row, and a factor."""
        inverse = 1 / (self.moments.spectrum + self.kappa)
        along = inverse * self.moments.mean
        factor = 1 / (1 + (along * self.moments.mean).sum(axis=1, keepdims=True))
        return inverse, along, factor

    @cached_property
    def _traces(self) -> tuple[Floats, Floats]:
        """Traces of the inverse and of its square."""
        inverse, along, factor = self._inverse
        square = (along**2).sum(axis=1, keepdims=True)
        first = inverse.sum(axis=1, keepdims=True) - factor * square
        second = (inverse**2).sum(axis=1, keepdims=True) + (factor * square) ** 2
        second -= 2 * factor * (inverse * along**2).sum(axis=1, keepdims=True)
        return first, second

    def _solved(self, vector: Floats) -> Floats:
        inverse, along, factor = self._inverse
        product = np.einsum("ij,ij->i", along, vector)[:, None]
        return np.asarray(inverse * vector - along * (factor * product))

    def step(self, pull: Floats, square: Floats) -> tuple[Floats, Floats]:
        """Return the mean of ``b`` over its root mean square length, and that length.

        ``square`` is the residuals' mean square, shape (tables,).
        """
        first, second = (trace[:, 0] for trace in self._traces)
        kappa, rows, size = self.kappa[:, 0], self.rows[:, 0], pull.shape[1]
        solved = self._solved(pull)
        mean = pull - self.kappa * solved
        missed = kappa**2 * self.moments.square(solved)
        fitted = (size - 2 * kappa * first + kappa**2 * second) / rows
        rest = np.maximum(square - self.moments.square(pull), 0.0) + missed
        tau = rest / np.maximum(1 - fitted, 1 - _MOST_FITTED)
        lengths = np.einsum("ij,ij->i", mean, mean) + tau / rows * (first - kappa * second)
        length = np.sqrt(np.maximum(lengths, np.finfo(float).tiny))
        return np.asarray(mean / length[:, None]), length

    def spread(self, rng: np.random.Generator) -> Floats:
        """Return how one user's direction differs from the mean of all: of about length 1."""
        first, second = self._traces
        moments, size = self.moments, self.moments.spectrum.shape
        drawn = np.sqrt(moments.spectrum) * rng.standard_normal(size)
        drawn += moments.mean * rng.standard_normal((size[0], 1))
        return self._solved(drawn) / np.sqrt(np.maximum(first - self.kappa * second, 1e-300))


def unit_share(rows: Floats) -> Floats:
    """Return E|x| / sqrt(E x^2) for the length of so many residuals.

    Whoever reports a direction says as much however small its residuals are, and so what is
    common to all is less than in the mean of the steps themselves.
    """
    return np.asarray(np.sqrt(2 / rows) * np.exp(gammaln((rows + 1) / 2) - gammaln(rows / 2)))
