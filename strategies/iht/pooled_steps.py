"""Estimates of many gradient steps as one, weighted by how far each is believed to be off."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.validation import Floats

Integers = NDArray[np.intp]

# Of .6, .8 and 1, and of .01 to 1, best or nearly so in 19 settings with one record each.
_MEMORY = 0.8  # what earlier steps weigh, after each: their errors are larger than is believed
_LEFT = 0.01  # of the squared error, is what a step with clipped scores leaves of it


class PooledSteps:
    """What steps that began from better and better estimates say of the coefficients.

    mean, shape (dim,): The pooled estimate of the coordinates that the last step asked about; the
        others are 0.
    """

    def __init__(self, dim: int) -> None:
        self._weights, self._weighted, self._noise = np.zeros((3, dim))
        self.mean = np.zeros(dim)

    def add(self, asked: Integers, estimate: Floats, variance: float, error: float) -> None:
        """Add a step's estimate of some coordinates.

        variance: Of each, by noise.
        error: How far each was believed to be off where the step began.
        """
        weight = 1 / (variance + _LEFT * error**2)
        self._weights[asked] = _MEMORY * self._weights[asked] + weight
        self._weighted[asked] = _MEMORY * self._weighted[asked] + weight * estimate
        self._noise[asked] = _MEMORY**2 * self._noise[asked] + weight**2 * variance
        self.mean = np.zeros(len(self.mean))
        self.mean[asked] = self._weighted[asked] / self._weights[asked]

    @property
    def std_error(self) -> Floats:
        """Standard deviation of the pooled estimates, of noise alone."""
        return np.asarray(np.sqrt(self._noise) / self._weights)
