"""Whether mean updates are more than the noise of their randomizer."""


import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2

Floats = NDArray[np.float64]

# How likely pure noise is to pass for a signal, in a look; a run has one look a round.
_LEVEL = 1e-5
# The length of a common update that a run may be ended for lacking, and how surely it
# would have been seen. Apps' first mean updates, normalised, had lengths of .25 to 1.
_LENGTH, _MISSED = 0.3, 1e-3
_FEWEST_ROUNDS = 3


class Signal:
    """A running test of mean updates against their known noise, which costs no privacy.

    Without a signal (every node's update is 0, or they cancel) the squared length of
    a mean update, in units of its noise, is chi-squared with d degrees of freedom. Two sums
    are looked at after every round: the squared lengths of all rounds, and the squared
    length of the rounds' weighted sum, which is the sharper one while updates point the same way.

    Parameters
    ----------
    dim : int
        Number of parameters d.

    Attributes
    ----------
    found : bool
        Whether a signal has been seen in any round so far; of pure noise with
        probability 2e-5 a round at most.
    """

    def __init__(self, dim: int) -> None:
        self.found = False
        self._dim = dim
        self._rounds = 0
        self._squares = 0.0  # of the mean updates, in units of their noise
        self._sum: Floats = np.zeros(dim)  # of the mean updates, weighted by their precision
        self._precision = 0.0

    def add(self, update: Floats, deviation: float) -> float:
        """Take a round's mean update.

        Parameters
        ----------
        update : ndarray of shape (d,)
            The mean update, relative to the longest that a node may report.
        deviation : float
            Standard deviation of its noise, in every parameter.

        Returns
        -------
        float
            How likely noise alone would be as long as this round's update.
        """
        squares = float(update @ update) / deviation**2
        self._rounds += 1
        self._squares += squares
        self._sum += update / deviation**2
        self._precision += deviation**-2
        along = float(self._sum @ self._sum) / self._precision
        alone = min(
            chi2.sf(self._squares, self._rounds * self._dim), chi2.sf(along, self._dim)
        )
        self.found = self.found or bool(alone < _LEVEL)
        return float(chi2.sf(squares, self._dim))

    @property
    def missing(self) -> bool:
        """Whether there is no signal although a useful one would have been seen by now.

        That is after three rounds or more, as soon as a common update of length 0.3 would
        be missed with probability 1e-3 only.
        """
        if self.found or self._rounds < _FEWEST_ROUNDS:
            return False
        limit = chi2.isf(_LEVEL, self._dim)
        return bool(ncx2.cdf(limit, self._dim, _LENGTH**2 * self._precision) < _MISSED)
