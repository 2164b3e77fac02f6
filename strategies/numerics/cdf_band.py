"""Bands of a distribution function from unbiased linear estimates: they hold whatever its shape."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .density import Counted

Floats = NDArray[np.float64]

_ONE_MORE = 2.0  # reports of the largest weight, added to a variance: counts may be small


@dataclass(frozen=True)
class LinearEstimates:
    """Unbiased estimates of averages of a distribution function.

    Attributes
    ----------
    first, last : ndarray of int64, shape (estimates,)
        The edges between which each is an average: it is neither below the function at the
        first nor above it at the last.
    values : ndarray, shape (estimates, 3)
        Of all users: the share that is estimated, its variance, and its covariance with the share
        of users with an entry.
    held : ndarray, shape (2,)
        The share of users with an entry, and its variance.
    deviations : ndarray, shape (draws,)
        Of the largest deviation of all at once, in standard errors: draws, in order.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    values: Floats
    held: Floats
    deviations: Floats

    def band(self, level: float, edges: int) -> tuple[Floats, Floats]:
        """Return lower and upper ends at all edges, which hold together with this probability."""
        z = float(np.quantile(self.deviations, level))
        below, above = self._intervals(z)
        lower, upper = np.zeros(edges), np.ones(edges)
        np.maximum.at(lower, self.last, below)
        np.minimum.at(upper, self.first, above)
        lower[-1], upper[0] = 1.0, 0.0
        return np.maximum.accumulate(lower), np.minimum.accumulate(upper[::-1])[::-1]

    def _intervals(self, z: float) -> tuple[Floats, Floats]:
        """Return intervals of the ratios to the share of users with an entry (Fieller, 1954)."""
        share, variance, covariance = self.values.T
        held, held_variance = self.held
        square = held**2 - z**2 * held_variance
        if not square > 0:  # nobody may have an entry
            return np.zeros(len(share)), np.ones(len(share))
        middle = share * held - z**2 * covariance
        rest = share**2 - z**2 * variance
        reach = np.sqrt(np.maximum(middle**2 - square * rest, 0))
        return np.clip((middle - reach) / square, 0, 1), np.clip((middle + reach) / square, 0, 1)


def linear_estimates(counted: Counted, likely: Floats, normals: Floats) -> LinearEstimates:
    """Return estimates of averages over 1, 2, 4, ... cells in order, all along these.

    Parameters
    ----------
    counted : Counted
        Reports, the last cell of whose law is of users without an entry.
    likely : ndarray, shape (cells + 1,)
        Shares of the cells from others' reports: the better these are, the less noise there is.
    normals : ndarray, shape (cells + 1, draws)
        Independent standard normal numbers.

    Notes
    -----
    A weight of each report, such that the expected one falls from 1 to 0 in equal steps from cell
    to cell, estimates such an average. Of all such weights these have the least variance. What
    they are together is normal with the covariance that the reports' frequencies tell.
    """
    law, cells = counted.law, counted.law.shape[1] - 1
    spread = law / (law @ likely)[:, None]
    weights = np.linalg.pinv(law.T @ spread, hermitian=True) @ spread.T
    first, last = _windows(cells)
    places = np.arange(cells) + 0.5
    width = np.maximum(last - first, 1e-9)[:, None]
    wanted = np.clip((last[:, None] - places) / width, 0, 1)
    ramps = np.vstack([wanted, np.ones(cells)]) @ weights[:cells]
    total = counted.counts.sum()
    frequencies = counted.counts / total
    estimates = ramps @ frequencies
    centred = ramps - estimates[:, None]
    covariance = (centred * frequencies) @ centred.T / total
    covariance += np.diag(_ONE_MORE * (ramps**2).max(axis=1) / total**2)
    held = max(float(estimates[-1]), 1e-9)
    ratios = np.clip(estimates[:-1] / held, 0, 1)
    variances, with_held = np.diag(covariance)[:-1], covariance[:-1, -1]
    off = np.sqrt(variances - 2 * ratios * with_held + ratios**2 * covariance[-1, -1])
    values, vectors = np.linalg.eigh((weights * frequencies) @ weights.T)
    root = vectors * np.sqrt(np.maximum(values, 0) / total)
    of_cells = np.column_stack([wanted - ratios[:, None], np.zeros(len(wanted))])
    drawn = np.abs(of_cells @ root @ normals) / off[:, None]
    return LinearEstimates(
        first,
        last,
        np.column_stack([estimates[:-1], variances, with_held]),
        np.array([estimates[-1], covariance[-1, -1]]),
        np.sort(drawn.max(axis=0)),
    )


def _windows(cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last edges of averages over 1, 2, 4, ... cells, each half over the next."""
    pairs, width = [(edge, edge) for edge in range(1, cells)], 2
    while width < cells:
        pairs += [(at, at + width) for at in range(0, cells + 1 - width, width // 2)]
        width *= 2
    first, last = np.array(pairs or [(0, cells)], np.int64).T
    return first, last
