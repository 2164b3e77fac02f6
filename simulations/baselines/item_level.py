"""Sparse regression from records that are randomised one by one, whoever they are of.

What users with many records had before user-level protocols. Each record reports the product of
its clipped target and its clipped features; the server averages the reports of all records, undoes
clipping as for normal numbers, and keeps the largest coefficients that noise does not explain.
Features have the variance 1 and are not correlated.

Guarantee
---------
1. Each record is randomised once, at pure ``epsilon``: protected is a record against any other.
2. A user's m records are m independent reports, so that the user as a whole is protected at
   ``m epsilon`` and no better. At a user's ``epsilon / m`` for each record, the user is protected
   at ``epsilon``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import SubsetHypercube, Summary

Floats = NDArray[np.float64]

_FALSE = 0.01  # chance that any coefficient is taken for one where there is none
_KEPT = 2 * float(ndtr(1)) - 1  # of a covariance, if one of two normals is clipped at its deviation


@dataclass(frozen=True, kw_only=True)
class ItemLevel:
    """The estimator.

    Parameters
    ----------
    dim : int
        Number of features.
    sparsity : int
        Number of coefficients at most.
    epsilon : float
        Privacy parameter of each record.
    target_scale : float
        Root mean square of the targets.
    """

    dim: int
    sparsity: int
    epsilon: float
    target_scale: float

    @property
    def randomizer(self) -> SubsetHypercube:
        """The mechanism that a record answers with."""
        return SubsetHypercube(self.epsilon, self.dim, self.target_scale)

    def products(self, x: Floats, y: Floats) -> Floats:
        """Return what records report about: features clipped at 1, times clipped targets."""
        clipped = np.clip(y, -self.target_scale, self.target_scale)
        return np.asarray(np.clip(x, -1, 1) * clipped[:, None])

    def estimate(
        self, records: Iterable[tuple[Floats, Floats]], rng: np.random.Generator
    ) -> Floats:
        """Return the coefficients.

        Parameters
        ----------
        records : iterable of (x, y)
            The records, some at a time.
        rng : Generator
            Draws the reports.
        """
        randomizer, found = self.randomizer, Summary.empty(self.dim)
        for x, y in records:
            # Public coins, which decide which coordinates a record reports on.
            coins = rng.integers(0, 2**64, len(y), np.uint64)
            found += randomizer.summarize(
                randomizer.randomize(self.products(x, y), rng, coins), coins
            )
        products = randomizer.estimate(found)
        clear = np.abs(products.mean) > -ndtri(_FALSE / 2 / self.dim) * products.std_error
        coef = np.where(clear, products.mean, 0.0) / _KEPT**2
        return keep_largest(coef, self.sparsity)
