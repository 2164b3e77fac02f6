"""Mean directions of users' own ridge steps, in made-up tables of which second moments are known.

A user of k rows of features z, of mean m and covariance S, and residuals r reports the direction
of ``b = (Z'Z / k + ridge I)^-1 Z'r / k``. A share of what features and residuals vary by is the
user's own: its rows are alike, and vary by W, the rest of S. Its mean row is m + u, where u has
the covariance ``v S``, ``v = own + (1 - own) / k``. About that, rows are k - 1 of covariance W, of
which ridge regression leaves A, as for many features and rows (Dobriban & Wager, 2018, The Annals
of Statistics 46(1); Thrampoulidis et al., 2018, IEEE Transactions on Information Theory 64(8)), and
of all, with the mean row as one more direction (by the formula of Sherman and Morrison)::

    A = kappa (W + kappa I)^-1,    kappa = (k ridge + kappa tr[W (W + kappa I)^-1]) / (k - 1),
    left = A - A (m + u)(m + u)'A / (ridge + m'A m + v tr[A S]).

Where ``E[z r] = (S + m m') pull``, b is ``pull - left pull`` and noise: of the mean residual, along
``A (m + u)``, and of the others, which k - 1 rows tell. Who reports a direction says as much
however small b is; b varies above all as the mean residual does, which is taken for normal.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS = 30  # of the equation of kappa
_FEWEST = 1e-6  # rows beside the first: then nothing is told but along the mean row
_MOST_FITTED = 0.95  # of a user's residuals, by its own regression
_NODES = 16  # of the mean over mean residuals


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
    ridge : float
        Penalty, in units of a feature's mean square.
    rows : float
        How many a user has.
    own : ndarray, shape (tables, 1)
        Which share of what features and residuals vary by is a user's own.
    """

    moments: Moments
    ridge: float
    rows: float
    own: Floats

    @property
    def _others(self) -> float:
        return max(self.rows - 1, _FEWEST)

    @property
    def _within(self) -> Floats:
        return np.asarray((1 - self.own) * self.moments.spectrum)

    @cached_property
    def _mean_row(self) -> Floats:
        """Variance of a user's mean row and residual, over that of one."""
        return np.asarray(self.own + (1 - self.own) / self.rows)

    @cached_property
    def _kappa(self) -> Floats:
        """The penalty that the ridge and few rows amount to, shape (tables, 1)."""
        within = self._within
        kappa = (self.rows * self.ridge + within.sum(axis=1, keepdims=True)) / self._others
        for _ in range(_ROUNDS):
            fitted = (within / (within + kappa)).sum(axis=1, keepdims=True)
            kappa = (self.rows * self.ridge + kappa * fitted) / self._others
        return np.asarray(kappa)

    @cached_property
    def _missed(self) -> Floats:
        """The diagonal A: what rows about their mean do not tell."""
        return np.asarray(self._kappa / (self._within + self._kappa))

    @cached_property
    def _along(self) -> tuple[Floats, Floats]:
        """Mean of ``z'A z`` for the mean row z with the ridge, and the square of ``A z``."""
        missed, own = self._missed, self._mean_row
        square = self.moments.mean**2 + own * self.moments.spectrum
        first = self.ridge + (missed * square).sum(axis=1, keepdims=True)
        return first, (missed**2 * square).sum(axis=1, keepdims=True)

    def step(self, pull: Floats, square: Floats, *, weighted: bool = False) -> Floats:
        """Return the mean direction.

        Parameters
        ----------
        pull : ndarray, shape (tables, features)
            What coefficients lack.
        square : ndarray, shape (tables,)
            The residuals' mean square.
        weighted : bool (default: False)
            Whether directions are weighted by how large residuals are: then it is in units of
            their root mean square.
        """
        spectrum, mean = self.moments.spectrum, self.moments.mean
        missed = self._missed * pull
        far, length = self._along
        by_mean = mean * np.einsum("ij,ij->i", mean, missed)[:, None]
        by_mean = self._missed * (by_mean + self._mean_row * spectrum * missed) / far
        rest = np.maximum(square - self.moments.square(pull), 0.0)[:, None]
        residual = np.einsum("ij,ij->i", mean, missed)[:, None] ** 2
        residual += self._mean_row * ((spectrum * missed**2).sum(axis=1, keepdims=True) + rest)
        of_mean = length / far**2 * residual
        by_rows = pull - missed
        always = (by_rows * (by_rows + 2 * by_mean)).sum(axis=1, keepdims=True)
        always = np.maximum(always + self._noise(missed, rest), np.finfo(float).tiny)
        if weighted:
            return np.asarray((by_rows + by_mean) / np.sqrt(always + of_mean))
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        over_length = weights / weights.sum() / np.sqrt(always + of_mean * nodes**2)
        for_rows, for_mean = over_length.sum(axis=1), over_length @ nodes**2
        return np.asarray(by_rows * for_rows[:, None] + by_mean * for_mean[:, None])

    def _noise(self, missed: Floats, rest: Floats) -> Floats:
        """Return the squared length of what residuals about their mean add to b."""
        within, told = self._within, self._within / (self._within + self._kappa)
        fitted = (told**2).sum(axis=1, keepdims=True) / self._others
        spread = (1 - self.own) * rest + (within * missed**2).sum(axis=1, keepdims=True)
        each = (told / (within + self._kappa)).sum(axis=1, keepdims=True) / self._others
        return np.asarray(spread / np.maximum(1 - fitted, 1 - _MOST_FITTED) * each)

    def spread(self, rng: np.random.Generator) -> Floats:
        """Return how one user's direction differs from the mean of all: of length 1."""
        moments, size = self.moments, self.moments.spectrum.shape
        drawn = np.sqrt(moments.spectrum) * rng.standard_normal(size)
        drawn += moments.mean * rng.standard_normal((size[0], 1))
        drawn *= self._missed
        along = np.einsum("ij,ij->i", moments.mean, drawn)[:, None]
        drawn -= self._missed * moments.mean * along / self._along[0]
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
